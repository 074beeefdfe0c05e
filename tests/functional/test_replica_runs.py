"""Real runs of Keras's engines, DDP and the strategies of tf.distribute: all train as one worker on TensorFlow.

Rules 1 and 2 in every step, counts, and epochs that are divided.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.mpi_programs.launch import QUICK_XLA
from tests.functional.mpi_programs.train import TOLERANCES
from tests.functional.studies import Bench
from tests.functional.test_equal_windows import check_cuts, check_parts

pytestmark = [pytest.mark.tensorflow, pytest.mark.mpi, pytest.mark.slow, pytest.mark.timeout(700)]

# One sample of an epoch is left for a last step, in which all workers but the first have none.
EPOCHS, SAMPLES, BATCH, EVALUATED = 2, 201, 25, 101
STEPS = EPOCHS * (SAMPLES // BATCH + 1)
SHARES = EPOCHS * [*SAMPLES // BATCH * [BATCH], SAMPLES % BATCH]
# After every fourth step the window is cut; steps 9 and 18 are remainders, and an evaluation follows each.
CUTS, PIECES = [4, 8, 12, 16], [2, 3, 2, 3, 1]
BASE = {
    "model": "cnn",
    "model.filters": [3],
    "model.batch_norm": "synchronized",
    "dataset": "digits",
    "epochs": EPOCHS,
    "batch_size": BATCH,
    "batch_scope": "global",
    "train_samples": SAMPLES,
    "validation_samples": EVALUATED,
    "evaluation_batch_size": 24,
    "momentum": 0.9,
    "learning_rate": 0.1,
    "sample_every": 4,
    "precision": "float64",
}
DROPPING = "tests.functional.replica_programs.masks:network"
SABOTAGED = "tests.functional.replica_programs.sabotaged:OtherReplica"
POINTS: dict[str, dict[str, Any]] = {
    "one": {"strategy": "single"},
    "mirrored": {"strategy": "mirrored", "workers": 3},
    "multi-worker": {"strategy": "multi-worker", "workers": 2, "input": "device"},
    "ddp": {"backend": "torch", "strategy": "ddp", "workers": 2, "launcher": "torchrun", "input": "device"},
    "torch": {"backend": "torch", "strategy": "single", "model.batch_norm": "local"},
    "jax": {"backend": "jax", "strategy": "mirrored", "workers": 2},
    "jax in calls": {"backend": "jax", "strategy": "single", "steps_per_execution": 4, "input": "device"},
}
REPLICATED = [name for name, point in POINTS.items() if point["strategy"] != "single"]
# Steps of each call: the first is made alone, and those that fill no call one by one.
CALLS = [1, 4, 1, 1, 1, 1, 4, 4, 1]
DIVIDED = {"strategy": "mirrored", "workers": 2, "divide": "epochs"}
ALONE = {"strategy": "mirrored", "workers": 1}

Row = dict[str, str]
Rows = dict[str, Row]


def measure(work: Bench, points: list[dict[str, Any]], code: int = 0) -> None:
    """Make a study of these points."""
    path = work.folder / "s.yaml"
    path.write_text(json.dumps({"base": BASE, "include": points, "baseline": "none", "order": "written"}))
    work.call(path, code=code)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Return one study of all points."""
    with Bench(tmp_path_factory.mktemp("replicas")) as work, pytest.MonkeyPatch.context() as patch:
        for name, value in QUICK_XLA.items():
            patch.setenv(name, value)
        measure(work, list(POINTS.values()))
        yield work


@pytest.fixture(scope="module")
def rows(found: Bench) -> Rows:
    return dict(zip(POINTS, found.rows(), strict=True))


def calls_of(found: Bench, run_id: str) -> dict[int, tuple[int, float]]:
    """Return samples and sum of losses, over all workers, of each call of one step or several, by its last step."""
    sums: dict[int, tuple[int, float]] = {}
    for row in found.rows("steps"):
        samples = int(row["num_samples"])
        if row["run_id"] == run_id and samples:
            before, total = sums.get(int(row["step"]), (0, 0.0))
            sums[int(row["step"])] = before + samples, total + float(row["loss"]) * samples
    return dict(sorted(sums.items()))


def test_all_train_as_one_worker_in_every_step(found: Bench, rows: Rows) -> None:
    one, tolerance = rows["one"], TOLERANCES["float64"]
    expected = calls_of(found, one["run_id"])
    assert [samples for samples, _ in expected.values()] == SHARES
    assert abs(expected[STEPS - 1][1] / expected[1][1] - 1) > 0.05, "it learnt nothing: nothing would be proven"
    for name, row in rows.items():
        assert row["status"] == "completed", (name, row["reason"])
        assert row["workers_agree"] in ("exact", "close"), name
        done = 0
        for step, (samples, loss) in calls_of(found, row["run_id"]).items():
            steps = [expected[number] for number in range(done + 1, step + 1)]
            assert samples == sum(samples_of_one for samples_of_one, _ in steps), (name, step)
            assert loss == pytest.approx(sum(loss_of_one for _, loss_of_one in steps), rel=tolerance), (name, step)
            done = step
        assert done == STEPS, name
        for column in ("train_loss", "validation_loss"):
            assert float(row[column]) == pytest.approx(float(one[column]), rel=tolerance), name
        for column in ("train_accuracy", "validation_accuracy"):
            assert row[column] == one[column], name


