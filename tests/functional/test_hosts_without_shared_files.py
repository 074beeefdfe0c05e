"""`dlbench run` on hosts that share no files: data is prepared on each, logs are fetched, code must be the same."""

import csv
import io
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from dlbench.records import files
from tests.cluster.cluster import Cluster
from tests.cluster.host import Host
from tests.functional import studies
from tests.functional.waiting import wait_until

BASE = studies.BASE | {"mode": "scale-out", "epochs": 3}
MODULE = """\
import os
import time
from pathlib import Path

import numpy as np


def numbers():
    seed = int(Path("seed").read_text())
    rng = np.random.default_rng(seed)
    return rng.normal(size=(400, 8)).astype("float32"), rng.integers(0, 3, 400)


def broken(*, where: str = ""):
    print("what the function prints")
    if os.uname().nodename == where:
        raise RuntimeError("no numbers on this host")
    return numbers()


def slow(*, where: str = ""):
    if os.uname().nodename == where:
        Path("started").write_text(str(os.getpid()))
        time.sleep(300)
    return numbers()
"""
SCRIPT = """\
import os, sys
from mpi4py import MPI
print("rank", MPI.COMM_WORLD.rank, "says so", flush=True)
MPI.COMM_WORLD.Barrier()
if MPI.COMM_WORLD.rank == 1:
    os.abort()
MPI.COMM_WORLD.Barrier()
"""


@pytest.fixture
def three_apart(trio: Cluster, tmp_path: Path) -> Iterator[tuple[Cluster, Path]]:
    """Return three hosts, and a folder that each of them has of its own."""
    folder = tmp_path / "apart"
    folder.mkdir()
    for host in trio.hosts:
        host.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)])
    yield trio, folder
    for host in trio.hosts:
        host.run(["umount", "--lazy", str(folder)])


@pytest.fixture
def apart(three_apart: tuple[Cluster, Path]) -> tuple[Cluster, Path]:
    """Return the first two of them, and the folder."""
    made, folder = three_apart
    return replace(made, hosts=made.hosts[:2]), folder


def put(host: Host, path: Path, text: str) -> None:
    host.run(["sh", "-c", 'mkdir -p "$(dirname "$1")"; printf %s "$2" > "$1"', "sh", str(path), text])


def inside(host: Host, *argv: str) -> str:
    return host.run(list(argv), check=False).stdout


def call(made: Cluster, folder: Path, name: str, **parts: Any) -> dict[str, Any]:
    """Return the arguments with which a host runs dlbench, in the folder that each host has of its own."""
    put(made.hosts[0], folder / f"{name}.yaml", json.dumps({"baseline": "none", "stall_timeout_s": 60, **parts}))
    argv = [*studies.DLBENCH, "run", f"{name}.yaml", "--hosts", made.slots(1), "--output", "studies"]
    variables = {"PRTE_MCA_plm_ssh_agent": str(made.ssh), "DLBENCH_CACHE": str(folder / "cache")}
    return {"argv": argv, "cwd": folder, "variables": variables}


def run(made: Cluster, folder: Path, name: str, **parts: Any) -> CompletedProcess[str]:
    """Run dlbench in the first host to its end."""
    return made.hosts[0].run(**call(made, folder, name, **parts), timeout_s=240, check=False)


def row(made: Cluster, folder: Path, name: str) -> dict[str, str]:
    text = inside(made.hosts[0], "sh", "-c", f"cat {folder}/studies/{name}-*/runs.csv")
    (found,) = csv.DictReader(io.StringIO(text))
    return found


def logs(made: Cluster, folder: Path, name: str, rank: int) -> str:
    return inside(made.hosts[0], "sh", "-c", f"cat {folder}/studies/{name}-*/runs/*/1/{files.worker_log(rank)}")


