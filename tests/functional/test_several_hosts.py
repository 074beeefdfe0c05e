"""`dlbench run` over ssh on hosts that share files: rows of up and out, and runs on hosts that fail."""

import json
import os
import shutil
import sys
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.functional import paced
from tests.functional.conftest import revive
from tests.functional.studies import BASE, DLBENCH, PACED, rows, trains
from tests.functional.waiting import wait_until


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


def test_up_and_out_are_one_study_of_this_machine_and_another(pair: Cluster, tmp_path: Path) -> None:
    path = scenario(tmp_path, base=BASE | {"epochs": 10}, matrix={"mode": ["scale-up", "scale-out"]})
    prices = {"currency": "EUR", "host_hour": 3600, "worker_hour": 360}
    made = cluster_file(pair, tmp_path, prices=prices, environment={"OMPI_MCA_btl": "tcp,self,sm"})
    made.write_text(made.read_text().replace(f'"{pair.hosts[0].address}"', '"localhost"'))
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
    (link,) = json.loads(machine)["links"]
    assert link["hosts"] == [0, 1]
    assert {(one["sender"], one["receiver"], one["number"]) for one in link["messages"]} == {(0, 1, 7), (1, 0, 7)}
    assert all(one["least_time_s"] <= one["time_s"] for one in link["messages"])
    assert [host["cpu"] for host in json.loads(machine)["hosts"]] == [json.loads(machine)["cpu"]]
    assert not any(host.address in machine for host in pair.hosts), "published results name no address"


def _check_the_wire(up: dict[str, str], out: dict[str, str]) -> None:
    """The run on two hosts says what its messages took, and how fast that is; the one on one host says nothing."""
    names = ("interface", "wire_bytes", "link_latency_s", "link_bandwidth_bytes_per_s")
    assert [up[name] for name in names] == [""] * 4
    assert out["interface"] == "eth0"
    assert up["transports"] == out["transports"] == "ob1 tcp,self,sm"
    # In every step both hosts send their gradient, 650 numbers of 4 bytes, and what TCP adds to it.
    gradients = 2 * int(out["steps"]) * 4 * 650
    assert 1.05 * gradients < int(out["wire_bytes"]) <= int(out["network_bytes"]) < 1.5 * gradients
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
    sent = [float(place["wire_sent_bytes"]) for place in by_mode["scale-out"]]
    assert min(sent) > 0.3 * sum(sent)
    assert sum(sent) == pytest.approx(float(runs["scale-out"]["wire_bytes"]), abs=1)


def test_workers_call_the_address_that_leads_to_them(pair: Cluster) -> None:
    first, second = pair.hosts
    code = (
        "import sys, json; from dlbench.telemetry.server import own_address\n"
        "print(*map(own_address, json.loads(sys.argv[1])))"
    )
    calls = [["localhost", second.address], [second.name], ["nosuch.invalid", second.name], ["nosuch.invalid"]]
    found = first.run([sys.executable, "-c", code, json.dumps(calls)]).stdout.split()
    assert found == [first.address, first.address, first.address, first.name]


def test_a_worker_on_the_wrong_host_is_refused(pair: Cluster) -> None:
    """Whatever the launcher did: the layout has rank 0 on the first host, and rank 1 on the second."""
    by_address, by_name = [host.address for host in pair.hosts], [host.name for host in pair.hosts]
    for number, host in enumerate(pair.hosts):
        done = host.run([sys.executable, "-c", CHECKED, json.dumps([by_address, by_name])])
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        other = 1 - number
        for places, found in zip((by_address, by_name), answers, strict=True):
            assert found[number] == ""
            assert found[other] == f"process {other} belongs on {places[other]} and is on {places[number]}"


