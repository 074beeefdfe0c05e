import os
import socket

import pytest

from dlbench.drivers import _alone
from dlbench.scenario.settings import Settings
from dlbench.strategies import mirrored, multi_worker
from tests.fakes import in_threads

MIRRORED = mirrored.OPTIONS


@pytest.mark.parametrize(
    "place", [{"mode": "scale-out"}, {"workers_per_host": 2}, {}], ids=["scale-out", "two-on-each", "filled"]
)
def test_workers_on_several_hosts_are_refused(place: dict[str, object]) -> None:
    reason = mirrored.refuse(MIRRORED(), Settings.model_validate({"workers": 3, **place}))
    assert reason == "the strategy mirrored holds all workers in one process on one host: use mode: scale-up"


@pytest.mark.parametrize("place", [{"mode": "scale-up"}, {"workers_per_host": 3}])
def test_workers_on_one_host_are_not_refused(place: dict[str, object]) -> None:
    assert mirrored.refuse(MIRRORED(), Settings.model_validate({"workers": 3, **place})) == ""
    assert mirrored.refuse(MIRRORED(), Settings(workers=1)) == ""


@pytest.mark.parametrize(("workers", "is_refused"), [(1, False), (2, False), (3, True), (4, False), (5, True)])
def test_sums_that_leave_a_worker_out_are_refused(workers: int, is_refused: bool) -> None:
    settings = Settings.model_validate({"workers": workers, "mode": "scale-up"})
    reason = mirrored.refuse(MIRRORED(cross_device_ops="hierarchical_copy"), settings)
    assert ("even number of workers" in reason) == is_refused
    assert mirrored.refuse(MIRRORED(cross_device_ops="reduce_to_one_device"), settings) == ""


def test_mirrored_is_for_one_process() -> None:
    assert mirrored.create(MIRRORED(), _alone.connect(1), None).facts() == {}
    with pytest.raises(RuntimeError, match="one process, not 2"):
        in_threads(2, lambda driver: mirrored.create(MIRRORED(), driver, None))


def test_outside_the_step_there_are_no_replicas() -> None:
    with pytest.raises(RuntimeError, match="inside the compiled step"):
        mirrored.Replicated().exchange(None)  # type: ignore[arg-type]


def test_several_processes_agree_on_their_addresses() -> None:
    found = in_threads(3, lambda driver: multi_worker.MultiWorker(driver, "grpc")._configuration())
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
    assert multi_worker.create(multi_worker.OPTIONS(), _alone.connect(1), None).facts() == {"collectives": "nccl"}
    assert "TF_CONFIG" not in os.environ


def test_processes_that_cannot_meet_over_mpi_are_refused() -> None:
    refuse = multi_worker.refuse
    assert "mpirun" in refuse(multi_worker.OPTIONS(), Settings(launcher="horovodrun"))
    assert refuse(multi_worker.OPTIONS(), Settings(launcher="mpirun")) == ""
