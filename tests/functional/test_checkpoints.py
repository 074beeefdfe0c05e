"""Runs resume from checkpoints: whichever process is killed, and when, the result is that of an undisturbed run."""

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dlbench.launch.processes import leftovers
from dlbench.telemetry.journal import read_journal
from tests.functional.small_disk import small_disk
from tests.functional.studies import Bench, interrupt, wait_for

SEED = int(os.environ.get("DLBENCH_TEST_SEED", "1"))
NUMPY = "trainer: numpy, model: mlp, model.hidden: [64, 64], optimizer: {optimizer}"
# It sleeps: as long as it trains, it takes little of a core.
PACED = NUMPY.replace("numpy", '"tests.functional.paced:Trainer", trainer.step_s: 0.01')
# Batch norm, dropout, and a convolution: all that a network can remember from step to step.
NETWORK = """\
def network(problem):
    from keras import Sequential, layers

    return Sequential([
        layers.Input(problem.input_shape),
        layers.Conv2D(4, 3),
        layers.BatchNormalization(momentum=0.9),
        layers.Flatten(),
        layers.Dropout(0.3),
        layers.Dense(problem.num_classes),
    ])
"""
KERAS = (
    "trainer: keras_tensorflow, model: 'remembering:network', augmentation: crop-flip, augmentation_padding: 1, "
    "{optimizer}"
)
SCENARIO = """\
base: {{{base}, dataset: {dataset}, strategy: {strategy}, workers: {workers}, cores_per_worker: 1, epochs: {epochs},
  batch_size: 16, train_samples: {samples}, learning_rate: 0.001, warmup_epochs: 2.5, evaluate_every: {evaluate_every},
  checkpoint_every: {checkpoint_every}}}
baseline: none
orphan_timeout_s: 5
grace_s: 1
flush_interval_s: 0.05
{more}
"""
# Columns of the last attempt that an interruption must not change.
RUN = (
    "status", "steps", "epochs_completed", "samples_seen", "samples_dropped", "train_loss", "train_accuracy",
    "validation_loss", "validation_accuracy", "best_validation_accuracy", "bytes_sent", "workers_agree",
)  # fmt: skip
EPOCH = (
    "worker", "epoch", "steps", "samples", "learning_rate", "train_loss", "train_accuracy", "validation_loss",
    "validation_accuracy", "evaluated_samples",
)  # fmt: skip


def scenario(work: Bench, base: str, workers: int, more: str = "", **settings: int | str) -> str:
    """Write a scenario and the network it may name; return the scenario's file name."""
    (work.folder / "remembering.py").write_text(NETWORK)
    given = {"epochs": 12, "evaluate_every": 3, "checkpoint_every": 2, "dataset": "digits", "samples": 640} | settings
    given = {"strategy": "mpi" if workers > 1 else "single"} | given
    text = SCENARIO.format(base=base, workers=workers, more=more, **given)
    (work.folder / "s.yaml").write_text(text)
    return "s.yaml"


def result(work: Bench) -> tuple[dict[str, str], list[dict[str, str]], list[str | None]]:
    """Return what the last attempt computed: its row, its epochs, and the hash of each worker's weights."""
    last = work.rows()[-1]
    epochs = [row for row in work.rows("epochs") if row["attempt"] == last["attempt"]]
    epochs.sort(key=lambda row: (int(row["worker"]), int(row["epoch"])))
    journal = read_journal(work.study() / "runs" / last["run_id"] / last["attempt"] / "journal.jsonl")
    hashes = [journal.results[worker].weights_hash for worker in sorted(journal.results)]
    return {name: last[name] for name in RUN}, [{name: row[name] for name in EPOCH} for row in epochs], hashes


def newest_epoch(work: Bench) -> int:
    """Return the epoch of the newest checkpoint; 0 where there is none."""
    names = [path.stem for path in work.folder.glob("studies/*/checkpoints/*/epoch-*.npz")]
    return max((int(name.removeprefix("epoch-")) for name in names), default=0)