# Prints for each list of hosts why rank 0, and why rank 1, is refused here.
CHECKED = """
import json, sys
from dlbench.scenario.layout import Layout, Place
from dlbench.worker.process.placement import check

def refused(layout, rank):
    try:
        check(layout, rank, ["node1", "node2"])
    except RuntimeError as error:
        return str(error)
    return ""

for hosts in json.loads(sys.argv[1]):
    places = tuple(Place(rank=rank, workers=(rank,), host=host) for rank, host in enumerate(hosts))
    layout = Layout(places=places, intra_op_threads=1, inter_op_threads=1)
    print(json.dumps([refused(layout, rank) for rank in range(2)]))
"""


@pytest.mark.soak  # what is computed is tested on one host, what hosts are called and reach with other strategies
@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.timeout(700)
def test_strategies_of_tensorflow_compute_the_same_between_hosts(pair: Cluster, tmp_path: Path) -> None:
    base = BASE | {
        "trainer": "keras_tensorflow",
        "model": "mlp",
        "epochs": 1,
        "learning_rate": 0.02,
        "mode": "scale-out",
    }
    path = scenario(tmp_path, base=base, matrix={"strategy": ["horovod", "multi-worker"]})
    done = run(pair, path, pair.slots(1), timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    found = rows(tmp_path)
    assert {row["collectives"] for row in found} == {"mpi", "grpc"}
    assert [(row["hosts"], row["workers_agree"]) for row in found] == [("2", "exact")] * 2
    losses = [float(row["train_loss"]) for row in found]
    assert losses == pytest.approx([losses[0]] * 2, rel=1e-4)
    # Two workers hand each other their gradients in each step.
    assert all(int(row["network_bytes"]) > int(row["steps"]) * 4 * int(row["num_parameters"]) for row in found)


@pytest.mark.soak  # `dlbench doctor` names such a host, and a run does where a host's key is wrong
def test_a_host_that_does_not_answer_is_reported_before_anything_starts(pair: Cluster, tmp_path: Path) -> None:
    path = scenario(tmp_path, base=BASE | {"epochs": 5, "mode": "scale-out"})
    first, second = pair.hosts
    second.cut()
    try:
        done = run(pair, path, pair.slots(1))
    finally:
        second.restore()
    assert done.returncode == 2
    assert f"{second.address}: cannot be reached: ssh: connect to host {second.address} port 22" in done.stderr
    assert first.address not in done.stderr
    assert not (tmp_path / "studies").exists()


def test_a_host_that_dies_ends_its_run_which_goes_on_when_it_is_back(pair: Cluster, tmp_path: Path) -> None:
    shutil.copy(paced.__file__, tmp_path)
    times = {"stall_timeout_s": 100, "startup_timeout_s": 90, "orphan_timeout_s": 10}
    path = scenario(
        tmp_path, base=BASE | PACED | {"trainer": "paced:Trainer", "epochs": 3, "mode": "scale-out"}, **times
    )
    first, second = pair.hosts
    # Until it has died; what goes on is soon done.
    slow = [tmp_path / f"slow-down-{host.name}" for host in pair.hosts]
    for order in slow:
        order.touch()
    before = set(first.processes())
    hosts = ["--cluster", str(cluster_file(pair, tmp_path)), "--output", str(tmp_path / "studies")]
    argv = [*DLBENCH, "run", str(path), *hosts]
    begun = first.start(argv, cwd=tmp_path, output=tmp_path / "log")
    try:
        wait_until(lambda: trains(tmp_path), lambda: f"nothing trains: {(tmp_path / 'log').read_text()}")
        second.die()
        assert begun.wait(timeout=90) == 1, (tmp_path / "log").read_text()
    finally:
        begun.kill()
    (row,) = rows(tmp_path)
    assert row["status"] == "failed", row["reason"]
    lost = f"worker 1 exited before sending its result (the host {second.address} is down, or cannot be reached)"
    assert row["reason"].startswith(lost)
    assert set(first.processes()) <= before
    revive(pair)
    for order in slow:
        order.unlink()
    done = run(pair, path, tmp_path / "cluster.yaml", "--resume")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [row["status"] for row in rows(tmp_path)] == ["failed", "completed"]
