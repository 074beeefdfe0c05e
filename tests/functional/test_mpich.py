"""`dlbench run` where mpirun and mpi4py's library are MPICH's: rows, reasons and ends as with Open MPI."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.functional.studies import StudyFolder, trains
from tests.functional.waiting import wait_until

pytestmark = pytest.mark.mpi

# No part of what the tests install: two MPIs in one environment break each other.
PACKAGES = ("mpich==5.0.2", "mpi4py==4.1.2")
OF_WORKERS: dict[str, Any] = {"workers": 2, "strategy": "mpi", "learning_rate": 0.1, "launcher": "mpirun"}
OF_TRAINER: dict[str, Any] = {"trainer": "numpy", "model": "softmax", "dataset": "digits", "epochs": 3}
BASE = OF_WORKERS | OF_TRAINER
LONG = {"epochs": 100_000, "evaluate_every": 100_000}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment with MPICH and its mpi4py; all other packages are the tests'."""
    folder = tmp_path_factory.mktemp("mpich") / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    options = ("--disable-pip-version-check", "--quiet", "--no-compile", "--no-deps", "--only-binary", ":all:")
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), "install", *options, *PACKAGES], check=True)
    own = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    (own / "other_packages.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return python


class Work(StudyFolder):
    """A folder with a scenario, and dlbench of the environment with MPICH."""

    def __init__(self, folder: Path, python: Path) -> None:
        super().__init__(folder)
        self.python = python

    def command(self, *words: str, **parts: Any) -> list[str]:
        """Write a scenario, and return the command that runs it."""
        path = self.folder / "mpich.yaml"
        path.write_text(json.dumps({"baseline": "none", "order": "written", **parts}))
        return [str(self.python), "-m", "dlbench", "run", str(path), "--output", str(self.folder / "studies"), *words]

    def run(self, *words: str, **parts: Any) -> subprocess.CompletedProcess[str]:
        command = self.command(*words, **parts)
        try:
            return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=200, check=False)
        finally:
            self.clean_up()

    @contextmanager
    def started(self, **parts: Any) -> Iterator[subprocess.Popen[bytes]]:
        """Start a run, and wait until it trains; nothing is left of it, whatever happens."""
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(
                self.command(**parts), cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )
        try:
            self.wait_for_steps(process)
            yield process
        finally:
            process.kill()
            process.wait()
            self.clean_up()

    def wait_for_steps(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the workers train: what they have sent is on disk."""

        def has_begun() -> bool:
            assert process.poll() is None, (self.folder / "log").read_text()
            return trains(self.folder)

        wait_until(has_begun, (self.folder / "log").read_text)

    def process(self, variable: str) -> int:
        """Return the one process of the attempt that was started with a variable, such as `PMI_RANK=1`."""
        (found,) = [
            pid for pid in self.left_running() if variable.encode() in self.proc_file(pid, "environ").split(b"\0")
        ]
        return found

    def proc_file(self, pid: int, name: str) -> bytes:
        """Return a file of a process in /proc; empty where it has just ended."""
        try:
            return Path(f"/proc/{pid}/{name}").read_bytes()
        except OSError:
            return b""


@pytest.fixture
def work(tmp_path: Path, python: Path) -> Work:
    return Work(tmp_path, python)


@pytest.fixture(scope="module")
def on_one_host(tmp_path_factory: pytest.TempPathFactory, python: Path) -> list[dict[str, str]]:
    """Return the rows of workers that train by both algorithms, and of a script that fails."""
    work = Work(tmp_path_factory.mktemp("one-host"), python)
    (work.folder / "train.py").write_text(
        "import dlbench.worker\nfrom mpi4py.MPI import COMM_WORLD as comm\n"
        "dlbench.worker.begin(rank=comm.rank, size=comm.size, barrier=comm.Barrier)\n"
        "if comm.rank == 1:\n    raise ValueError('mine')\ncomm.Barrier()\n"
    )
    trained = OF_TRAINER | {"batch_size": 64, "batch_scope": "global"}
    arms = [trained | {"algorithm": "auto"}, trained | {"algorithm": "own-ring"}]
    done = work.run(base=OF_WORKERS, include=[*arms, {"command": "python train.py", "dataset": "d", "model": "m"}])
    assert done.returncode == 1, done.stdout + done.stderr
    return work.rows()


def test_workers_train_the_same_by_both_algorithms(on_one_host: list[dict[str, str]]) -> None:
    rows = on_one_host[:2]
    assert [(row["workers"], row["algorithm"]) for row in rows] == [("2", "auto"), ("2", "own-ring")]
    assert {(row["status"], row["launcher"], row["workers_agree"]) for row in rows} == {
        ("completed", "mpirun", "exact")
    }
    assert all(row["mpi_version"].startswith("MPICH ") for row in rows)
    losses = [float(row["train_loss"]) for row in rows]
    assert losses == pytest.approx([losses[0]] * 2, rel=1e-6)


@pytest.mark.soak  # a worker that fails is tested below
def test_a_worker_that_a_signal_ends_is_named(work: Work) -> None:
    with work.started(base=BASE | LONG) as process:
        os.kill(work.process("PMI_RANK=1"), signal.SIGKILL)
        assert process.wait(60) == 1
        assert work.left_running() == []
    (row,) = work.rows()
    assert row["status"] == "failed"
    assert row["reason"].startswith("worker 1 ")
    assert "killed by SIGKILL" in row["reason"]


@pytest.mark.soak  # whichever MPI's it is, its processes are found by the attempt's variable
def test_a_killed_mpirun_leaves_nothing(work: Work) -> None:
    with work.started(base=BASE | LONG) as process:
        (launcher,) = [pid for pid in work.left_running() if work.proc_file(pid, "comm") == b"mpirun\n"]
        os.kill(launcher, signal.SIGKILL)
        assert process.wait(60) == 1
        assert work.left_running() == []
    (row,) = work.rows()
    assert (row["status"], row["reason"]) == ("failed", "the launcher ended (killed by SIGKILL) before its workers")


@pytest.mark.soak  # the same under any MPI
def test_ctrl_c_ends_all(work: Work) -> None:
    with work.started(base=BASE | LONG) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert work.left_running() == []
    assert [row["status"] for row in work.rows()] == ["interrupted"]


def test_a_worker_that_fails_ends_the_others(on_one_host: list[dict[str, str]]) -> None:
    assert on_one_host[2]["status"] == "failed"
    assert "ValueError: mine" in on_one_host[2]["reason"]


@pytest.mark.soak  # unit tests refuse each, and recognise each MPI by what its mpirun prints
def test_open_mpis_own_settings_are_refused_before_anything_starts(work: Work) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"algorithm": "ring"}, "use `auto`, its own choice, or `own-ring`"),
        ({"launcher.mca": {"btl": "tcp"}}, "launcher.mca is for Open MPI, and the mpirun here is MPICH's"),
    ]
    for setting, reason in refused:
        done = work.run(base=BASE | setting)
        assert (done.returncode, reason in " ".join(done.stderr.split())) == (2, True), (setting, done.stderr)
    assert not (work.folder / "studies").exists()


def on_hosts(made: Cluster, work: Work, environment: dict[str, str] | None = None, **parts: Any) -> list[str]:
    """Write a cluster file, and return the command that runs a scenario on these hosts."""
    hosts = [{"address": host.address, "slots": 2, "cores": [0]} for host in made.hosts]
    settings = {"hosts": hosts, "ssh": str(made.ssh), "environment": environment or {}}
    (work.folder / "c.yaml").write_text(json.dumps(settings))
    return work.command("--cluster", "c.yaml", **parts)


def test_two_hosts_connect_over_ssh_and_every_variable_reaches_them(
    pair: Cluster, work: Work, on_one_host: list[dict[str, str]]
) -> None:
    """A script without the hook connects, too: Hydra hands a process an open descriptor, which its child has to have.

    Hydra forgets the last variable of its environment on the way to other hosts.
    """
    (work.folder / "train.py").write_text(
        "import os\nfrom mpi4py.MPI import COMM_WORLD as comm\nprint('size', comm.size)\n"
        "assert os.environ['LAST_OF_ALL'] == 'here'\n"
    )
    parts: dict[str, Any] = {
        "base": OF_WORKERS | {"mode": "scale-out"},
        "include": [OF_TRAINER | {"batch_size": 64, "batch_scope": "global"}, {"command": "python train.py"}],
        "metrics": {"processes_seen": {"better": "higher", "matters": 1, "output": "size ([0-9]+)"}},
        "startup_timeout_s": 90,
    }
    command = on_hosts(pair, work, {"LAST_OF_ALL": "here"}, **parts)
    done = pair.hosts[0].run(command, cwd=work.folder, timeout_s=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    out, script = work.rows()
    assert (out["status"], out["hosts"], out["workers_agree"]) == ("completed", "2", "exact")
    assert out["train_loss"] == on_one_host[0]["train_loss"]
    assert out["interface"] == "eth0"
    # The sums of each step cross the link.
    assert int(out["network_bytes"]) > int(out["steps"]) * 4 * 650
    assert (script["hosts"], script["processes_seen"]) == ("2", "2.0")


@pytest.mark.soak  # a host that dies under Open MPI, and a worker that ends under MPICH, are tested elsewhere
def test_a_host_that_dies_is_named(pair: Cluster, work: Work) -> None:
    first, second = pair.hosts
    before = set(first.processes())
    command = on_hosts(pair, work, base=BASE | LONG | {"mode": "scale-out"}, orphan_timeout_s=5)
    process = first.start(command, cwd=work.folder, output=work.folder / "log")
    try:
        work.wait_for_steps(process)
        second.die()
        assert process.wait(60) == 1, (work.folder / "log").read_text()
    finally:
        process.kill()
    (row,) = work.rows()
    assert row["status"] == "failed"
    lost = f"worker 1 exited before sending its result (the host {second.address} is down, or cannot be reached)"
    assert row["reason"].startswith(lost)
    assert set(first.processes()) <= before
