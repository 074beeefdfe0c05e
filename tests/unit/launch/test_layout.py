"""Workers to hosts, cores to workers, threads to cores."""

import itertools

import pytest

from dlbench.errors import UserError
from dlbench.launch import layout as layout_module
from dlbench.launch.layout import inter_op_threads, plan_layout
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.layout import Layout
from dlbench.scenario.needs import Needs
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Mode, Settings


def run(**settings: object) -> RunSpec:
    return RunSpec(scenario="s", label="l", repeat=0, settings=Settings.model_validate({"strategy": "mpi", **settings}))


def host(address: str, slots: int = 4, cores: int = 4) -> Host:
    return Host(address=address, slots=slots, cores=tuple(range(cores)))


def cluster(*hosts: Host) -> Cluster:
    return Cluster(hosts=hosts)


def where(layout: Layout) -> list[tuple[str, int]]:
    return [(place.host, place.local_index) for place in layout.places]


def cores(layout: Layout) -> list[tuple[int, ...]]:
    return [place.cores for place in layout.places]


def test_workers_sit_on_hosts_as_the_mode_says() -> None:
    # Of unequal hosts those with the most slots, for any number of workers: arms are where their base line is.
    three = (host("a", 2), host("b"), host("c"))
    for settings, hosts, expected in (
        ({"workers": 3, "mode": Mode.SCALE_UP}, three, [("b", 0), ("b", 1), ("b", 2)]),
        ({"workers": 1, "mode": Mode.SCALE_UP}, three, [("b", 0)]),
        ({"workers": 2, "mode": Mode.SCALE_OUT}, three, [("b", 0), ("c", 0)]),
        ({"workers": 5}, three, [(at, index) for at, slots in (("b", 4), ("c", 1)) for index in range(slots)]),
        ({"workers": 8, "workers_per_host": 4}, three, [(at, index) for at in "bc" for index in range(4)]),
        ({"workers": 5, "workers_per_host": 2}, three, [("a", 0), ("b", 0), ("b", 1), ("c", 0), ("c", 1)]),
        ({"workers": 3, "workers_per_host": 2}, three, [("b", 0), ("b", 1), ("c", 0)]),
        ({"workers": 6, "workers_per_host": 4}, three[:2],
         [(at, index) for at, n in (("a", 2), ("b", 4)) for index in range(n)]),
        ({"workers": 6, "workers_per_host": 4}, three[1::-1],
         [(at, index) for at, n in (("b", 4), ("a", 2)) for index in range(n)]),
        ({"workers": 5}, three[:2], [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2)]),  # filled in order
    ):  # fmt: skip
        made = plan_layout(run(cores_per_worker=1, **settings), cluster(*hosts))
        assert where(made) == expected, settings
        assert [place.rank for place in made.places] == list(range(len(expected)))
        assert made.emulated == ()


def test_more_workers_than_slots_go_around_and_are_marked_where_the_mode_lets_them() -> None:
    made = plan_layout(run(workers=5, cores_per_worker=1), cluster(host("a", 1), host("b", 2)))
    assert [place.host for place in made.places] == ["a", "a", "b", "b", "b"]
    assert made.emulated == ("oversubscribed",)
    for settings in ({"mode": Mode.SCALE_OUT}, {"workers_per_host": 2}):
        with pytest.raises(UserError, match=r"5 workers with \d on each host need \d hosts; the cluster has 2"):
            plan_layout(run(workers=5, **settings), cluster(host("a"), host("b")))


def test_whole_cores_are_disjoint_and_the_same_however_many_workers_there_are() -> None:
    for settings in ({"strategy": "single", "workers": 1}, {"workers": 3}):
        made = plan_layout(run(cores_per_worker=2, **settings), cluster(host("localhost", 8, 8)))
        assert cores(made) == [(0, 1), (2, 3), (4, 5)][: settings["workers"]]
        assert {place.quota for place in made.places} == {None}
        assert (made.intra_op_threads, made.inter_op_threads, made.emulated) == (2, 2, ())


def test_where_cores_are_too_few_workers_share_them_by_quota_and_are_marked() -> None:
    for workers, wanted, expected in (
        (4, 0.5, [((0,), 0.5), ((0,), 0.5), ((1,), 0.5), ((1,), 0.5)]),
        (4, 1, [((0,), 0.5), ((0,), 0.5), ((1,), 0.5), ((1,), 0.5)]),  # fewer than promised
        (3, 2 / 3, [((0, 1), pytest.approx(2 / 3))] * 3),  # thirds of two cores roam over both
    ):
        made = plan_layout(run(workers=workers, cores_per_worker=wanted), cluster(host("localhost", 4, 2)))
        assert [(place.cores, place.quota) for place in made.places] == expected, wanted
        assert (made.intra_op_threads, made.inter_op_threads, made.emulated) == (1, 1, ("oversubscribed",))


