"""`dlbench run` over ssh on hosts that share files: rows of up and out, and what becomes of a dead host."""

import contextlib
import csv
import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from dlbench.records import files
from tests.cluster.cluster import Cluster
from tests.cluster.host import Host
from tests.cluster.ready import wait_for_ssh
from tests.cluster.testing import cluster

DLBENCH = [sys.executable, "-m", "dlbench"]
BASE: dict[str, Any] = {
    "workers": 2, "trainer": "numpy", "model": "softmax", "dataset": "digits", "strategy": "mpi", "learning_rate": 0.1,
    "cores_per_worker": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def pair() -> Iterator[Cluster]:
    with cluster(2) as made:
        yield made


def scenario(folder: Path, **parts: Any) -> Path:
    path = folder / "hosts.yaml"
    path.write_text(json.dumps({"baseline": "none", **parts}))
    return path


def variables(made: Cluster) -> dict[str, str]:
    return {"PRTE_MCA_plm_ssh_agent": str(made.ssh)}


def cluster_file(made: Cluster, folder: Path, **more: Any) -> Path:
    """Write a cluster file in which the hosts, which all are this machine, share its cores without being crowded."""
    cores = sorted(os.sched_getaffinity(0))
    hosts = [
        {"address": host.address, "slots": 2, "cores": cores[number:] + cores[:number]}
        for number, host in enumerate(made.hosts)
    ]
    path = folder / "cluster.yaml"
    path.write_text(json.dumps({"hosts": hosts, "ssh": str(made.ssh), **more}))
    return path


def run(made: Cluster, path: Path, hosts: str | Path, *words: str, timeout_s: float = 200) -> CompletedProcess[str]:
    """Run dlbench in the first host, on these hosts or on those of a cluster file."""
    where = ["--cluster" if isinstance(hosts, Path) else "--hosts", str(hosts)]
    argv = [*DLBENCH, "run", str(path), *where, "--output", str(path.parent / "studies"), *words]
    found = variables(made)
    return made.hosts[0].run(argv, cwd=path.parent, variables=found, timeout_s=timeout_s, check=False)


def give_cores(made: Cluster) -> None:
    """Give each host a core of its own, as far as there are any: they all are this machine's."""
    cores = sorted(os.sched_getaffinity(0))
    for number, host in enumerate(made.hosts):
        for process in host.processes():
            with contextlib.suppress(ProcessLookupError):  # a call by ssh that has just ended
                os.sched_setaffinity(process.pid, {cores[number % len(cores)]})


def rows(folder: Path, table: str = "runs") -> list[dict[str, str]]:
    (path,) = (folder / "studies").glob(f"*/{table}.csv")
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_up_and_out_are_one_study(pair: Cluster, tmp_path: Path) -> None:
    path = scenario(tmp_path, base=BASE | {"epochs": 30}, matrix={"mode": ["scale-up", "scale-out"]})
    prices = {"currency": "EUR", "host_hour": 3600, "worker_hour": 360}
    made = cluster_file(pair, tmp_path, prices=prices, environment={"OMPI_MCA_btl": "tcp,self,sm"})
    done = run(pair, path, made)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {row["mode"]: row for row in rows(tmp_path)}
    assert {name: (row["hosts"], row["machines"], row["workers_per_host"]) for name, row in found.items()} == {
        "scale-up": ("1", "1", "2"),
        "scale-out": ("2", "1", "1"),
    }
    _check_the_wire(found["scale-up"], found["scale-out"])
    _check_the_topology(found, rows(tmp_path, "topology"))
    for row in found.values():
        cost = float(row["wall_time_s"]) * (int(row["hosts"]) + 2 * 0.1)
        assert (float(row["cost"]), row["cost_currency"]) == (pytest.approx(cost), "EUR")
    for row in found.values():
        assert (row["status"], row["cores_per_worker"], row["cores_enforced"]) == ("completed", "1.0", "affinity")
        assert (row["workers_agree"], row["emulated"], row["launcher"]) == ("exact", "", "mpirun")
    assert len({row["train_loss"] for row in found.values()}) == 1
    # What a step adds up crosses the wire between two hosts, and none within one.
    crossed = {name: int(row["network_bytes"]) for name, row in found.items()}
    assert crossed["scale-out"] > int(found["scale-out"]["steps"]) * 8 * 650 > crossed["scale-up"]
    (folder,) = (tmp_path / "studies").iterdir()
    machine = (folder / "machine.json").read_text()
    assert [host["cpu"] for host in json.loads(machine)["hosts"]] == [json.loads(machine)["cpu"]] * 2
    assert not any(host.address in machine for host in pair.hosts), "published results name no address"


def _check_the_wire(up: dict[str, str], out: dict[str, str]) -> None:
    """The run on two hosts says what its messages took, and how fast that is; the one on one host says nothing."""
    names = ("interface", "wire_bytes", "link_latency_s", "link_bandwidth_bytes_per_s")
    assert [up[name] for name in names] == [""] * 4
    assert out["interface"] == "eth0"
    assert up["transports"] == out["transports"] == "ob1 tcp,self,sm"
    assert int(out["steps"]) * 8 * 650 < int(out["wire_bytes"]) <= int(out["network_bytes"])
    assert 1e-6 < float(out["link_latency_s"]) < 0.5
    assert 1e6 < float(out["link_bandwidth_bytes_per_s"]) < 1e11


def _check_the_topology(runs: dict[str, dict[str, str]], places: list[dict[str, str]]) -> None:
    """Every process says where it was."""
    cores = [str(core) for core in sorted(os.sched_getaffinity(0))[:2]]
    by_mode = {mode: [place for place in places if place["run_id"] == run["run_id"]] for mode, run in runs.items()}
    seen = {
        mode: [(place["rank"], place["host"], place["machine"]) for place in found] for mode, found in by_mode.items()
    }
    assert seen == {"scale-up": [("0", "0", "0"), ("1", "0", "0")], "scale-out": [("0", "0", "0"), ("1", "1", "0")]}
    for found in by_mode.values():
        assert [place["cores"] for place in found] == cores
    assert [place["interface"] for place in by_mode["scale-out"]] == ["eth0"] * 2
    sent = sum(float(place["wire_sent_bytes"]) for place in by_mode["scale-out"])
    assert sent == pytest.approx(float(runs["scale-out"]["wire_bytes"]), abs=1)


def test_workers_call_the_address_that_leads_to_them(pair: Cluster) -> None:
    first, second = pair.hosts
    code = "import sys; from dlbench.launch.inbox import own_address; print(own_address(sys.argv[1:]))"
    for others in (["localhost", second.address], [second.name], ["nosuch.invalid", second.name]):
        assert first.run([sys.executable, "-c", code, *others]).stdout == f"{first.address}\n"
    assert first.run([sys.executable, "-c", code, "nosuch.invalid"]).stdout == f"{first.name}\n"


def test_a_worker_on_another_s_host_is_refused(pair: Cluster) -> None:
    """Whatever a launcher was told: the layout has rank 0 on the first host, and rank 1 on the second."""
    for places in ([host.address for host in pair.hosts], [host.name for host in pair.hosts]):
        said = [[_refused(host, places, rank) for rank in range(2)] for host in pair.hosts]
        first, second = places
        assert said == [
            ["", f"process 1 belongs on {second} and is on {first}"],
            [f"process 0 belongs on {first} and is on {second}", ""],
        ]


def _refused(host: Host, places: list[str], rank: int) -> str:
    """Return why a worker is refused on a host."""
    program = f"""
from dlbench.scenario.layout import Layout, Place
from dlbench.worker.whereabouts import check
places = tuple(Place(rank=rank, workers=(rank,), host=host) for rank, host in enumerate({places}))
try:
    check(Layout(places=places, intra_op_threads=1, inter_op_threads=1), {rank}, ["node1", "node2"])
except RuntimeError as error:
    print(error)
"""
    return host.run([sys.executable, "-c", program]).stdout.strip()


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.timeout(700)
def test_all_ways_between_hosts_compute_the_same(pair: Cluster, tmp_path: Path) -> None:
    base = BASE | {
        "trainer": "keras_tensorflow",
        "model": "mlp",
        "epochs": 2,
        "learning_rate": 0.02,
        "mode": "scale-out",
    }
    path = scenario(tmp_path, base=base, matrix={"strategy": ["mpi", "horovod", "multi-worker"]})
    done = run(pair, path, pair.slots(1), timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    found = rows(tmp_path)
    assert {row["collectives"] for row in found} == {"mpi", "grpc"}
    assert [(row["hosts"], row["workers_agree"]) for row in found] == [("2", "exact")] * 3
    losses = [float(row["train_loss"]) for row in found]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-4)
    # Two workers hand each other their gradients in each step.
    assert all(int(row["network_bytes"]) > int(row["steps"]) * 4 * int(row["num_parameters"]) for row in found)


def test_a_host_that_does_not_answer_is_said_before_anything_begins(pair: Cluster, tmp_path: Path) -> None:
    path = scenario(tmp_path, base=BASE | {"epochs": 30, "mode": "scale-out"})
    first, second = pair.hosts
    second.cut()
    try:
        done = run(pair, path, pair.slots(1))
    finally:
        second.mend()
    assert done.returncode == 2
    assert f"{second.address}: cannot be reached: ssh: connect to host {second.address} port 22" in done.stderr
    assert first.address not in done.stderr
    assert not (tmp_path / "studies").exists()


def test_a_host_that_dies_ends_its_run_which_goes_on_when_it_is_back(tmp_path: Path) -> None:
    times = {"stall_timeout_s": 100, "startup_timeout_s": 90, "orphan_timeout_s": 10}
    path = scenario(tmp_path, base=BASE | {"epochs": 1_000, "mode": "scale-out"}, **times)
    with cluster(2) as made:
        first, second = made.hosts
        give_cores(made)
        before = set(first.processes())
        argv = [*DLBENCH, "run", str(path), "--hosts", made.slots(1), "--output", str(tmp_path / "studies")]
        begun = first.start(argv, cwd=tmp_path, variables=variables(made), output=tmp_path / "log")
        try:
            _wait_for_steps(tmp_path)
            second.die()
            assert begun.wait(timeout=90) == 1, (tmp_path / "log").read_text()
        finally:
            begun.kill()
        (row,) = rows(tmp_path)
        assert row["status"] == "failed", row["reason"]
        assert row["reason"].startswith(
            "worker 1 ended without handing in its result (the host node2 is down, or cannot"
        )
        assert set(first.processes()) <= before
        second.boot()
        wait_for_ssh(made.hosts)
        give_cores(made)
        done = run(made, path, made.slots(1), "--resume")
        assert done.returncode == 0, done.stdout + done.stderr
        assert [row["status"] for row in rows(tmp_path)] == ["failed", "completed"]


def _wait_for_steps(folder: Path) -> None:
    """Wait until the workers train: what they have sent is on disk."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if any(b'"steps"' in path.read_bytes() for path in folder.glob(f"studies/*/runs/*/*/{files.JOURNAL}")):
            return
        time.sleep(0.1)
    pytest.fail(f"nothing trains: {(folder / 'log').read_text()}")


def test_in_a_slurm_job_its_hosts_are_found(tmp_path: Path) -> None:
    path = scenario(tmp_path, base=BASE | {"epochs": 30}, matrix={"mode": ["scale-up", "scale-out"]})
    with cluster(2, slurm=True) as made:
        give_cores(made)
        command = shlex.join([*DLBENCH, "run", str(path), "--output", str(tmp_path / "studies")])
        job, printed = tmp_path / "job.sh", tmp_path / "printed"
        job.write_text(f"#!/bin/sh\n#SBATCH --nodes=2 --ntasks-per-node=2 --overcommit --output={printed}\n{command}\n")
        made.hosts[0].run(["sbatch", "--wait", str(job)], variables=variables(made), timeout_s=200, check=False)
        text = printed.read_text()
        found = {row["mode"]: row for row in rows(tmp_path)}
    assert {name: (row["status"], row["hosts"]) for name, row in found.items()} == {
        "scale-up": ("completed", "1"),
        "scale-out": ("completed", "2"),
    }, text


def test_this_machine_and_another_are_hosts_of_one_run(pair: Cluster, tmp_path: Path) -> None:
    path = scenario(tmp_path, base=BASE | {"epochs": 30, "mode": "scale-out"})
    done = run(pair, path, f"localhost:1,{pair.hosts[1].address}:1")
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = rows(tmp_path)
    assert (row["status"], row["hosts"], row["machines"], row["interface"]) == ("completed", "2", "1", "eth0")
    places = rows(tmp_path, "topology")
    assert [place["interface"] for place in places] == ["eth0", "eth0"]
    sent = [float(place["wire_sent_bytes"]) for place in places]
    assert min(sent) > 0.3 * sum(sent)
    assert sum(sent) == pytest.approx(float(row["wire_bytes"]), abs=1)
