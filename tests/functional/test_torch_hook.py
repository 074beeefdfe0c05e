"""PyTorch loops with one line of dlbench: their rows are what they have logged themselves."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.functional.studies import Bench
from tests.functional.worker_runs import SCRIPTS

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")

SCRIPT = SCRIPTS / "torch_loop.py"
COMMAND = f"python '{SCRIPT}' --epochs {{epochs}} --batch-size {{batch_size}} --lr {{learning_rate}}"
EPOCHS = 6
ONE = {"workers": 1, "strategy": "single", "command": f"{COMMAND} --size 1"}
TWO = {"workers": 2, "strategy": "mpi", "launcher": "torchrun", "command": f"{COMMAND} --size 2"}
# What a shell that torchrun has started as its only task would have set.
LEAKED = {"RANK": "7", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "x", "PET_NNODES": "3"}


def measure(work: Bench, arms: list[dict[str, Any]], code: int = 0) -> None:
    base = {"epochs": EPOCHS, "batch_size": 12, "learning_rate": 0.3}
    scenario = {"baseline": "none", "order": "written", "base": base, "include": arms}
    (work.folder / "s.yaml").write_text(json.dumps(scenario))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in LEAKED.items():
            patch.setenv(name, value)
        work.call("s.yaml", code=code)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arm",
    [
        pytest.param(ONE, marks=pytest.mark.soak),  # unit tests of the hook are loops of one process
        {**TWO, "command": f"{TWO['command']} --alone"},
    ],
    ids=["one", "two"],
)
def test_rows_are_what_the_loop_has_logged(arm: dict[str, Any], tmp_path: Path) -> None:
    with Bench(tmp_path) as work:
        measure(work, [arm])
        ((run,), epochs, steps) = work.rows(), work.rows("epochs"), work.rows("steps")
    assert run["status"] == "completed", run["reason"]
    assert run["launcher"] == arm.get("launcher", "local")
    workers = int(run["workers"])
    losses = []
    for worker in range(workers):
        log = json.loads((tmp_path / f"log-{workers}-{worker}.json").read_text())["steps"]
        mine = [row for row in steps if row["worker"] == str(worker)]
        assert [int(row["num_samples"]) for row in mine] == [samples for samples, _ in log]
        assert [float(row["loss"]) for row in mine] == pytest.approx([loss for _, loss in log], rel=1e-5)
        assert [row["epoch"] for row in mine] == [
            str(epoch + 1) for epoch in range(EPOCHS) for _ in range(len(log) // EPOCHS)
        ]
        losses += log[-len(log) // EPOCHS :]
        assert (mine[-1]["communication_time_s"] == "") == (workers == 1)
    mean = sum(samples * loss for samples, loss in losses) / sum(samples for samples, _ in losses)
    assert float(run["train_loss"]) == pytest.approx(mean, rel=1e-5)
    assert (int(run["steps"]), int(run["samples_seen"])) == (len(log), EPOCHS * 300)
    assert int(run["epochs_completed"]) == EPOCHS
    accuracy = json.loads((tmp_path / f"log-{workers}-0.json").read_text())["accuracy"]
    assert float(run["validation_accuracy"]) == pytest.approx(accuracy)
    assert [row["epoch"] for row in epochs if row["worker"] == "0"] == [str(n + 1) for n in range(EPOCHS)]
    # Evaluation within epochs is no training either.
    assert float(run["evaluation_time_s"]) > sum(float(row["evaluation_time_s"]) for row in epochs) / workers
    assert run["workers_agree"] == ("" if workers == 1 else "exact")
    if workers == 2:
        # What process 0 evaluates alone is no training of the other, which waits for it.
        assert float(run["train_time_s"]) < 0.5 * EPOCHS - 0.5 < float(run["evaluation_time_s"])
        assert float(run["communication_time_s"]) > 0


# `test_hook` has both in every run, with scripts over MPI.
@pytest.mark.soak
def test_loops_that_go_apart_are_no_results(tmp_path: Path) -> None:
    arms = [{**TWO, "command": f"{COMMAND} --size {size} --apart"} for size in (2, 1)]
    with Bench(tmp_path) as work:
        measure(work, arms, code=1)
        diverged, failed = work.rows()
    assert diverged["status"] == "diverged"
    assert "the workers' weights do not agree" in diverged["reason"]
    assert failed["status"] == "failed"
    assert "PyTorch has connected no processes, this run has 2" in failed["reason"]
