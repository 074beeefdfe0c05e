"""What each strategy promises where messages and gradients come in any order; and what catches a broken one."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from dlbench import plugins
from dlbench.scenario.needs import Needs
from dlbench.scenario.settings import Settings
from dlbench.strategies._protocol import HEADER_BYTES, Message, pack_header, unpack_header, weighted_sum
from tests.unit.strategies import rules
from tests.unit.strategies.worlds import SIZE, FuzzedWorld, gradient_of, synchronous

NEEDS: dict[str, Needs] = {name: plugins.load("strategies", name).get("NEEDS") for name in plugins.names("strategies")}
OF_NODES = [name for name, needs in NEEDS.items() if needs.nodes]
AGREEING = {name for name in OF_NODES if NEEDS[name].agrees and not NEEDS[name].shares_memory}
AS_ONE_WORKER = {name: NEEDS[name].as_one_worker for name in OF_NODES if NEEDS[name].as_one_worker is not None}
CACHED = {"bound": 0, "reads": "cached"}
BOUNDED: list[tuple[str, str, dict[str, Any]]] = [
    *((name, needs.bounded_by, {}) for name, needs in NEEDS.items() if needs.bounded_by),
    ("stale_synchronous", "bound", {"reads": "cached"}),
]
SEEDS = range(12)  # all numbers of workers with all of servers


def uneven(rank: int, step: int) -> int:
    """Samples of a worker in a step: different ones; any but the first may have none."""
    return (rank + step) % 4 if rank else 1 + step % 3


def close(first: np.ndarray, second: np.ndarray) -> None:
    np.testing.assert_allclose(first, second, rtol=1e-12, atol=1e-12)


def test_what_promises_to_equal_one_worker_does_so_still() -> None:
    assert {"ring", "parameter_server", "stale_synchronous", "local_sgd"} <= set(AS_ONE_WORKER)
    assert {"ring", "parameter_server", "local_sgd"} <= AGREEING
    of_lock_step = {name for name, needs in NEEDS.items() if needs.as_one_worker is not None} - set(AS_ONE_WORKER)
    assert of_lock_step == {"ddp", "horovod", "mirrored", "mpi", "multi_worker", "parallax", "single"}


@pytest.mark.parametrize(("strategy", "options"), [*AS_ONE_WORKER.items(), ("stale_synchronous", CACHED)])
def test_synchronous_strategies_equal_one_worker_on_the_joined_batch_whatever_comes_first(
    strategy: str, options: dict[str, Any]
) -> None:
    for seed in SEEDS:
        workers, servers = 1 + seed % 5, 1 + seed % 3
        world = FuzzedWorld(strategy, workers, 6, seed, servers, options, samples=uneven).run()
        expected = synchronous(workers, 6, samples=uneven)
        for worker in world.workers:
            close(worker.begin(), expected)


def test_synchronous_servers_do_not_depend_on_shards_nor_on_who_comes_first_bit_for_bit() -> None:
    for dtype in (np.float32, np.float64):
        found = {
            FuzzedWorld("parameter_server", 4, 8, seed, servers, dtype=dtype).run().parameters.tobytes()
            for seed in range(3)
            for servers in (1, 2, 4, SIZE)
        }
        assert len(found) == 1


def test_ring_workers_send_two_p_minus_two_messages_a_step() -> None:
    for workers in range(1, 7):
        world = FuzzedWorld("ring", workers, 4).run()
        sent = Counter(source for source, _, _ in world.sent)
        assert all(sent[rank] == 4 * 2 * (workers - 1) for rank in range(workers))
        numbers = sum(message.num_bytes - HEADER_BYTES for _, _, message in world.sent)
        assert numbers == 4 * 2 * (workers - 1) * SIZE * 8


def test_backup_workers_apply_exactly_the_first_of_each_step_and_nothing_of_another() -> None:
    for seed in range(20):
        rules.backup_schedule(seed)


def test_each_asynchronous_gradient_is_applied_once() -> None:
    for workers in (1, 2, 5, 9):
        world = FuzzedWorld("asynchronous", workers, 40, seed=workers).run()
        assert len(world.record.staleness) == 40 * workers == world.servers[0].version


def test_softsync_updates_after_every_c_gradients() -> None:
    for workers, n in ((6, 1), (6, 2), (6, 3), (6, 6), (7, 2), (1, 1)):
        for seed in range(2):
            world = FuzzedWorld("softsync", workers, 30, seed, options={"n": n}).run()
            sizes = [len(update) for update in world.record.updates]
            needed = workers // n
            assert set(sizes[:-1]) <= {needed}
            assert sum(sizes) == 30 * workers
            mean = np.mean(world.record.staleness)
            assert abs(mean - (workers - 1) / needed) < 0.35 * max(1, (workers - 1) / needed)


def test_softsync_with_n_of_all_workers_is_asynchronous() -> None:
    for seed in range(5):
        first = FuzzedWorld("softsync", 4, 10, seed, options={"n": 4, "rate": "equal"}).run()
        second = FuzzedWorld("asynchronous", 4, 10, seed).run()
        assert np.array_equal(first.parameters, second.parameters)


def test_updates_of_a_worker_to_its_own_copy_make_no_gradient_of_it_stale() -> None:
    for servers in (1, 2):
        alone = FuzzedWorld("stale_synchronous", 1, 9, 0, servers, {"bound": 3, "reads": "cached"}).run()
        assert set(alone.record.staleness) == {0}


def test_a_stale_gradient_has_a_rate_of_its_own() -> None:
    """Two gradients of staleness 0 and 3: the mean of g / 1 and g / 3."""
    server = FuzzedWorld("softsync", 2, 1).servers[0]
    server.version = 3
    before = server.parameters.copy()
    for worker, version in ((0, 3), (1, 0)):
        server.on_message(Message("push", worker, 1, version, 0, 1, np.full(SIZE, 6.0)))
    close(server.parameters, before - 0.1 * np.full(SIZE, (6.0 + 2.0) / 2))


@pytest.mark.parametrize("strategy", ["downpour", "hogwild", "parallax", "sandblaster", "stale_synchronous"])
def test_a_rule_of_plain_sgd_is_no_other_optimizers(strategy: str) -> None:
    plugin = plugins.load("strategies", strategy)
    for chosen in ({}, {"optimizer": "adam"}, {"momentum": 0.9}, {"weight_decay": 0.1}):
        reason = plugin.get("refuse")(plugin.options(), Settings(strategy=strategy, **chosen))
        assert ("sgd" in reason) == bool(reason) == bool(chosen), chosen


@pytest.mark.parametrize(("strategy", "option", "others"), BOUNDED)
def test_a_promised_bound_is_kept_and_used(strategy: str, option: str, others: dict[str, Any]) -> None:
    for bound in range(4):
        options = others | {option: bound}
        worlds = (FuzzedWorld(strategy, 3, 7, seed, options=options, speeds=[1, 1, 0.02]) for seed in SEEDS)
        assert max(rules.bounded(world, bound) for world in worlds) == bound


@pytest.mark.parametrize("reads", ["fresh", "cached"])
def test_a_stale_worker_always_reads_its_own_updates(reads: str) -> None:
    """Where only the first worker changes anything, it trains as if it were alone, on a third of the step."""
    for seed in range(12):
        read: list[np.ndarray] = []

        def gradient(rank: int, step: int, parameters: np.ndarray, read: list[np.ndarray] = read) -> np.ndarray:
            if rank == 0:
                read.append(parameters)
            return gradient_of(0, step, parameters) * (rank == 0)

        options = {"bound": 2, "reads": reads}
        world = FuzzedWorld("stale_synchronous", 3, 8, seed, options=options, gradient=gradient).run()
        expected = world.world.parameters
        for step, parameters in enumerate(read, 1):
            close(parameters, expected)
            expected = expected - 0.1 * gradient_of(0, step, expected) / 3


def test_a_copy_that_is_new_enough_saves_messages_and_none_more_than_the_bound_allows() -> None:
    """With bound s a worker fetches anew after s + 1 steps at the latest, and with the bound of all steps never."""
    for bound in (0, 1, 3, 8):
        world = FuzzedWorld("stale_synchronous", 3, 8, 1, options={"bound": bound, "reads": "cached"}).run()
        pulls = Counter(message.worker for _, _, message in world.sent if message.type == "push_pull")
        for worker in range(3):
            assert 8 // (bound + 1) - 1 <= pulls[worker] <= 8
        assert (bound < 8) == bool(pulls)


def test_a_server_refuses_a_worker_that_is_further_ahead_than_the_bound() -> None:
    """Such as one that begins without having been answered."""
    world = FuzzedWorld("stale_synchronous", 3, 7, 1, options={"bound": 1}, speeds=[1, 0.01, 1])
    world.workers[0].may_begin = lambda: True
    with pytest.raises(RuntimeError, match="worker 0 has made step 3 while the slowest had made 0: the bound is 1"):
        world.run()


@pytest.mark.parametrize("strategy", ["parameter_server", "asynchronous", "ring"])
def test_a_gradient_that_is_dropped_on_purpose_is_caught(strategy: str) -> None:
    """The same comparison as above, with one worker's gradients replaced by nothing."""

    def muted(rank: int, step: int, parameters: np.ndarray) -> np.ndarray:
        return gradient_of(rank, step, parameters) * (rank != 1)

    sound, broken = FuzzedWorld(strategy, 3, 4, 1).run(), FuzzedWorld(strategy, 3, 4, 1, gradient=muted).run()
    assert not np.allclose(sound.workers[0].begin(), broken.workers[0].begin())


