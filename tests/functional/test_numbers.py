"""Every number of a study, computed anew from the settings, or from the rows it was made from."""

import numpy as np
import pandas as pd
import pytest

from dlbench.api import Study, load_study
from tests.functional.studies import Bench

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(600)]

BASE = "trainer: numpy, model: softmax, dataset: digits, strategy: mpi, cores_per_worker: 1, batch_scope: global"
# It sleeps, so that a window of five seconds takes a core for less.
PACED = BASE.replace("numpy", '"tests.functional.paced:Trainer", trainer.step_s: 0.01', 1)
# Unequal local batches, marked steps, an evaluation that waits for the second epoch, a rate that warms up.
UNEQUAL = f"""\
base: {{{BASE}, algorithm: ring, epochs: 3, batch_size: 51, train_samples: 1021, validation_samples: 211, seed: 7,
  evaluate_every: 2, sample_every: 5, learning_rate: 0.1, learning_rate_base_batch: 100, learning_rate_scale: sqrt,
  warmup_epochs: 1.5}}
matrix: {{workers: [2]}}
repeats: 2
"""
# Epochs are divided, a target ends the run, and the window is extended.
DIVIDED = f"""\
base: {{{PACED}, algorithm: own-ring, workers: 2, epochs: 30, batch_size: 33, train_samples: 500, divide: epochs,
  evaluate_every: 2, learning_rate_base_batch: 64, learning_rate_scale: linear, learning_rate: 1.0,
  extend_window: true}}
target: {{metric: validation_accuracy, value: 0.6, stop: true}}
baseline: none
"""
PARTS = ["data_wait_s", "compute_time_s", "communication_time_s", "update_time_s"]
TRAINED = ["first", "warm-up", "timed", "sampled", "remainder"]
NANOSECONDS = 2e-9


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> list[Study]:
    """Run both scenarios from the command line."""
    found = []
    for text in (UNEQUAL, DIVIDED):
        with Bench(tmp_path_factory.mktemp("numbers")) as work:
            (work.folder / "s.yaml").write_text(text)
            work.call("s.yaml")
            found.append(load_study(work.study()))
    return found


class Run:
    """One run: its row, and its rows of epochs and steps."""

    def __init__(self, study: Study, row: pd.Series) -> None:
        tables = {name: pd.read_csv(study.path / f"{name}.csv") for name in ("epochs", "steps")}
        self.row = row
        self.epochs, self.steps = (table[table["run_id"] == row["run_id"]] for table in tables.values())
        self.workers, self.done = row["workers"], row["epochs_completed"]
        self.batches = [len(part) for part in np.array_split(np.empty(row["batch_size"]), self.workers)]
        self.divided = row["divide"] == "epochs"
        self.full_steps = row["train_samples"] // (max(self.batches) if self.divided else sum(self.batches))
        self.steps_per_epoch = self.full_steps
        if row["remainder"] == "train":
            self.steps_per_epoch = -(
                -row["train_samples"] // (min(self.batches) if self.divided else sum(self.batches))
            )
        self.timed = self.steps[self.steps["phase"].isin(["timed", "extended"])]
        self.trained = self.steps[self.steps["epoch"] > 0]

    def by_worker(self, column: str, rows: pd.DataFrame | None = None) -> pd.core.groupby.SeriesGroupBy:
        return (self.timed if rows is None else rows).groupby("worker")[column]


@pytest.fixture(scope="module")
def runs(studies: list[Study]) -> list[Run]:
    """Return all runs: an arm and its base line with two repeats, and the divided one."""
    found = [Run(study, row) for study in studies for _, row in study.runs.iterrows()]
    assert sorted((run.workers, run.row["strategy"]) for run in found) == [
        (1, "single"), (1, "single"), (2, "mpi"), (2, "mpi"), (2, "mpi"),
    ]  # fmt: skip
    return found


def test_some_workers_had_no_sample_in_a_last_step(runs: list[Run]) -> None:
    empty = [run for run in runs if (run.steps["num_samples"] == 0).any()]
    assert sorted(run.workers for run in empty) == [2, 2, 2]