def has_made(num_checkpoints: int, work: Bench) -> Callable[[], bool]:
    """Return a function that says whether the next attempt has made so many; nothing is left of earlier ones then."""
    num_before = len(assignments(work))

    def is_so() -> bool:
        begun = assignments(work)[num_before:]
        times = [written_at(path) for path in work.folder.glob("studies/*/checkpoints/*/epoch-*.npz")]
        return bool(begun) and sum(time_ns > written_at(begun[-1]) for time_ns in times) >= num_checkpoints

    return is_so


def assignments(work: Bench) -> list[Path]:
    """Return the assignments of all attempts, the newest last."""
    return sorted(work.folder.glob("studies/*/runs/*/*/assignment.json"), key=written_at)


def written_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0  # an older checkpoint goes as a newer one comes


def pids_of_workers(work: Bench) -> list[int]:
    """Return the worker processes of the newest attempt, as far as they are there."""
    paths = assignments(work)
    found = leftovers(json.loads(paths[-1].read_text())["attempt_id"]) if paths else []
    return [pid for pid in found if "python" in Path(f"/proc/{pid}/exe").resolve().name]


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def cut(work: Bench, arguments: list[str], moment: Callable[[], bool], delay_s: float, victim: str) -> None:
    """Start or continue a study, and kill dlbench or a worker some time after a moment."""
    with work.start(*arguments) as process:
        try:
            wait_for(process, moment, timeout_s=120)
            time.sleep(delay_s)
            pids = pids_of_workers(work)
            kill(process.pid if victim == "dlbench" or not pids else pids[int(victim) % len(pids)])
            process.communicate(timeout=60)
        finally:
            process.kill()


def interrupted(work: Bench, *arguments: str) -> None:
    """Start or continue a study, and interrupt it once its attempt has made as many checkpoints as are kept."""
    moment = has_made(2, work)
    with work.start(*arguments) as process:
        try:
            wait_for(process, moment)
            interrupt(process)
        finally:
            process.kill()


@contextmanager
def left_alone(folder: Path, base: str, workers: int, **settings: int | str) -> Iterator[Bench]:
    folder.mkdir()
    with Bench(folder) as work:
        work.call(scenario(work, base, workers, **settings))
        yield work


def must_be_resumed(work: Bench, whole: Bench) -> list[dict[str, str]]:
    """Complete a study that was cut; the result must be that of the whole one. Return its rows."""
    work.call("s.yaml", "--resume")
    assert result(work) == result(whole)
    rows = work.rows()
    assert rows[-1]["resumed_from_epoch"] != ""
    assert {row["status"] for row in rows[:-1]} <= {"interrupted", "failed"}
    assert work.left_running() == []
    assert not (work.study() / "checkpoints").exists()
    return rows


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.soak  # a loop with its policy goes on to the bit in a test of its own
@pytest.mark.parametrize("workers", [1, 3])
def test_a_batch_that_doubles_is_resumed_where_it_was(tmp_path: Path, workers: int) -> None:
    base = NUMPY.format(optimizer="sgd") + ", batch_policy: step-doubling, batch_doubling_epochs: 9"
    base += ", largest_batch_size: 128"
    settings = {"epochs": 120}
    with left_alone(tmp_path / "whole", base, workers, **settings) as whole, Bench(tmp_path) as work:
        arguments = scenario(work, base, workers, **settings)
        cut(work, [arguments], has_made(2, work), 0.5, "dlbench")
        rows = must_be_resumed(work, whole)
        last = [row["step"] for row in work.rows("batch_changes") if row["attempt"] == rows[-1]["attempt"]]
        assert last == [row["step"] for row in whole.rows("batch_changes")]
        assert rows[-1]["batch_size_last"] == str(128 * workers)


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.soak
def test_killed_again_and_again_at_random_moments(tmp_path: Path) -> None:
    """Two workers of NumPy with momentum: parameters and velocity are all there is to restore."""
    draw = random.Random(SEED)
    # Wide enough for an epoch of some 20 ms: workers whose dlbench was killed go on until the next one ends them.
    base = "trainer: numpy, model: mlp, model.hidden: [256, 256], optimizer: sgd, momentum: 0.9, nesterov: true"
    settings = {"epochs": 100, "evaluate_every": 7}
    (tmp_path / "cut").mkdir()
    with left_alone(tmp_path / "whole", base, 2, **settings) as whole, Bench(tmp_path / "cut") as work:
        arguments = [scenario(work, base, 2, **settings)]
        for victim in draw.sample(["dlbench", draw.choice("01")], 2):
            cut(work, arguments, has_made(1, work), draw.uniform(0, 0.3), victim)
            arguments = ["s.yaml", "--resume"]
        rows = must_be_resumed(work, whole)
        resumed = [int(row["resumed_from_epoch"] or 0) for row in rows]
        assert resumed == sorted(resumed)
        assert len(rows) == 3
        must_have_right_totals(work, rows[-1])