def test_one_push_of_several_gradients_is_their_sum() -> None:
    for n_push in (2, 3, 5):
        world = FuzzedWorld("downpour", 1, 12, options={"adagrad": False, "n_push": n_push, "n_fetch": 100}).run()
        pushed = [message.body for _, _, message in world.sent if message.type == "push"]
        assert len(pushed) == -(-12 // n_push)
        # The worker trains on its own: its parameters are those of plain SGD, and the sum of its pushes their change.
        close(world.workers[0].parameters, synchronous(1, 12))
        close(world.world.parameters - 0.1 * np.sum(pushed, axis=0), synchronous(1, 12))


def test_downpour_counts_every_gradient_once_and_others_wait_while_the_first_worker_warms_up() -> None:
    for seed in range(12):
        warm_steps = 5 * (seed % 2)
        options = {"n_push": 1 + seed % 4, "n_fetch": 1 + seed % 3, "warm_start_steps": warm_steps}
        world = FuzzedWorld("downpour", 3, 10, seed, 1 + seed % 2, options)

        def look(world: FuzzedWorld = world, warm_steps: int = warm_steps) -> None:
            assert world.done[0] >= warm_steps or not any(world.done[1:])

        world.on_event = look
        assert world.run().record.samples == 30


def test_adagrad_on_the_servers_follows_its_formula() -> None:
    world = FuzzedWorld("downpour", 1, 5).run()
    found, squares = np.random.default_rng(99).normal(size=SIZE), np.zeros(SIZE)
    for step in range(1, 6):
        gradient = gradient_of(0, step, found)
        squares += gradient**2
        found = found - 0.1 * gradient / (np.sqrt(squares) + 1e-7)
    close(world.parameters, found)


def test_local_sgd_sends_messages_for_every_average_only() -> None:
    for period, after_steps, averages in ((1, 0, 12), (2, 0, 6), (6, 0, 2), (4, 4, 4 + 2)):
        world = FuzzedWorld("local_sgd", 3, 12, options={"period": period, "after_steps": after_steps}).run()
        assert len(world.sent) == averages * 3 * 4
        assert len({worker.parameters.tobytes() for worker in world.workers}) == 1


def test_averages_of_local_steps_are_their_mean() -> None:
    """Two workers, two local steps, one average: by hand."""
    world = FuzzedWorld("local_sgd", 2, 2, options={"period": 2}).run()
    ends = []
    for rank in range(2):
        found = np.random.default_rng(99).normal(size=SIZE)
        for step in (1, 2):
            found = found - 0.1 * gradient_of(rank, step, found)
        ends.append(found)
    close(world.workers[0].parameters, np.mean(ends, axis=0))


def test_elastic_averaging_moves_worker_and_centre_by_the_same_amount() -> None:
    """Without gradients the sum of all workers and the centre stays; with one worker and exchange it is split."""
    for seed in range(6):
        options = {"period": 3, "moving_rate": 0.6}
        world = FuzzedWorld("elastic_averaging", 3, 9, seed, 1 + seed % 2, options, rate=0.0)
        for rank, worker in enumerate(world.workers):
            worker.parameters = worker.parameters + rank
        world.run()
        close(
            np.sum([worker.parameters for worker in world.workers], axis=0) + world.parameters,
            4 * world.world.parameters + 0 + 1 + 2,
        )
    world = FuzzedWorld("elastic_averaging", 1, 1, options={"period": 1, "moving_rate": 0.6}, rate=0.0)
    world.workers[0].parameters = world.workers[0].parameters + 1
    close(world.run().parameters, world.world.parameters + 0.6)


def test_gossip_keeps_the_sum_of_a_pair() -> None:
    """Without gradients the sum over all workers stays, and all come closer; asks and answers alternate."""
    for seed in range(6):
        world = FuzzedWorld("gossip", 4, 40, seed, rate=0.0)
        for rank, worker in enumerate(world.workers):
            worker.parameters = worker.parameters + rank
        before = np.sum([worker.parameters for worker in world.workers], axis=0)
        world.run()
        after = [worker.parameters for worker in world.workers]
        close(np.sum(after, axis=0), before)
        assert np.ptp(after, axis=0).max() < 0.1
        for source, to, message in world.sent:
            assert (source % 2, to % 2) == ((0, 1) if message.type == "average" else (1, 0))


@pytest.mark.parametrize("strategy", OF_NODES)
def test_every_strategy_ends_and_counts_each_sample_and_agreeing_nodes_have_the_same_bits(strategy: str) -> None:
    for seed in SEEDS:
        workers = 2 + seed % 4
        speeds = [0.05 if rank == 0 else 1.0 for rank in range(workers)] if seed % 2 else ()
        world = FuzzedWorld(strategy, workers, 5, seed, 1 + seed % 3, speeds=speeds).run()
        # A gradient that was computed twice is dropped once.
        dropped = 0 if NEEDS[strategy].assigned_by else world.record.dropped
        assert world.record.samples + dropped == 5 * workers
        assert not any(world.channels.values())
        assert strategy not in AGREEING or len({worker.begin().tobytes() for worker in world.workers}) == 1


@pytest.mark.parametrize("dtype", ["", "float16", "float32", "float64", "uint8", "uint32", "int32", "int64"])
def test_a_header_gives_back_its_message_and_says_the_type_of_its_numbers(dtype: str) -> None:
    kind, body = ("block", np.zeros(4, dtype)) if dtype else ("pull", None)
    message = Message(kind, 3, 5, 2**40, 7, 11, body)
    header = pack_header(message)
    assert header.size == HEADER_BYTES == 40
    found, of_numbers = unpack_header(header)
    assert found == message._replace(body=None)
    assert of_numbers == (np.dtype(dtype) if dtype else None)


def test_what_is_no_message_is_refused() -> None:
    for message, reason in (
        (Message("hello", 0), "no message of type 'hello'; strategies send push, pull"),
        (Message("push", 0, body=np.zeros(2, complex)), "do not carry complex128; they carry float16"),
        (Message("push", 0), "push has no numbers"),
        (Message("finished", 0, body=np.zeros(2)), "finished has numbers"),
    ):
        with pytest.raises(ValueError, match=reason):
            pack_header(message)
    for header in (np.zeros(HEADER_BYTES - 1, np.uint8), np.full(HEADER_BYTES, 99, np.uint8)):
        with pytest.raises(ValueError, match="no message"):
            unpack_header(header)


def test_a_weighted_sum_has_the_gradients_type() -> None:
    values = [(np.array([1.0, 2.0], np.float32), 0.75), (np.array([5.0, 6.0], np.float32), 0.25)]
    found = weighted_sum(values)
    assert found.dtype == np.float32
    assert found.tolist() == [2.0, 3.0]
