"""Processes that Ray starts: on this machine and on hosts, in a cluster that is there and in one of a run's own."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from dlbench.launch.processes import end
from dlbench.records.outcome import Outcome
from tests.cluster.cluster import Cluster
from tests.cluster.host import DeadHostError
from tests.functional.attempt import fake_attempt
from tests.functional.studies import BASE, DLBENCH, ROOT, Bench, rows
from tests.functional.test_execute import OF_LAUNCHERS, ROWS, kill_launcher
from tests.functional.test_several_hosts import cluster_file, run, scenario
from tests.functional.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray")]

RAY = str(Path(sys.executable).with_name("ray"))
VARIABLES = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
START = [RAY, "start", "--object-store-memory", "80000000"]
HEAD = [*START, "--head", "--include-dashboard", "false"]
# A worker of two that wait until their host is gone.
SCRIPT = """\
import os, pathlib, time
pathlib.Path(__file__).with_name("rank-" + os.environ["RANK"]).touch()
time.sleep(600)
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Ray cluster on this machine."""
    log = tmp_path_factory.mktemp("ray") / "ray.log"
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = str(held.getsockname()[1])
    # Not below pytest's own folder: sockets have short paths.
    head = [*HEAD, "--temp-dir", f"{os.environ['TMPDIR']}/ray", "--port", port, "--num-cpus", "16", "--block"]
    with pytest.MonkeyPatch.context() as patch, log.open("wb") as output:
        for name, value in VARIABLES.items():
            patch.setenv(name, value)
        node = subprocess.Popen(
            [*head, "--node-ip-address", "127.0.0.1"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            wait_until(lambda: "Ray runtime started" in log.read_text() or node.poll() is not None)
            assert node.poll() is None, log.read_text()
            yield f"127.0.0.1:{port}"
        finally:
            end([pid for pid in psutil.pids() if _session(pid) == node.pid], grace_s=2.0)
            node.wait()


def _session(pid: int) -> int:
    with suppress(ProcessLookupError):
        return os.getsid(pid)
    return 0


@pytest.mark.soak  # each end costs Ray three seconds; one is tested below, in a cluster of its own
def test_a_cluster_that_is_there_starts_processes_and_says_how_they_end(tmp_path: Path, address: str) -> None:
    def outcome_of(place: int) -> Outcome:
        row, folder = of_launchers[place], tmp_path / str(place)
        folder.mkdir()
        with fake_attempt(folder, "ray", row.mode, address=address, **row.limits) as attempt:
            return attempt.run()

    of_launchers = [row for row in ROWS if row.mode in OF_LAUNCHERS]
    with ThreadPoolExecutor(3) as pool:
        outcomes = list(pool.map(outcome_of, range(len(of_launchers))))
    for row, outcome in zip(of_launchers, outcomes, strict=True):
        assert outcome.status is row.status, (row, outcome)
        assert outcome.reason.startswith(row.reason), (row, outcome)


@pytest.mark.soak  # it is tested with mpirun
def test_a_launcher_that_is_killed_takes_its_processes_along(tmp_path: Path, address: str) -> None:
    with fake_attempt(tmp_path, "ray", "hang", address=address) as attempt:
        killed = attempt.run_and(kill_launcher)
    assert killed.reason == "the launcher ended (killed by SIGKILL) before its workers"


@pytest.mark.soak  # unit tests check both messages
def test_a_cluster_without_the_host_or_none_at_all_is_the_reason(tmp_path: Path, address: str) -> None:
    def reason(at: str, host: str) -> str:
        with fake_attempt(tmp_path, "ray", "finish", address=at) as attempt:
            argv = [word.replace("localhost", host) for word in attempt.plan.argv]
            attempt.plan = attempt.plan.model_copy(update={"argv": tuple(argv)})
            return attempt.run().reason

    assert "dlbench: no node of the Ray cluster is 10.9.9.9; `ray start` adds one" in reason(address, "10.9.9.9")
    unreachable = reason("127.0.0.1:9", "localhost")
    assert "the Ray cluster at 127.0.0.1:9: [Errno 111] Connection refused" in unreachable


# That a killed launcher takes its processes along is tested with mpirun.
@pytest.mark.parametrize("mode", ["exit-3", pytest.param("hang", marks=pytest.mark.soak)])
def test_a_cluster_of_its_own_ends_with_the_run_and_leaves_nothing(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary, home = tmp_path / "temporary", tmp_path / "home"
    temporary.mkdir()
    home.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("HOME", str(home))
    memory, of_others = Path("/dev/shm") / f"dlbench-{os.getuid()}", Path("/tmp/ray").exists()
    reasons = {
        "exit-3": next(row.reason for row in ROWS if row.mode == "exit-3"),
        "hang": "the launcher ended (killed by SIGKILL) before its workers",
    }
    (tmp_path / mode).mkdir()
    with fake_attempt(tmp_path / mode, "ray", mode) as attempt:
        outcome = attempt.run_and(kill_launcher) if mode == "hang" else attempt.run()
    assert outcome.reason == reasons[mode]
    assert list(temporary.iterdir()) == list(home.iterdir()) == []
    assert list(memory.glob("*/session_*")) == []
    assert Path("/tmp/ray").exists() == of_others


@pytest.fixture
def nodes(pair: Cluster) -> Iterator[str]:
    """The address of a Ray cluster of which two hosts are the nodes."""
    at = f"{pair.hosts[0].address}:6379"
    words = ([*HEAD, "--port", "6379", "--temp-dir", f"{os.environ['TMPDIR']}/rays"], [*START, "--address", at])
    try:
        for host, start in zip(pair.hosts, words, strict=True):
            host.run([*start, "--node-ip-address", host.address, "--num-cpus", "2"], variables=VARIABLES, timeout_s=60)
        yield at
    finally:
        for host in pair.hosts:
            with suppress(DeadHostError):
                host.run([RAY, "stop", "--force"], check=False)


@pytest.mark.soak  # processes that Ray starts are tested above, hosts with mpirun
def test_on_hosts_a_worker_is_a_task_on_its_node(pair: Cluster, nodes: str, tmp_path: Path) -> None:
    made = cluster_file(pair, tmp_path, launcher="ray", environment=VARIABLES)
    horovod = {"strategy": "horovod", "collectives": "gloo", "model": "mlp", "trainer": "keras_tensorflow"}
    base = BASE | {"launcher.address": nodes, "epochs": 2, "mode": "scale-out"}
    done = run(pair, scenario(tmp_path, base=base | horovod), made)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = rows(tmp_path)
    placed = [row[name] for name in ("status", "launcher", "hosts", "interface", "workers_agree")]
    assert placed == ["completed", "ray", "2", "eth0", "exact"]

    doctor = [*DLBENCH, "doctor", "--json", "--cluster", str(made)]
    asked = {**VARIABLES, "RAY_ADDRESS": nodes}
    examined = pair.hosts[0].run(doctor, cwd=tmp_path, variables=asked, timeout_s=60, check=False)
    findings = [it for it in json.loads(examined.stdout)["findings"] if it["check"] == "ray"]
    assert [it["text"] for it in findings] == [f"a node of {nodes} with 2 CPUs"] * 2


@pytest.mark.soak  # on hosts without Ray it is tested with mpirun
def test_a_host_of_ray_that_dies_is_named(pair: Cluster, nodes: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = {"command": f"python {tmp_path / 'script.py'}", "strategy": "ddp"}
    path = scenario(tmp_path, base=BASE | {"launcher.address": nodes, "mode": "scale-out"} | command)
    made = cluster_file(pair, tmp_path, launcher="ray", environment=VARIABLES)
    with ThreadPoolExecutor() as pool:
        running = pool.submit(run, pair, path, made)
        wait_until(lambda: all((tmp_path / f"rank-{rank}").exists() for rank in "01"))
        os.kill(pair.hosts[1].first_process.pid, signal.SIGKILL)
        ended = running.result()
    assert f"the host {pair.hosts[1].address} is down, or cannot be reached" in ended.stdout


@pytest.mark.soak
def test_one_worker_of_ray_train_reports_for_all(tmp_path: Path) -> None:
    command = {"command": f"python '{ROOT}/scenarios/ray_train.py'", "workers_inside": True, "strategy": "ddp"}
    small = {"dataset": "digits", "model": "cnn", "train_samples": 320, "validation_samples": 100, "epochs": 1}
    with Bench(tmp_path) as work:
        scenario(tmp_path, base=command | small | {"workers": 2, "learning_rate_scale": "none"})
        work.run("hosts.yaml")
        (row,), steps = work.rows(), work.rows("steps")
    assert (row["status"], row["workers"], row["samples_seen"]) == ("completed", "2", "320")
    assert [int(step["num_samples"]) for step in steps] == [64] * 5
    assert 0 < float(row["validation_accuracy"]) < 1
    assert float(row["startup_time_s"]) > 1