def must_have_right_totals(work: Bench, row: dict[str, str]) -> None:
    """Check the times of the last row, and which attempt trained which epoch."""
    epochs = [epoch for epoch in work.rows("epochs") if (epoch["attempt"], epoch["worker"]) == (row["attempt"], "0")]
    trained = [int(epoch["trained_in_attempt"]) for epoch in epochs]
    assert trained == sorted(trained)
    assert {epoch["ended_at_s"] == "" for epoch in epochs if epoch["trained_in_attempt"] != row["attempt"]} == {True}
    assert trained.count(int(row["attempt"])) == len(epochs) - int(row["resumed_from_epoch"])
    assert float(row["train_time_s"]) >= float(epochs[-1]["train_time_s"])
    times = [float(epoch["train_time_s"]) for epoch in epochs]
    assert times == sorted(times)
    own = [step for step in work.rows("steps") if step["attempt"] == row["attempt"]]
    per_epoch = int(row["steps"]) // int(row["epochs_completed"])
    first = per_epoch * int(row["resumed_from_epoch"]) + 1
    assert [int(step["step"]) for step in own if step["worker"] == "0"] == list(range(first, int(row["steps"]) + 1))
    # Where workers outlived their dlbench to the last checkpoint, there was nothing left to train.
    assert (float(row["checkpoint_time_s"]) > 0) is (row["checkpoint_bytes"] != "") is bool(own)


@pytest.mark.slow
def test_killed_while_a_checkpoint_is_written(tmp_path: Path) -> None:
    """A writer leaves a temporary file behind: no run resumes from it."""
    base = "trainer: numpy, model: mlp, model.hidden: [600, 600], optimizer: adam"
    settings = {"epochs": 6, "checkpoint_every": 1, "evaluate_every": 3, "samples": 64}
    (tmp_path / "cut").mkdir()
    with left_alone(tmp_path / "whole", base, 1, **settings) as whole, Bench(tmp_path / "cut") as work:
        name = scenario(work, base, 1, **settings)

        def is_writing() -> bool:
            return newest_epoch(work) >= 2 and any(work.folder.glob("studies/*/checkpoints/*/.epoch-*"))

        cut(work, [name], is_writing, 0.0, "0")
        must_be_resumed(work, whole)


@pytest.mark.tensorflow
@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.soak  # that a trainer with such a memory comes back to the bit is a part of the trainers' contract
def test_a_network_with_a_memory_resumes_to_the_bit(tmp_path: Path) -> None:
    """Two workers of Keras: Adam's slots, each worker's own moving statistics, dropout's and augmentation's draws."""
    base = KERAS.format(optimizer="optimizer: adam")
    (tmp_path / "cut").mkdir()
    with left_alone(tmp_path / "whole", base, 2, epochs=6) as whole, Bench(tmp_path / "cut") as work:
        name = scenario(work, base, 2, epochs=6)
        cut(work, [name], lambda: newest_epoch(work) >= 2, 0.0, "1")
        (_, last) = must_be_resumed(work, whole)
        assert int(last["resumed_from_epoch"]) >= 2


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.parametrize(
    "compression",
    [
        "top-k, compression.density: 0.05, compression.momentum: 0.5, compression.warmup_steps: 200",
        "threshold",
        "low-rank",
        "half",
        "eight-bit",
    ],
)
@pytest.mark.soak  # unit tests resume each compressor from its state
def test_what_compression_left_out_is_kept(tmp_path: Path, compression: str) -> None:
    base = f"{NUMPY.format(optimizer='sgd')}, compression: {compression}"
    (tmp_path / "cut").mkdir()
    with left_alone(tmp_path / "whole", base, 3) as whole, Bench(tmp_path / "cut") as work:
        name = scenario(work, base, 3)
        cut(work, [name], lambda: newest_epoch(work) >= 4, 0.0, "1")
        must_be_resumed(work, whole)
        assert (whole.rows()[0]["workers_agree"], float(whole.rows()[0]["encoding_time_s"]) > 0) == ("exact", True)


