"""Real runs of the strategies of tf.distribute: rules 1 and 2, counts, sabotages, and what is refused."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.studies import Bench, bench

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow, pytest.mark.timeout(700)]

TOLERANCES = {"float64": 1e-12, "float32": 1e-5}
BASE = (
    "model: mlp, model.hidden: [9, 7], dataset: digits, epochs: 2, batch_size: 25, batch_scope: global, "
    "train_samples: 210, validation_samples: 101, evaluation_batch_size: 24, optimizer: sgd, momentum: 0.9, "
    "learning_rate: 0.2, precision: float64"
)
SCENARIO = "name: s\nbase: {{{base}, {more}}}\nmatrix: {{{matrix}}}\nbaseline: {baseline}\norder: written\n"
STEPS, EPOCHS, DROPPED = 16, 2, 20

Row = dict[str, str]


def study(
    folder: Path, more: str, matrix: str, baseline: str = "auto", timeout_s: float = 400, command: str = "run"
) -> tuple[Bench, int, str]:
    """Run a scenario and return the folder, the exit code and the output."""
    with bench(folder) as found:
        path = folder / "s.yaml"
        path.write_text(SCENARIO.format(base=BASE, more=more, matrix=matrix, baseline=baseline))
        code, output = found.run(path, timeout_s=timeout_s)
    return found, code, output


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("mirrored", "2, 3, 4"), id="mirrored"),
        pytest.param(("multi-worker", "2, 3"), id="multi-worker", marks=pytest.mark.mpi),
    ],
)
def sound(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Return a study of one strategy with several numbers of workers, in both precisions, with base lines."""
    strategy, workers = request.param
    matrix = f"precision: [float64, float32], workers: [{workers}]"
    found, code, output = study(tmp_path_factory.mktemp("sound"), f"strategy: {strategy}", matrix, timeout_s=600)
    assert code == 0, output
    return found


def arms(found: Bench) -> Iterator[tuple[Row, Row]]:
    """Yield each run of several workers with the base line of its precision."""
    rows = found.rows()
    single = {row["precision"]: row for row in rows if row["strategy"] == "single"}
    assert set(single) == set(TOLERANCES)
    many = [row for row in rows if row["strategy"] != "single"]
    assert len(many) >= 4
    yield from ((row, single[row["precision"]]) for row in many)


def losses(found: Bench, run_id: str) -> list[float]:
    """Return the loss of each step over all workers: the mean of the processes', by their samples."""
    sums: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in found.rows("steps"):
        if row["run_id"] == run_id:
            samples = int(row["num_samples"])
            sums[int(row["step"])][0] += float(row["loss"]) * samples
            sums[int(row["step"])][1] += samples
    assert {samples for _, samples in sums.values()} == {25}
    return [loss / samples for _, (loss, samples) in sorted(sums.items())]


def test_workers_agree(sound: Bench) -> None:
    for row, _ in arms(sound):
        assert row["workers_agree"] in ("exact", "close"), row


def test_many_workers_equal_one_in_every_step(sound: Bench) -> None:
    for row, single in arms(sound):
        many, one = losses(sound, row["run_id"]), losses(sound, single["run_id"])
        assert len(many) == STEPS
        assert abs(one[-1] / one[0] - 1) > 0.05, "it learnt nothing, and the comparison would prove nothing"
        assert many == pytest.approx(one, rel=TOLERANCES[row["precision"]])


def test_scores_are_those_of_one_worker(sound: Bench) -> None:
    for row, single in arms(sound):
        for name in ("train_loss", "validation_loss"):
            assert float(row[name]) == pytest.approx(float(single[name]), rel=TOLERANCES[row["precision"]])
        assert row["validation_accuracy"] == single["validation_accuracy"]


def test_steps_samples_and_evaluations_are_counted_once(sound: Bench) -> None:
    for row, _ in arms(sound):
        told = {name: int(row[name]) for name in ("steps", "samples_seen", "samples_dropped", "batch_size_global")}
        assert told == {"steps": STEPS, "samples_seen": 25 * STEPS, "samples_dropped": DROPPED, "batch_size_global": 25}
        epochs = [epoch for epoch in sound.rows("epochs") if epoch["run_id"] == row["run_id"]]
        assert sum(int(epoch["evaluated_samples"]) for epoch in epochs) == EPOCHS * 101
        assert sum(int(epoch["samples"]) for epoch in epochs) == 25 * STEPS


def test_processes_devices_and_collectives_are_told_as_they_are(sound: Bench) -> None:
    for row, single in arms(sound):
        if row["strategy"] == "mirrored":
            assert (row["processes"], row["collectives"]) == ("1", "")
            assert "logical-devices" in row["emulated"]
        else:
            assert (row["processes"], row["collectives"]) == (row["workers"], "grpc")
            assert "logical-devices" not in row["emulated"]
        assert float(row["cores_per_worker"]) == float(single["cores_per_worker"])


@pytest.mark.parametrize("sabotage", ["NoReduction", "OtherReplica"])
def test_replicas_that_disagree_end_the_run_as_diverged(
    tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch, sabotage: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(pytestconfig.rootpath))
    strategy = f'strategy: "tests.functional.replica_programs.sabotaged:{sabotage}"'
    found, code, output = study(tmp_path, strategy, "workers: [2]", "none")
    assert code == 1, output
    (row,) = found.rows()
    assert (row["status"], row["workers_agree"]) == ("diverged", ""), row
    assert "workers disagree after step 1" in row["reason"]


def test_one_worker_and_epochs_divided_over_workers(tmp_path: Path) -> None:
    more = "strategy: mirrored, divide: epochs, epochs: 4"
    found, code, output = study(tmp_path, more.replace("epochs: 4", "evaluate_every: 1"), "workers: [1, 2]", "none")
    assert code == 0, output
    one, two = found.rows()
    assert (one["workers"], one["processes"], one["emulated"].count("logical-devices")) == ("1", "1", 0)
    assert (one["workers_agree"], two["workers_agree"]) == ("exact", "exact")
    # Two workers share two epochs: each sees all samples once, in batches of 13 and 12, as many steps as the longer.
    assert (int(two["epochs_completed"]), int(two["steps"])) == (1, 210 // 13)
    assert int(two["samples_seen"]) == 25 * (210 // 13)
    assert int(two["samples_dropped"]) == 2 * 210 - 25 * (210 // 13)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("strategy: mirrored, workers: 2, mode: scale-out", "mode: scale-up"),
        ("strategy: mirrored, workers: 2, jit_compile: true", "jit_compile"),
        ("strategy: mirrored, workers: 2, trainer: numpy", "keras_tensorflow"),
        ("strategy: mirrored, workers: 3, strategy.cross_device_ops: hierarchical_copy", "even number of workers"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, more: str, reason: str) -> None:
    with bench(tmp_path) as found:
        path = tmp_path / "s.yaml"
        path.write_text(SCENARIO.format(base=BASE, more=more, matrix="batch_size: [25]", baseline="none"))
        code, output = found.run(path, "--hosts", "a:2,b:4", "--dry-run", timeout_s=60)
    assert code == 2, output
    assert reason in " ".join(output.split())