def test_different_code_is_refused_and_data_rows_and_logs_are_complete(
    apart: tuple[Cluster, Path],
) -> None:
    made, folder = apart
    first, second = made.hosts
    base = BASE | {"dataset": "mine:numbers"}
    put(first, folder / "mine.py", MODULE)
    put(first, folder / "seed", "1")
    done = run(made, folder, "code", base=base)
    assert (done.returncode, f"{second.address}: has no mine.py in {folder}" in done.stderr) == (2, True), done.stderr
    put(second, folder / "mine.py", MODULE + "\n")
    put(second, folder / "seed", "1")
    done = run(made, folder, "code", base=base)
    assert (done.returncode, f"{second.address}: has another mine.py" in done.stderr) == (2, True), done.stderr
    listed = ["sh", "-c", f"ls -d {folder}/studies/code-*"]
    assert first.run(listed, check=False).stdout == ""
    put(second, folder / "mine.py", MODULE)
    done = run(made, folder, "code", base=base)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(first.run(listed).stdout.split()) == 1
    found = row(made, folder, "code")
    assert (found["status"], found["hosts"], found["workers_agree"]) == ("completed", "2", "exact")
    checksums = [
        json.loads(inside(host, "sh", "-c", f"cat {folder}/cache/mine*/meta.json"))["checksum"] for host in made.hosts
    ]
    assert checksums == [found["dataset_checksum"]] * 2
    steps = inside(first, "sh", "-c", f"cat {folder}/studies/code-*/steps.csv")
    assert {line["worker"] for line in csv.DictReader(io.StringIO(steps))} == {"0", "1"}
    assert inside(first, "sh", "-c", f"ls {folder}/studies/code-*/runs/*/1").split().count("worker-1.log") == 1
    assert inside(second, "sh", "-c", 'find "$TMPDIR" -name "*worker-*"') == ""


def test_the_cause_of_a_workers_end_on_another_host_is_reported(apart: tuple[Cluster, Path]) -> None:
    made, folder = apart
    for host in made.hosts:
        put(host, folder / "abort.py", SCRIPT)
    settings = {key: BASE[key] for key in ("workers", "mode", "strategy", "cores_per_worker")}
    done = run(made, folder, "abort", base=settings | {"command": "python abort.py"})
    assert done.returncode == 1, done.stdout + done.stderr
    assert row(made, folder, "abort")["status"] == "failed"
    assert "rank 1 says so" in logs(made, folder, "abort", 1)
    assert "Fatal Python error: Aborted" in logs(made, folder, "abort", 1)
    assert "Aborted" in row(made, folder, "abort")["reason"]


def test_hosts_whose_data_differs_or_cannot_be_prepared_are_refused(three_apart: tuple[Cluster, Path]) -> None:
    made, folder = three_apart
    for number, host in enumerate(made.hosts):
        put(host, folder / "mine.py", MODULE)
        put(host, folder / "seed", str(number))
    _, other, broken = made.hosts
    options = {"dataset": "mine:broken", "dataset.where": broken.name}
    done = run(made, folder, "data", base=BASE | options | {"workers": 3})
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{other.address}: has another 'mine:broken': checksum" in done.stderr
    assert f"{broken.address}: data set 'mine:broken' could not be prepared" in done.stderr
    assert "no numbers on this host" in done.stderr


def test_a_host_prepares_no_longer_once_dlbench_is_killed(apart: tuple[Cluster, Path], tmp_path: Path) -> None:
    made, folder = apart
    first, second = made.hosts
    for host in made.hosts:
        put(host, folder / "mine.py", MODULE)
        put(host, folder / "seed", "7")
    before = cached(second, folder)
    options = {"dataset": "mine:slow", "dataset.where": second.name}
    process = first.start(**call(made, folder, "slow", base=BASE | options), output=tmp_path / "log")
    try:
        wait_until(lambda: inside(second, "cat", str(folder / "started")) != "", (tmp_path / "log").read_text)
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait(60) != 0
    finally:
        process.kill()
    preparer = inside(second, "cat", str(folder / "started"))
    wait_until(lambda: second.run(["kill", "-0", preparer], check=False).returncode != 0, (tmp_path / "log").read_text)
    assert cached(second, folder) == before


def cached(host: Host, folder: Path) -> list[str]:
    """Return what is in a host's cache besides locks."""
    found = inside(host, "sh", "-c", f"ls -A {folder}/cache 2>/dev/null").split()
    return [name for name in found if not name.endswith(".lock")]