def test_a_layout_has_the_cores_that_are_bound() -> None:
    here = cluster(host("localhost", 4, 4))
    bound = [
        plan_layout(run(workers=workers, cores_per_worker=wanted), here).cores_per_worker
        for workers, wanted in [(1, 4.0), (2, 2.0), (3, 2.0), (4, 2.0), (8, 1.0), (2, 0.25)]
    ]
    assert bound == [4.0, 2.0, 1.0, 1.0, 0.5, 0.25]
    # Where the cores of a host are not known, none are bound.
    made = plan_layout(run(workers=2, cores_per_worker=3), cluster(host("a", 2, 0)))
    assert (cores(made), made.cores_per_worker) == ([(), ()], None)
    assert (made.intra_op_threads, made.emulated) == (3, ())


def test_no_core_is_promised_twice() -> None:
    for workers, num_cores, wanted in itertools.product(range(1, 10), range(1, 6), [None, 0.3, 0.5, 1.0, 2.0, 3.0]):
        made = plan_layout(run(workers=workers, cores_per_worker=wanted), cluster(host("localhost", 9, num_cores)))
        row = f"{workers} workers, {num_cores} cores, {wanted} for each"
        assert len(made.places) == workers, row
        total = sum(len(place.cores) if place.quota is None else place.quota for place in made.places)
        assert total <= num_cores + 1e-9, row
        for core in range(num_cores):
            owners = [place for place in made.places if core in place.cores]
            assert len(owners) <= 1 or all(place.quota is not None for place in owners), row


def test_one_process_may_hold_all_workers_and_has_the_sum_of_their_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_module, "needs_of", lambda _: Needs(one_process=True))
    made = plan_layout(run(workers=3, cores_per_worker=2), cluster(host("a", 3, 8), host("b", 3, 8)))
    (place,) = made.places
    assert (place.workers, place.cores, place.quota) == ((0, 1, 2), (0, 1, 2, 3, 4, 5), None)
    assert (made.intra_op_threads, made.emulated) == (6, ("logical-devices",))
    assert plan_layout(run(workers=3, command="python train.py"), cluster(host("a", 3, 8))).emulated == ()
    with pytest.raises(UserError, match="do not fit on one host"):
        plan_layout(run(workers=2, mode=Mode.SCALE_OUT), cluster(host("a"), host("b")))

    # As much as the workers of other strategies have, not every core that is there.
    made = plan_layout(run(workers=2, cores_per_worker=2 / 3), cluster(host("a", 2, 2)))
    (place,) = made.places
    assert place.quota == pytest.approx(4 / 3)
    assert made.cores_per_worker == pytest.approx(2 / 3)
    assert (made.intra_op_threads, made.inter_op_threads) == (2, 2)


def test_one_core_gets_one_thread_and_replicas_of_one_process_run_at_once_where_there_are_cores() -> None:
    threads = {(1, 1): 1, (2, 1): 2, (8, 1): 2, (1, 2): 1, (2, 2): 2, (4, 4): 4, (8, 4): 8, (8, 2): 4, (2, 4): 2}
    assert {case: inter_op_threads(*case) for case in threads} == threads


def test_cores_are_given_out_in_the_order_they_are_said() -> None:
    first, second = (Host(address=name, slots=2, cores=order) for name, order in (("a", (0, 1)), ("b", (1, 0))))
    out = plan_layout(run(workers=2, mode=Mode.SCALE_OUT, cores_per_worker=1), cluster(first, second))
    assert cores(out) == [(0,), (1,)]
    numbered = [host.model_copy(update={"machine": number}) for number, host in enumerate((first, second))]
    there = plan_layout(run(workers=2, mode=Mode.SCALE_OUT, cores_per_worker=1), cluster(*numbered))
    assert [place.machine for place in there.places] == [0, 1]
    up = plan_layout(run(workers=2, mode=Mode.SCALE_UP, cores_per_worker=1), cluster(first, second))
    assert cores(up) == [(0,), (1,)]
    assert out.emulated == up.emulated == ()


def test_hosts_that_share_cores_of_one_machine_are_marked() -> None:
    def out(*orders: tuple[int, ...], machine: int | None, share: float = 1) -> tuple[str, ...]:
        hosts = [Host(address=f"h{i}", slots=1, cores=order, machine=machine) for i, order in enumerate(orders)]
        settings = run(workers=len(orders), mode=Mode.SCALE_OUT, cores_per_worker=share)
        return plan_layout(settings, cluster(*hosts)).emulated

    assert out((0, 1), (0, 1), machine=0) == ("oversubscribed",)
    assert out((0, 1), (1, 0), machine=0) == ()
    assert out((0, 1), (1, 0), (0, 1), machine=0) == ("oversubscribed",)
    # It is not known whether they are one machine.
    assert out((0, 1), (0, 1), machine=None) == ()


