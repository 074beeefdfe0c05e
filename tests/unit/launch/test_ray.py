"""What is asked of a Ray cluster: nodes, bundles and shares of GPUs."""

import socket
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from dlbench.errors import UserError
from dlbench.launch import ray as launched
from dlbench.launch.launchers import ray
from dlbench.scenario.layout import Layout, Place
from dlbench.scenario.settings import Settings

NODES = [
    {"NodeID": name, "Alive": name != "dead", "NodeManagerAddress": f"10.0.0.{number}", "NodeManagerHostname": name,
     "Resources": {"CPU": 4.0, "GPU": 2.0}}
    for number, name in enumerate(("a", "b", "dead"))
]  # fmt: skip


class FakeRay:
    """A Ray cluster whose placement groups find room, or do not."""

    def __init__(self, has_room: bool = True) -> None:
        self.asked: tuple[Any, str] = ([], "")
        self._has_room = has_room

    def nodes(self) -> list[dict[str, Any]]:
        return NODES

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_node_id=lambda: "a")

    def available_resources(self) -> dict[str, float]:
        return {"CPU": 1.0, "memory": 5.0}

    @property
    def util(self) -> Any:
        def placement_group(bundles: Any, strategy: str) -> Any:
            self.asked = (bundles, strategy)
            return SimpleNamespace(wait=lambda _: self._has_room)

        return SimpleNamespace(placement_group=placement_group)


def reserve(fake: FakeRay, *places: str) -> list[int]:
    read = launched._words(["--places", ",".join(places), "--rank-variable", "R", "--", "program"]).places
    nodes = {place.host: launched._node_of(fake, place.host) for place in read}
    return launched._reserve(fake, read, nodes, [0.5] * len(places))[1]


def test_processes_of_one_host_are_packed_and_hosts_are_spread() -> None:
    one, several = FakeRay(), FakeRay()
    assert reserve(one, "localhost:1:1", "localhost:0.5:1") == [0, 1]
    assert one.asked == (
        [{"CPU": 1.0, "GPU": 0.5, "node:10.0.0.0": 0.001}, {"CPU": 0.5, "GPU": 0.5, "node:10.0.0.0": 0.001}],
        "STRICT_PACK",
    )
    # Ranks may return to a host.
    assert reserve(several, "a:2:1", "10.0.0.1:2:1", "a:1:1") == [0, 1, 0]
    assert several.asked == (
        [{"CPU": 3.0, "GPU": 1.0, "node:10.0.0.0": 0.001}, {"CPU": 2.0, "GPU": 0.5, "node:10.0.0.1": 0.001}],
        "STRICT_SPREAD",
    )


def test_a_host_that_is_no_living_node_and_a_cluster_without_room_are_refused() -> None:
    with pytest.raises(UserError, match=r"no node of the Ray cluster is 10\.0\.0\.2"):
        reserve(FakeRay(), "10.0.0.2:1:1")
    with pytest.raises(UserError, match="has no room") as caught:
        reserve(FakeRay(has_room=False), "a:1:1")
    assert caught.value.hint == "free in all its nodes are {'CPU': 1.0}"


def test_nodes_that_are_too_small_are_refused_at_once() -> None:
    for places in (("a:2:1", "a:3:1"), ("a:1:1", "b:5:1"), ("a:0:1",) * 5):
        fake = FakeRay()
        with pytest.raises(
            UserError,
            match=r"the Ray node [ab] has (4 CPUs, and its processes need 5|2 GPUs, and its processes need 2\.5)$",
        ):
            reserve(fake, *places)
        assert fake.asked == ([], "")
    # Ray counts ten-thousandths.
    reserve(FakeRay(), *("a:1.333334:1",) * 3)


@pytest.mark.parametrize(
    ("gpus", "workers", "shares"),
    [
        (0, (1, 1), (0, 0)),
        (2, (1,), (1,)),
        (2, (1, 1), (1, 1)),
        (2, (1, 1, 1), (0.5, 0.5, 0.5)),
        (1, (1, 1, 1), (1 / 3, 1 / 3, 1 / 3)),
        # All workers in one process.
        (4, (3,), (3,)),
        (2, (3,), (2,)),
        (2, (1, 0), (1, 0)),
    ],
)
def test_each_worker_has_a_gpu_or_a_part_of_one(gpus: int, workers: tuple[int, ...], shares: tuple[float, ...]) -> None:
    places = launched._places(",".join(f"a:1:{number}" for number in workers))
    assert tuple(launched._gpus(place, places, gpus) for place in places) == shares


def test_where_no_cluster_answers_its_address_is_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", FakeRay())
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    address = ["--address", f"127.0.0.1:{port}"]
    assert launched.main([*address, "--places", "a:1:1", "--rank-variable", "R", "--", "program"]) == 1
    reason = f"dlbench: the Ray cluster at 127.0.0.1:{port}: [Errno 111] Connection refused\n"
    assert capsys.readouterr().err == reason


def test_the_first_that_fails_ends_those_that_run_and_those_that_were_not_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[tuple[str, Any]] = []

    def wait(tasks: list[str], num_returns: int, timeout: float = 0) -> tuple[list[str], list[str]]:
        done.append(("wait", (sorted(tasks), num_returns)))
        return [tasks[-1]], tasks[:-1]

    fake = SimpleNamespace(
        wait=wait,
        get=lambda task: (3, "") if task == "second" else (0, ""),
        cancel=lambda task, force: done.append(("cancel", (task, force))),
        shutdown=lambda: done.append(("shutdown", None)),
    )
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setattr(launched, "_connect", lambda *_: None)
    words = ["--places", "a:1:1,b:1:1,c:1:1,d:1:1", "--rank-variable", "R", "--", "program"]

    def code(*tasks: str) -> int:
        done.clear()
        monkeypatch.setattr(launched, "_start", lambda *_: {task: rank for rank, task in enumerate(tasks)})
        return launched.main(words)

    assert code("first", "third", "second", "last") == 3
    assert done == [
        ("wait", (["first", "last", "second", "third"], 1)),
        ("wait", (["first", "second", "third"], 1)),
        ("cancel", ("first", True)),
        ("cancel", ("third", True)),
        ("wait", (["first", "third"], 2)),
    ]
    assert "process rank 2 ended with exit code 3" in capsys.readouterr().err
    # There is no other.
    assert code("second") == 3
    assert done == [("wait", (["second"], 1))]
    assert code("first") == 0
    assert done == [("wait", (["first"], 1)), ("shutdown", None)]


def test_the_command_names_places_and_no_value() -> None:
    places = tuple(
        Place(rank=rank, workers=(rank,), host="b", cores=cores, quota=quota)
        for rank, (cores, quota) in enumerate([((0, 1), None), ((), None), ((2,), 0.25), ((0, 1), 1.5)])
    )
    layout = Layout(places=places, intra_op_threads=1, inter_op_threads=1)
    argv = ray.argv(layout, ("python", "-m", "worker"), ray.OPTIONS(), Settings(workers=4), ("SECRET",))
    start = ("python", "-P", "-m", "dlbench.launch.ray", "--address", "auto", "--places", "b:2:1,b:1:1,b:0.25:1,b:2:1")
    assert argv == (*start, "--rank-variable", "DLBENCH_RANK", "--", "python", "-m", "worker")


def test_an_address_is_a_host_with_a_port() -> None:
    assert ray.OPTIONS(address="head:6379").address == "head:6379"
    for address in ("ray://head:10001", "head", "head:port", ""):
        with pytest.raises(ValueError, match="address"):
            ray.OPTIONS(address=address)