def test_samples_and_steps_follow_from_the_settings(runs: list[Run]) -> None:
    for run in runs:
        row, steps = run.row, run.done * run.steps_per_epoch
        offered = row["train_samples"] * (run.workers if run.divided else 1)
        assert row["epochs_per_worker"] == (-(-row["epochs"] // run.workers) if run.divided else row["epochs"])
        assert row["batch_size_global"] == sum(run.batches)
        assert row["batch_size_per_worker"] == pytest.approx(sum(run.batches) / run.workers)
        assert row["steps"] == steps
        seen = run.done * (offered if row["remainder"] == "train" else run.full_steps * sum(run.batches))
        assert row["samples_seen"] == seen == run.trained["num_samples"].sum() == run.epochs["samples"].sum()
        assert row["samples_dropped"] == run.done * offered - row["samples_seen"]
        assert row["seed"] == row["repeat"] + (0 if run.divided else 7)
        assert pd.isna(row["batch_changes"])
        for worker, rows in run.steps.groupby("worker"):
            remainder = rows["phase"] == "remainder"
            assert set(rows["num_samples"][~remainder]) == {run.batches[worker]}
            places = (rows["step"] - 1) % run.steps_per_epoch
            assert remainder.equals((places >= run.full_steps) & (rows["epoch"] > 0))
            assert rows["step"].tolist() == list(range(1, len(rows) + 1))
            assert set(rows["phase"][rows["epoch"] > 0]) <= set(TRAINED)


def test_each_validation_sample_counts_once_at_each_evaluation(runs: list[Run]) -> None:
    for run in runs:
        found = run.epochs.dropna(subset=["validation_loss"]).groupby("epoch")
        due = [epoch for epoch in range(1, run.done + 1) if epoch % run.row["evaluate_every"] == 0 or epoch == run.done]
        assert sorted(found.groups) == due
        assert (found["evaluated_samples"].sum() == run.row["validation_samples"]).all()
        assert (found["validation_loss"].nunique() == 1).all()
        assert run.row["validation_loss"] == found["validation_loss"].first().iloc[-1]
        assert run.row["best_validation_accuracy"] == run.epochs["validation_accuracy"].max()
        assert run.row["evaluation_time_s"] == pytest.approx(run.by_worker("evaluation_time_s", run.epochs).sum().max())


def test_the_loss_of_an_epoch_is_that_of_all_samples_in_it(runs: list[Run]) -> None:
    for run in runs:
        # A share without samples has no loss.
        assert run.trained["loss"].isna().equals(run.trained["num_samples"] == 0)
        for epoch, rows in run.trained.dropna(subset=["loss"]).groupby("epoch"):
            mean = np.average(rows["loss"], weights=rows["num_samples"])
            stated = run.epochs["train_loss"][run.epochs["epoch"] == epoch]
            assert stated.tolist() == pytest.approx([mean] * run.workers, rel=1e-9)
        assert run.row["train_loss"] == stated.iloc[0]


def test_the_window_is_made_of_its_steps(runs: list[Run]) -> None:
    for run in runs:
        row, times = run.row, run.by_worker("step_time_s")
        assert times.size().tolist() == [row["timed_steps"]] * run.workers
        assert row["timed_window_s"] >= times.sum().max() - row["timed_steps"] * NANOSECONDS
        assert row["extended_steps"] * run.workers == (run.steps["phase"] == "extended").sum()
        assert row["warmup_steps"] * run.workers == run.steps["phase"].isin(["first", "warm-up"]).sum()
        assert row["sampled_steps"] * run.workers == (run.steps["phase"] == "sampled").sum()
        assert row["first_step_s"] == pytest.approx(run.steps["step_time_s"][run.steps["phase"] == "first"].max())
        assert row["step_time_p50_s"] == pytest.approx(np.percentile(run.timed["step_time_s"], 50), abs=NANOSECONDS)
        assert row["step_time_p95_s"] == pytest.approx(np.percentile(run.timed["step_time_s"], 95), abs=NANOSECONDS)


def test_a_rate_is_that_of_its_window_and_needs_five_seconds(runs: list[Run]) -> None:
    assert sum(pd.notna(run.row["samples_per_s"]) for run in runs) == 1
    for run in runs:
        row = run.row
        if row["timed_window_s"] >= 5 and row["timed_steps"] >= 50:
            assert row["samples_per_s"] == pytest.approx(run.timed["num_samples"].sum() / row["timed_window_s"])
            assert row["samples_per_s_per_worker"] == pytest.approx(row["samples_per_s"] / run.workers)
        else:
            assert pd.isna(row["samples_per_s"])


def test_a_step_is_the_sum_of_its_parts_and_the_row_their_mean(runs: list[Run]) -> None:
    for run in runs:
        parts = run.steps[[*PARTS, "peer_wait_s"]].sum(axis=1)
        assert np.abs(parts - run.steps["step_time_s"]).max() < 6 * NANOSECONDS
        for name in PARTS:
            sums = run.by_worker(name).sum(min_count=1)
            assert run.row[name] == pytest.approx(sums.mean(), abs=len(run.timed) * NANOSECONDS, nan_ok=True)
        assert pd.isna(run.row["communication_time_s"]) == (run.row["strategy"] == "single")
        marked = run.steps[run.steps["phase"] == "sampled"]
        assert len(marked)
        # Marked steps of the warm-up are not called so.
        outside = run.steps["phase"].isin(["sampled", "warm-up"])
        assert marked["peer_wait_s"].notna().all() == run.steps["peer_wait_s"].notna().any() == (run.workers > 1)
        assert (outside | run.steps["peer_wait_s"].isna()).all()
        for name, column in (("peer_wait_s", "peer_wait_s"), ("wire_time_s", "communication_time_s")):
            stated = run.by_worker(column, marked).median().mean()
            assert run.row[name] == pytest.approx(stated, abs=NANOSECONDS, nan_ok=True)


def test_the_parts_of_the_window_leave_next_to_nothing_of_it(runs: list[Run]) -> None:
    for run in runs:
        row, steps = run.row, run.timed
        known = [row[name] for name in (*PARTS, "bookkeeping_time_s", "closing_wait_s") if pd.notna(row[name])]
        assert row["bookkeeping_time_s"] > 0
        assert row["closing_wait_s"] > 0
        # The window lasts as long as the slowest worker saw of each piece, parts are means over workers: on cores that
        # they share with other tests, one leaves a barrier before the other.
        assert sum(known) <= row["timed_window_s"] + len(steps) * NANOSECONDS
        if row["extended_steps"]:  # the others' windows are some milliseconds
            assert sum(known) > (0.99 if row["workers"] == 1 else 0.97) * row["timed_window_s"]


def test_drift_is_that_of_the_windows_halves(runs: list[Run]) -> None:
    for run in runs:
        if pd.isna(run.row["samples_per_s"]):
            assert pd.isna(run.row["rate_drift"])
            continue
        half = run.row["timed_steps"] // 2
        times = [rows.to_numpy() for _, rows in run.by_worker("step_time_s")]
        stated = sum(worker[:half].sum() for worker in times) / sum(worker[-half:].sum() for worker in times) - 1
        assert run.row["rate_drift"] == pytest.approx(stated, abs=1e-6)


def test_training_time_covers_its_steps_and_wall_time_covers_training(runs: list[Run]) -> None:
    for run in runs:
        row, ends = run.row, run.epochs[run.epochs["epoch"] == run.done]
        assert row["train_time_s"] >= ends["train_time_s"].max()
        assert row["train_time_s"] >= run.by_worker("step_time_s", run.trained).sum().max()
        assert row["wall_time_s"] > row["startup_time_s"] + row["train_time_s"]
        assert (run.epochs["ended_at_s"] >= run.epochs["train_time_s"]).all()


def test_the_learning_rate_is_scaled_by_the_global_batch_and_warms_up(runs: list[Run]) -> None:
    for run in runs:
        full = 1.0 * 33 / 64 if run.divided else 0.1 * (51 / 100) ** 0.5
        warmup_steps = 0 if run.divided else 1.5 * run.steps_per_epoch
        assert run.row["learning_rate"] == pytest.approx(full)
        for epoch in run.epochs.itertuples():
            share = min(1.0, epoch.steps / warmup_steps) if warmup_steps else 1.0
            assert epoch.learning_rate == pytest.approx(full * share)
            assert epoch.steps == epoch.epoch * run.steps_per_epoch


def test_bytes_are_those_of_the_ring(runs: list[Run]) -> None:
    for run in runs:
        row = run.row
        # 2 (p - 1) n elements over all ranks in each step, of 4 bytes; see `dlbench.strategies._volume`.
        sent = 2 * (run.workers - 1) * row["num_parameters"] * 4
        assert row["num_parameters"] == 65 * 10
        assert row["bytes_sent"] == sent * row["steps"]
        assert row["bytes_sent_per_step"] == pytest.approx(sent / run.workers)


def test_a_target_is_reached_at_an_evaluation_after_so_much_training(runs: list[Run]) -> None:
    for run in runs:
        evaluated = run.epochs.dropna(subset=["validation_loss"])
        reached = evaluated[evaluated["validation_accuracy"] >= 0.6]["epoch"]
        if not run.divided:
            assert pd.isna(run.row["time_to_target_s"])
            continue
        assert run.row["epochs_to_target"] == reached.min() == run.done < run.row["epochs_per_worker"]
        then = run.epochs[run.epochs["epoch"] == reached.min()]["train_time_s"].max()
        assert then <= run.row["time_to_target_s"] <= run.row["train_time_s"]


def test_repeats_pair_and_workers_agree(runs: list[Run]) -> None:
    assert {run.row["workers_agree"] for run in runs} == {"exact"}
    by_seed: dict[int, list[float]] = {}
    for run in runs:
        if not run.divided:
            by_seed.setdefault(run.row["seed"], []).append(run.row["validation_loss"])
    assert sorted(by_seed) == [7, 8]
    for losses in by_seed.values():
        assert losses == pytest.approx([losses[0]] * 2, rel=1e-5)
    assert by_seed[7][0] != by_seed[8][0]
