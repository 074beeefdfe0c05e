import os
import socket

import pytest

from dlbench.communicators import _single
from dlbench.scenario.settings import Settings
from dlbench.strategies import mirrored, multi_worker
from tests.fakes import in_threads

MIRRORED = mirrored.OPTIONS


def test_workers_on_several_hosts_and_sums_that_leave_one_out_are_refused() -> None:
    # Workers, where they are, how they sum, and a part of the reason.
    for workers, place, operation, part in (
        (3, {"mode": "scale-out"}, "auto", "on one host"),
        (3, {"workers_per_host": 2}, "auto", "on one host"),
        (3, {}, "auto", "on one host"),
        (3, {"mode": "scale-up"}, "auto", ""),
        (3, {"workers_per_host": 3}, "auto", ""),
        (1, {}, "auto", ""),
        (2, {"mode": "scale-up"}, "hierarchical_copy", ""),
        (3, {"mode": "scale-up"}, "hierarchical_copy", "even number of workers"),
        (4, {"mode": "scale-up"}, "hierarchical_copy", ""),
        (3, {"mode": "scale-up"}, "reduce_to_one_device", ""),
    ):
        settings = Settings.model_validate({"workers": workers, **place})
        reason = mirrored.refuse(MIRRORED(cross_device_ops=operation), settings)
        assert part in reason, (workers, place, operation)
        assert bool(reason) == bool(part), (workers, place, operation)


def test_several_processes_agree_on_their_addresses() -> None:
    found = in_threads(3, lambda communicator: multi_worker.MultiWorker(communicator, "grpc")._configuration())
    workers = found[0]["cluster"]["worker"]
    assert [each["cluster"]["worker"] for each in found] == [workers] * 3
    assert [each["task"] for each in found] == [{"type": "worker", "index": rank} for rank in range(3)]
    assert len(set(workers)) == 3
    for address in workers:
        host, _, port = address.rpartition(":")
        assert host == "127.0.0.1"
        with socket.create_server(("", int(port))):  # it was given back
            pass


def test_what_moves_the_bytes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(multi_worker.COLLECTIVES_VARIABLE, "nccl")
    assert multi_worker.create(multi_worker.OPTIONS(), _single.connect(1), None).facts() == {"collectives": "nccl"}
    assert "TF_CONFIG" not in os.environ
    assert mirrored.create(MIRRORED(), _single.connect(1), None).facts() == {}


def test_processes_that_cannot_meet_over_mpi_are_refused() -> None:
    refuse = multi_worker.refuse
    assert "mpirun" in refuse(multi_worker.OPTIONS(), Settings(launcher="horovodrun"))
    assert refuse(multi_worker.OPTIONS(), Settings(launcher="mpirun")) == ""
    assert refuse(multi_worker.OPTIONS(), Settings(launcher="mpirun", command="python train.py")) == ""