@pytest.mark.soak  # unit tests compare every replica, and end the run
def test_a_replica_that_disagrees_ends_the_run_as_diverged(tmp_path: Path) -> None:
    with Bench(tmp_path) as work:
        measure(work, [{"strategy": SABOTAGED, "workers": 2}], code=1)
        (row,) = work.rows()
    assert (row["status"], row["workers_agree"]) == ("diverged", ""), row
    assert "workers disagree after step 1" in row["reason"]


def test_rows_count_steps_samples_processes_and_devices(found: Bench, rows: Rows) -> None:
    expected = {"steps": STEPS, "samples_seen": SAMPLES * EPOCHS, "samples_dropped": 0, "batch_size_global": BATCH}
    moved = {"multi-worker": "grpc", "ddp": "gloo"}
    for name in REPLICATED:
        row = rows[name]
        assert {column: int(row[column]) for column in expected} == expected, name
        epochs = [epoch for epoch in found.rows("epochs") if epoch["run_id"] == row["run_id"]]
        assert sum(int(epoch["evaluated_samples"]) for epoch in epochs) == EPOCHS * EVALUATED, name
        assert sum(int(epoch["samples"]) for epoch in epochs) == SAMPLES * EPOCHS, name
        is_mirrored = row["strategy"] == "mirrored"
        processes = ("1", "") if is_mirrored else (row["workers"], moved[name])
        assert (row["processes"], row["collectives"]) == processes, name
        assert ("logical-devices" in row["emulated"]) == is_mirrored, name
        assert float(row["cores_per_worker"]) == float(rows["one"]["cores_per_worker"]), name


def test_rows_name_the_engine(rows: Rows) -> None:
    for name, row in rows.items():
        engine = POINTS[name].get("backend", "tensorflow")
        versions = {other for other in ("tensorflow", "torch", "jax") if row[f"{other}_version"]}
        assert (row["backend"], versions) == (engine, {engine}), name
        assert row["input"] == POINTS[name].get("input", "mapped"), name
    assert rows["ddp"]["launcher"] == "torchrun"
    assert rows["ddp"]["workers_agree"] == "exact"
    assert {row["tf32"] for row in rows.values()} == {"false"}


def test_a_row_says_how_many_steps_its_call_has_made(found: Bench, rows: Rows) -> None:
    for name, row in rows.items():
        assert (row["step_time_p50_s"] == "") == (name == "jax in calls"), name
    run = rows["jax in calls"]
    steps = [step for step in found.rows("steps") if step["run_id"] == run["run_id"]]
    assert [int(step["num_steps"]) for step in steps] == CALLS
    assert int(run["samples_seen"]) == SAMPLES * EPOCHS


def test_the_window_is_cut_at_the_same_steps_and_its_parts_make_it_up(found: Bench, rows: Rows) -> None:
    """Also where all of a step lies inside one call."""
    of_single_steps = [row for name, row in rows.items() if name != "jax in calls"]
    check_cuts(found, CUTS, PIECES, of_single_steps)
    check_parts(of_single_steps)


@pytest.mark.soak  # one worker and divided epochs are tested over MPI
def test_one_replica_and_epochs_that_are_divided_over_two(tmp_path: Path) -> None:
    with Bench(tmp_path) as work:
        measure(work, [ALONE, DIVIDED])
        alone, row = work.rows()
    assert (alone["workers"], alone["processes"], alone["workers_agree"]) == ("1", "1", "exact")
    assert "logical-devices" not in alone["emulated"]
    # Two workers share two epochs: each sees all samples once, in batches of 13 and 12, in as many steps as these need.
    steps = -(-SAMPLES // 12)
    assert row["workers_agree"] == "exact"
    assert (int(row["epochs_completed"]), int(row["steps"])) == (1, steps)
    assert (int(row["samples_seen"]), int(row["samples_dropped"])) == (2 * SAMPLES, 0)


@pytest.mark.soak
def test_dropout_is_the_same_in_one_process_as_in_many(tmp_path: Path) -> None:
    """What each replica drops is tested with the other rules of replicas."""
    with Bench(tmp_path) as work:
        base = {"workers": 2, "model": DROPPING, "gradient_accumulation_steps": 3}
        measure(work, [base | {"strategy": strategy} for strategy in ("mpi", "mirrored")])
        expected, mirrored = (
            [loss for _, loss in ends.values()] for ends in (calls_of(work, row["run_id"]) for row in work.rows())
        )
    assert mirrored == pytest.approx(expected, rel=1e-11)