def test_what_the_cluster_says_of_itself_is_in_every_layout() -> None:
    slow = cluster(host("a"), host("b")).model_copy(update={"emulated": ("throttled-link",)})
    assert plan_layout(run(workers=2, cores_per_worker=1), slow).emulated == ("throttled-link",)
    assert plan_layout(run(workers=5, cores_per_worker=1), cluster(*slow.hosts[:1])).emulated == ("oversubscribed",)


def with_servers(*hosts: Host, **settings: object) -> Layout:
    asked = {"strategy": "asynchronous", "communicator": "mpi", "server_placement": "beside", **settings}
    return plan_layout(run(cores_per_worker=1, **asked), cluster(*hosts))


def test_servers_beside_workers_share_the_cores_of_their_host_and_take_none_from_others() -> None:
    made = with_servers(host("a", 2), host("b", 2), workers=4, servers=2)
    assert [(place.role, place.workers, place.host) for place in made.places] == [
        ("worker", (0,), "a"), ("worker", (1,), "a"), ("worker", (2,), "b"), ("worker", (3,), "b"),
        ("server", (), "a"), ("server", (), "b"),
    ]  # fmt: skip
    assert [place.rank for place in made.places] == list(range(6))
    assert cores(made) == [(0,), (1,), (0,), (1,), (0, 1), (0, 1)]
    assert [place.local_index for place in made.places] == [0, 1, 0, 1, 2, 2]
    assert (made.emulated, made.cores_per_worker) == ((), 1)
    assert made.returns_to_a_host
    assert made.host_list == "a:2,b:2,a:1,b:1"
    # More servers than workers sit beside each in turn; simulated ones are no places.
    more = with_servers(host("a", 2), workers=2, servers=4)
    assert (cores(more)[2:], more.returns_to_a_host) == ([(0, 1)] * 4, False)
    simulated = with_servers(host("a"), workers=8, servers=2, communicator="simulated", server_placement="own")
    assert [(place.role, place.workers) for place in simulated.places] == [("worker", (0,))]


def test_servers_of_their_own_come_after_the_workers_and_need_slots() -> None:
    made = with_servers(host("a", 3), host("b", 3), workers=4, servers=2, server_placement="own")
    assert [(place.role, place.host) for place in made.places] == [
        ("worker", "a"), ("worker", "a"), ("worker", "a"), ("worker", "b"), ("server", "b"), ("server", "b"),
    ]  # fmt: skip
    assert cores(made) == [(0,), (1,), (2,), (0,), (1,), (2,)]
    assert made.host_list == "a:3,b:3"
    with pytest.raises(UserError, match="2 workers and 1 server with 1 on each host need 3 hosts; the cluster has 2"):
        with_servers(host("a"), host("b"), workers=2, servers=1, server_placement="own", mode=Mode.SCALE_OUT)


def test_the_evaluator_comes_last_on_a_slot_of_its_own_or_beside_the_first_workers() -> None:
    own = with_servers(host("a", 3), host("b", 3), workers=4, servers=1, server_placement="own", evaluator="own")
    assert [place.role for place in own.places] == ["worker"] * 4 + ["server", "evaluator"]
    assert cores(own) == [(0,), (1,), (2,), (0,), (1,), (2,)]
    both = with_servers(host("a", 3), workers=2, servers=1, evaluator="own")
    assert [(place.role, place.rank, place.local_index) for place in both.places] == [
        ("worker", 0, 0), ("worker", 1, 1), ("server", 2, 2), ("evaluator", 3, 3),
    ]  # fmt: skip
    # The server runs on the cores of the workers alone.
    assert cores(both) == [(0,), (1,), (0, 1), (2,)]
    beside = with_servers(host("a", 2), host("b", 2), workers=4, servers=2, evaluator="beside")
    assert [(place.role, place.host) for place in beside.places[4:]] == [
        ("server", "a"), ("server", "b"), ("evaluator", "a"),
    ]  # fmt: skip
    assert cores(beside)[-1] == (0, 1)
    assert (beside.evaluator, with_servers(host("a", 2), workers=2).evaluator) == (6, None)
    with pytest.raises(UserError, match="2 workers and 1 evaluator with 1 on each host need 3 hosts"):
        with_servers(host("a"), host("b"), workers=2, servers=1, evaluator="own", mode=Mode.SCALE_OUT)