@pytest.mark.tensorflow
@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.soak
def test_a_table_on_servers_is_kept_whole(tmp_path: Path) -> None:
    """Three workers of Keras, each with a third of the embedding's rows."""
    base = (
        "trainer: keras_tensorflow, model: feed_forward_lm, dataset.num_samples: 800, dataset.shape: [10], "
        "dataset.vocabulary: 2000, dataset.noise: 0.5"
    )
    others = {"strategy": "parallax", "dataset": "synthetic", "epochs": 6}
    (tmp_path / "cut").mkdir()
    with left_alone(tmp_path / "whole", base, 3, **others) as whole, Bench(tmp_path / "cut") as work:
        name = scenario(work, base, 3, **others)
        cut(work, [name], lambda: newest_epoch(work) >= 2, 0.0, "1")
        (_, last) = must_be_resumed(work, whole)
        assert last["routes"] == whole.rows()[0]["routes"]
        assert last["routes"].startswith("embedding: server (touched 0.0")


def test_a_time_out_an_interruption_and_a_damaged_checkpoint(tmp_path: Path) -> None:
    with Bench(tmp_path) as work:
        name = scenario(work, PACED.format(optimizer="adam"), 1, "timeout_s: 6", epochs=100_000, samples=160)
        interrupted(work, name)
        at_interruption = newest_epoch(work)
        work.call(name, "--resume", code=1)
        # Two are kept; a worker that is ended before it has discarded the third leaves that, too.
        *_, before, newest = sorted(
            work.folder.glob("studies/*/checkpoints/*/epoch-*.npz"),
            key=lambda path: int(path.stem.removeprefix("epoch-")),
        )
        newest.write_bytes(b"not what it was")
        interrupted(work, name, "--resume")
        rows = work.rows()
    assert [row["status"] for row in rows] == ["interrupted", "timeout", "interrupted"]
    # The row of an attempt that did not end well, too, has the epoch where it had begun.
    resumed_from = ["", str(at_interruption), before.stem.removeprefix("epoch-")]
    assert [row["resumed_from_epoch"] for row in rows] == resumed_from
    assert [row["checkpoint_note"].count("was not used: it cannot be read") for row in rows] == [0, 0, 1]


def test_checkpoints_stay_where_they_are_asked_for(tmp_path: Path) -> None:
    with Bench(tmp_path) as work:
        name = scenario(work, NUMPY.format(optimizer="sgd"), 1, "keep_checkpoints: true", epochs=6)
        work.call(name)
        work.call(name, "--resume")
        assert newest_epoch(work) == 6


def test_a_full_disk_costs_the_checkpoint_not_the_run(tmp_path: Path) -> None:
    (tmp_path / "studies").mkdir()
    with small_disk(tmp_path / "studies", "2m"), Bench(tmp_path) as work:
        name = scenario(work, "trainer: numpy, model: mlp, model.hidden: [512, 512], optimizer: adam", 1, epochs=4)
        work.call(name)
        (row,) = work.rows()
        assert row["status"] == "completed"
        assert row["checkpoint_bytes"] == ""
        assert "after epoch 2 could not be written: No space left on device" in row["checkpoint_note"]
