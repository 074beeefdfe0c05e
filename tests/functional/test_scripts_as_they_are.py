"""Scripts without the hook are runs: their time, their end, what they print and write, and how they find each other."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.functional.studies import Bench, rows, wait_for
from tests.functional.test_several_hosts import cluster_file
from tests.functional.test_several_hosts import run as run_on_hosts
from tests.functional.waiting import wait_until
from tests.functional.worker_runs import SCRIPTS

COMMAND = f"python '{SCRIPTS}/printing.py'"
METRICS = {
    "samples_per_s": "total images/sec: ([0-9.]+)",
    "validation_accuracy": {"output": "accuracy: ([0-9.]+)%", "times": 0.01},
    "perplexity": {"better": "lower", "matters": "2%", "file": "results.json", "key": "eval.perplexity"},
    "train_loss": "loss ([0-9.]+)",
}
# A script whose own module calls the hook: dlbench cannot see it in the script.
LOOP = """\
import dlbench.worker

run = dlbench.worker.begin(rank=0, size=1, barrier=lambda: None)
for _ in range(run.epochs):
    for _ in range(5):
        with run.step(num_samples=run.batch_size) as step:
            step.loss = 1.0
    run.epoch(validation_accuracy=0.5)
run.finish()
"""

# What torchrun does, in few lines.
LAUNCHER = """\
import os, socket, subprocess, sys

size, command = int(sys.argv[1]), sys.argv[2:]
assert "RANK" not in os.environ
with socket.create_server(("", 0)) as held:
    port = held.getsockname()[1]
