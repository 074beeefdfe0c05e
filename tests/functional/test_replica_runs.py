"""Real runs of the strategies of tf.distribute: rules 1 and 2, counts, and epochs that are divided."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.mpi_programs.train import TOLERANCES
from tests.functional.studies import Bench
from tests.functional.test_equal_windows import check_cuts, check_parts

pytestmark = [pytest.mark.tensorflow, pytest.mark.mpi, pytest.mark.slow, pytest.mark.timeout(700)]

# One sample of an epoch is left for a last step, in which all workers but the first have none.
EPOCHS, SAMPLES, BATCH, EVALUATED = 2, 201, 25, 101
STEPS = EPOCHS * (SAMPLES // BATCH + 1)
# After every fourth step the window is cut; steps 9 and 18 are remainders, and an evaluation follows each.
CUTS, PIECES = [4, 8, 12, 16], [2, 3, 2, 3, 1]
BASE = {
    "model": "mlp",
    "model.hidden": [9, 7],
    "dataset": "digits",
    "epochs": EPOCHS,
    "batch_size": BATCH,
    "batch_scope": "global",
    "train_samples": SAMPLES,
    "validation_samples": EVALUATED,
    "evaluation_batch_size": 24,
    "momentum": 0.9,
    "learning_rate": 0.5,
    "sample_every": 4,
    "gradient_accumulation_steps": 2,
}
DROPPING = "tests.functional.replica_programs.masks:network"
SABOTAGED = "tests.functional.replica_programs.sabotaged:OtherReplica"
POINTS = {
    "one": {"strategy": "single", "precision": "float64"},
    "mirrored": {"strategy": "mirrored", "precision": "float64", "workers": 3},
    "multi-worker": {"strategy": "multi-worker", "precision": "float64", "workers": 2, "input": "device"},
}
DIVIDED = {"strategy": "mirrored", "workers": 2, "divide": "epochs"}
ALONE = {"strategy": "mirrored", "workers": 1}
SOUND = ("mirrored", "multi-worker")

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
    with Bench(tmp_path_factory.mktemp("replicas")) as work:
        measure(work, list(POINTS.values()))
        yield work


@pytest.fixture(scope="module")
def rows(found: Bench) -> Rows:
    return dict(zip(POINTS, found.rows(), strict=True))


def losses(found: Bench, run_id: str) -> list[float]:
    """Return the loss of each step over all workers: the mean of the processes', by their samples."""
    sums: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in found.rows("steps"):
        samples = int(row["num_samples"])
        if row["run_id"] == run_id and samples:
            sums[int(row["step"])][0] += float(row["loss"]) * samples
            sums[int(row["step"])][1] += samples
    assert [samples for _, (_, samples) in sorted(sums.items())] == [BATCH] * 8 + [1] + [BATCH] * 8 + [1]
    return [loss / samples for _, (loss, samples) in sorted(sums.items())]


def test_workers_agree_and_equal_one_in_every_step(found: Bench, rows: Rows) -> None:
    for name in SOUND:
        row = rows[name]
        one, tolerance = rows["one"], TOLERANCES["float64"]
        assert row["workers_agree"] in ("exact", "close"), row
        expected = losses(found, one["run_id"])
        assert len(expected) == STEPS
        assert abs(expected[-2] / expected[0] - 1) > 0.05, "it learnt nothing, and the comparison would prove nothing"
        assert losses(found, row["run_id"]) == pytest.approx(expected, rel=tolerance), name
        for column in ("train_loss", "validation_loss"):
            assert float(row[column]) == pytest.approx(float(one[column]), rel=tolerance), name
        assert row["validation_accuracy"] == one["validation_accuracy"], name


@pytest.mark.soak  # unit tests compare every replica, and end the run
def test_a_replica_that_disagrees_ends_the_run_as_diverged(tmp_path: Path) -> None:
    with Bench(tmp_path) as work:
        measure(work, [{"strategy": SABOTAGED, "precision": "float64", "workers": 2}], code=1)
        (row,) = work.rows()
    assert (row["status"], row["workers_agree"]) == ("diverged", ""), row
    assert "workers disagree after step 1" in row["reason"]


def test_rows_count_steps_samples_processes_and_devices(found: Bench, rows: Rows) -> None:
    expected = {"steps": STEPS, "samples_seen": SAMPLES * EPOCHS, "samples_dropped": 0, "batch_size_global": BATCH}
    for name in SOUND:
        row = rows[name]
        assert {column: int(row[column]) for column in expected} == expected, name
        epochs = [epoch for epoch in found.rows("epochs") if epoch["run_id"] == row["run_id"]]
        assert sum(int(epoch["evaluated_samples"]) for epoch in epochs) == EPOCHS * EVALUATED, name
        assert sum(int(epoch["samples"]) for epoch in epochs) == SAMPLES * EPOCHS, name
        is_mirrored = row["strategy"] == "mirrored"
        processes = ("1", "") if is_mirrored else (row["workers"], "grpc")
        assert (row["processes"], row["collectives"]) == processes, name
        assert ("logical-devices" in row["emulated"]) == is_mirrored, name
        assert float(row["cores_per_worker"]) == float(rows["one"]["cores_per_worker"]), name


def test_the_window_is_cut_at_the_same_steps_and_its_parts_make_it_up(found: Bench) -> None:
    """Also where all of a step lies inside one call."""
    check_cuts(found, CUTS, PIECES)
    check_parts(found.rows())


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
        base = {"precision": "float64", "workers": 2, "model": DROPPING, "gradient_accumulation_steps": 3}
        measure(work, [base | {"strategy": strategy} for strategy in ("mpi", "mirrored")])
        expected, mirrored = (losses(work, row["run_id"]) for row in work.rows())
    assert mirrored == pytest.approx(expected, rel=1e-11)