started = []
for rank in range(size):
    numbers = {"WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "GROUP_RANK": 0, "RANK": rank, "LOCAL_RANK": rank}
    numbers["MASTER_PORT"] = port
    variables = {name: str(value) for name, value in numbers.items()} | {"MASTER_ADDR": "127.0.0.1"}
    started.append(subprocess.Popen(command, env=os.environ | variables))
sys.exit(max(process.wait() for process in started))
"""


@pytest.fixture
def work(tmp_path: Path) -> Any:
    with Bench(tmp_path) as found:
        yield found


def scenario(work: Bench, base: dict[str, Any], **parts: Any) -> Path:
    path = work.folder / "s.yaml"
    path.write_text(json.dumps({"baseline": "none", "order": "written", "base": {"command": COMMAND} | base, **parts}))
    return path


@pytest.mark.mpi
def test_what_it_prints_and_writes_is_its_row(work: Bench) -> None:
    points = [{"workers": 1, "strategy": "single"}, {"workers": 2, "strategy": "mpi"}]
    said = work.call(scenario(work, {}, include=points, metrics=METRICS))
    for row, size in zip(work.rows(), (1, 2), strict=True):
        assert (row["status"], row["exit_code"]) == ("completed", "0"), row["reason"]
        assert float(row["samples_per_s"]) == 100 * size + 0.5
        assert float(row["samples_per_s_per_worker"]) == pytest.approx((100 * size + 0.5) / size)
        assert (float(row["validation_accuracy"]), float(row["perplexity"])) == (pytest.approx(0.935), 12.5)
        assert row["stated"] == "samples_per_s;validation_accuracy;perplexity"
        assert row["stated_note"] == "train_loss: nothing that was printed matches 'loss ([0-9.]+)'"
        others = "worker 1 printed samples_per_s: what worker 0 prints counts alone, as that of all"
        assert row["script_note"] == ("" if size == 1 else others)
        # What nobody has counted, or said, stays unknown.
        assert [row[name] for name in ("batch_size", "batch_size_global", "learning_rate", "epochs")] == [""] * 4
        assert [
            row[name] for name in ("steps", "epochs_completed", "samples_seen", "train_time_s", "startup_time_s")
        ] == ([""] * 5)
        assert float(row["wall_time_s"]) > 0
        assert row["device_name"] != ""
        assert int(row["host_memory_peak_bytes"]) > 2**20
    last = json.loads((work.folder / "results.json").read_text())
    assert last["places"] == [[0, 0, 2, 0], [1, 1, 2, 0]]
    assert last["tf_config"] is None
    assert "perplexity: as the script, or a table, says (`stated`)" in " ".join(said.split())


@pytest.mark.mpi
def test_tensorflow_finds_all_processes(work: Bench) -> None:
    work.call(scenario(work, {"workers": 2, "strategy": "multi-worker"}))
    (row,) = work.rows()
    assert row["status"] == "completed", row["reason"]
    found = json.loads(json.loads((work.folder / "results.json").read_text())["tf_config"])
    assert found["task"] == {"type": "worker", "index": 0}
    addresses = found["cluster"]["worker"]
    assert len(set(addresses)) == 2
    assert {address.rpartition(":")[0] for address in addresses} == {"127.0.0.1"}


@pytest.mark.mpi
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.soak), 2])
def test_a_script_that_fails_is_a_failed_run_with_its_reason(work: Bench, workers: int) -> None:
    arms = [{"command": f"{COMMAND} {how}"} for how in ("raise", "signal")]
    work.call(scenario(work, {"workers": workers, "strategy": "mpi"}, include=arms, metrics=METRICS), code=1)
    raised, killed = work.rows()
    assert (raised["status"], killed["status"]) == ("failed", "failed")
    assert f"worker {workers - 1} exited before sending its result" in raised["reason"]
    assert "ValueError: mine" in raised["reason"]
    assert "SIGSEGV" in killed["reason"]
    assert raised["samples_per_s"] == killed["samples_per_s"] == ""
    assert work.left_running() == []


def test_a_script_that_hangs_ends_at_its_time_limit_alone(work: Bench) -> None:
    limits = {"timeout_s": 12, "stall_timeout_s": 1, "startup_timeout_s": 8}
    work.call(scenario(work, {"command": "sleep 1000", "strategy": "single"}, **limits), code=1)
    (row,) = work.rows()
    assert row["status"] == "timeout"
    assert row["reason"] == "it took longer than timeout_s (12 s); worker 0 (in phase script)"
    assert work.left_running() == []


def test_a_program_of_any_kind_is_a_run(work: Bench) -> None:
    base = {"command": "bash -c 'echo rate 12.5'", "strategy": "mirrored", "workers": 2}
    said = work.call(scenario(work, base, metrics={"samples_per_s": "rate ([0-9.]+)"}))
    (row,) = work.rows()
    assert (float(row["samples_per_s"]), row["script_note"][:39]) == (
        12.5,
        "the script's replicas were not counted:",
    ), said


@pytest.mark.mpi
def test_workers_that_are_connected_to_nothing_are_noted(work: Bench) -> None:
    work.call(scenario(work, {"command": "bash -c 'sleep 4; echo'", "strategy": "mpi", "workers": 2}))
    (row,) = work.rows()
    assert row["script_note"] == "worker 0 was connected to no other process: each worker may have trained alone"


def test_a_program_that_is_not_there_is_named(work: Bench) -> None:
    work.call(scenario(work, {"command": "bash -c 'exec ./nosuch'", "strategy": "single"}), code=1)
    (row,) = work.rows()
    assert (row["status"], row["exit_code"]) == ("failed", "127")
    assert "nosuch: No such file or directory" in row["reason"]


def test_a_module_that_calls_the_hook_reports_for_itself(work: Bench) -> None:
    (work.folder / "train.py").write_text("import loop  # under MirroredStrategy\n")
    (work.folder / "loop.py").write_text(LOOP)
    for command, workers in (("python train.py", 2), ("bash -c 'python train.py; exit $?'", 1)):
        base = {"command": command, "strategy": "mirrored", "workers": workers, "epochs": 3}
        work.call(scenario(work, base))
        (path,) = (work.folder / "studies").iterdir()
        (row,) = work.rows()
        assert (row["status"], row["steps"], row["epochs_completed"], row["stated"]) == ("completed", "15", "3", "")
        assert float(row["validation_accuracy"]) == 0.5
        assert ("replicas were not counted" in row["script_note"]) is (workers == 2)
        path.rename(work.folder / f"done-{len(command)}")


def test_a_command_may_start_its_workers_itself(work: Bench) -> None:
    (work.folder / "launch.py").write_text(LAUNCHER)
    command = f"python launch.py {{workers}} {sys.executable} '{SCRIPTS}/printing.py'"
    base = {"command": command, "workers": 2, "strategy": "mpi", "workers_inside": True}
    work.call(scenario(work, base, metrics=METRICS))
    (row,) = work.rows()
    assert (row["status"], row["workers"], row["processes"], row["launcher"]) == ("completed", "2", "1", "local")
    assert (float(row["samples_per_s"]), float(row["samples_per_s_per_worker"])) == (200.5, 100.25)
    assert row["emulated"] == ""
    said = work.call(scenario(work, {"command": "torchrun train.py", "workers": 2, "strategy": "mpi"}), code=2)
    assert "set `workers_inside: true`" in " ".join(said.split())
    model = {"workers": 2, "strategy": "mpi", "workers_inside": True, "command": None}
    assert "is for a `command`" in " ".join(work.call(scenario(work, model), code=2).split())


def test_one_of_the_workers_that_a_command_starts_reports_for_all(work: Bench) -> None:
    """Also where what has started it kills it as soon as it is done."""
    (work.folder / "launch.py").write_text(LAUNCHER)
    ending = "import os, dlbench.worker\nif os.environ['RANK'] != '0': os._exit(0)\n" + LOOP + "os._exit(0)\n"
    (work.folder / "train.py").write_text(ending)
    base = {"command": "python launch.py {workers} python train.py", "workers": 2, "strategy": "mpi", "epochs": 3}
    work.call(scenario(work, base | {"workers_inside": True, "batch_size": 8}))
    (row,), steps = work.rows(), work.rows("steps")
    assert (row["status"], row["workers"], row["epochs_completed"], row["stated"]) == ("completed", "2", "3", "")
    assert [step["num_samples"] for step in steps] == ["16"] * 15
    # If each of them reported, rows would be of one and of another.
    (work.folder / "train.py").write_text(ending.replace("if os.environ['RANK'] != '0': os._exit(0)\n", ""))
    said = work.call(scenario(work, base | {"workers_inside": True}), code=1)
    assert "torchrun says this is rank 1, this run has ranks 0 to 0" in said + work.attempts()[-1].log(0)
    # What its launcher says counts where the process ends early, also if that goes on for a while.
    slow = LAUNCHER.replace("sys.exit(", "code = (") + "import time\ntime.sleep(3)\nsys.exit(code)\n"
    (work.folder / "launch.py").write_text(slow)
    (work.folder / "train.py").write_text(ending.replace("run.finish()", "os._exit(4)"))
    said = work.call(scenario(work, base | {"workers_inside": True}), code=1)
    assert "worker 0 exited before sending its result (exit code 4)" in said


def test_processes_on_two_hosts_find_each_other(pair: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    base = {"command": f"{sys.executable} '{SCRIPTS}/printing.py'", "workers": 2, "workers_per_host": 1}
    path.write_text(json.dumps({"baseline": "none", "base": base | {"strategy": "mpi"}, "metrics": METRICS}))
    done = run_on_hosts(pair, path, cluster_file(pair, tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = rows(tmp_path)
    assert (row["hosts"], float(row["samples_per_s"]), float(row["perplexity"])) == ("2", 200.5, 12.5)
    assert json.loads((tmp_path / "results.json").read_text())["places"] == [[0, 0, 1, 0], [1, 0, 1, 1]]


def test_a_script_ends_once_its_dlbench_is_gone(work: Bench) -> None:
    """Also what it has started: a shell's child is no child of dlbench's."""
    command = "bash -c 'sleep 1000 & echo begun; wait'"
    path = scenario(work, {"command": command, "strategy": "single"}, orphan_timeout_s=2)
    with work.start(path) as process:
        wait_for(process, lambda: any(attempt.log(0) for attempt in work.attempts()))
        assert len(work.left_running()) >= 3
        process.kill()
    wait_until(lambda: work.left_running() == [], "it still runs", 30)
    assert "no connection to dlbench for 2 s" in work.attempts()[0].log(0)
