"""Sandblaster: the direction of one process, each portion once whatever comes first, and scalars at the coordinator."""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dlbench import plugins
from dlbench.scenario.settings import Settings
from dlbench.strategies._protocol import HEADER_BYTES, Message
from dlbench.strategies.sandblaster import Coordinator, LbfgsShard, TreeSum
from dlbench.worker.simulate.world import StuckError
from tests.simulations import NUM_TRAIN, trained
from tests.unit.strategies.worlds import FuzzedWorld

Array = np.ndarray
# Neither two nor three servers divide the parameters; portions have 1 to 4 samples.
SIZE, PORTIONS, PER_PORTION = 7, 11, (3, 1, 4, 2, 3, 3, 1, 2, 4, 2, 1)


def _problem() -> tuple[list[Array], list[Array]]:
    random = np.random.default_rng(3)
    inputs = [random.normal(size=(count, SIZE)) * np.geomspace(0.3, 3, SIZE) for count in PER_PORTION]
    return inputs, [random.integers(0, 2, count) * 2.0 - 1 for count in PER_PORTION]


INPUTS, LABELS = _problem()


def loss(portion: int, step: int, parameters: Array) -> float:
    """Logistic regression with a little weight decay, mean over a portion."""
    margins = LABELS[portion] * (INPUTS[portion] @ parameters)
    return float(np.logaddexp(0, -margins).mean() + 0.01 * parameters @ parameters)


def gradient(portion: int, step: int, parameters: Array) -> Array:
    margins = LABELS[portion] * (INPUTS[portion] @ parameters)
    weights = -LABELS[portion] / (1 + np.exp(margins)) / len(margins)
    return weights @ INPUTS[portion] + 0.02 * parameters


def whole(parameters: Array) -> tuple[float, Array]:
    """Return loss and gradient over all portions."""
    weights = np.array(PER_PORTION) / sum(PER_PORTION)
    losses = [loss(portion, 1, parameters) for portion in range(PORTIONS)]
    gradients = [gradient(portion, 1, parameters) for portion in range(PORTIONS)]
    return float(weights @ losses), weights @ gradients


def world(workers: int, servers: int, evaluations: int, seed: int = 0, **others: Any) -> FuzzedWorld:
    chosen = {"gradient": gradient, "loss": loss, "batches": PORTIONS, "size": SIZE, **others}
    return FuzzedWorld(
        "sandblaster", workers, evaluations, seed, servers, samples=lambda portion, _: PER_PORTION[portion], **chosen
    )


def two_loops(pairs: deque[tuple[Array, Array]], at: Array) -> Array:
    """Return L-BFGS's direction with whole vectors, as the textbook has it."""
    q, alphas = at.copy(), []
    for s, y in reversed(pairs):
        alphas.append(s @ q / (s @ y))
        q -= alphas[-1] * y
    if pairs:
        s, y = pairs[-1]
        q *= s @ y / (y @ y)
    for (s, y), alpha in zip(pairs, reversed(alphas), strict=True):
        q += s * (alpha - y @ q / (s @ y))
    return -q


def spied(made: FuzzedWorld) -> Iterator[tuple[list[dict[int, int]], Array, Array, Array]]:
    """Run a world; yield of each evaluation the samples that each shard counted, then point, gradient and direction."""
    seen: list[list[tuple[dict[int, int], Array, Array, Array]]] = [[] for _ in made.servers]
    for shard, of_shard in zip(made.servers, seen, strict=True):

        def move(body: Array, shard: Any = shard, move: Any = shard._move, of_shard: Any = of_shard) -> None:
            counted = dict(sorted(shard._samples.items()))
            move(body)
            of_shard.append((counted, shard._point.copy(), shard._gradient.copy(), shard._direction.copy()))

        shard._move = move
    made.run()
    for of_shards in zip(*seen, strict=True):
        counted, *vectors = zip(*of_shards, strict=True)
        point, gradient, direction = map(np.concatenate, vectors)
        yield list(counted), point, gradient, direction


@pytest.mark.parametrize(("workers", "servers"), [(1, 1), (3, 2), (5, 3)])
def test_directions_are_those_of_one_process(workers: int, servers: int) -> None:
    history = 3
    made = world(workers, servers, 25, seed=workers, options={"history": history})
    states = [vectors for _, *vectors in spied(made)]
    pairs: deque[tuple[Array, Array]] = deque(maxlen=history)
    compared = 0
    np.testing.assert_allclose(states[0][2], -whole(states[0][0])[1], rtol=1e-12)
    for (point, at_point, _), (later, at_later, direction) in pairwise(states):
        np.testing.assert_allclose(at_later, whole(later)[1], rtol=1e-12, atol=1e-14)
        if np.array_equal(point, later):  # the trial was rejected
            continue
        if np.linalg.norm(later - point) < 1e-3:  # differences of points are rounded too coarsely to compare by
            break
        pairs.append((later - point, at_later - at_point))
        expected = two_loops(pairs, at_later)
        assert np.linalg.norm(direction - expected) <= 1e-10 * np.linalg.norm(expected)
        compared += 1
    assert compared > 3 * history


def test_the_minimum_is_that_of_scipy() -> None:
    from scipy.optimize import minimize

    workers, servers = 4, 3
    made = world(workers, servers, 60).run()
    found = minimize(whole, made.world.parameters, jac=True, method="L-BFGS-B", options={"gtol": 1e-10, "ftol": 0})
    np.testing.assert_allclose(whole(made.parameters)[0], found.fun, rtol=1e-12)
    np.testing.assert_allclose(made.parameters, found.x, rtol=1e-6)
    assert np.abs(whole(made.parameters)[1]).max() < 1e-8
    # It takes about as many evaluations.
    made = world(workers, servers, found.nfev + 5).run()
    np.testing.assert_allclose(whole(made.parameters)[0], found.fun, rtol=1e-9)


def test_each_portion_counts_once_whatever_comes_first_and_who_computes_it_changes_no_bit() -> None:
    results, dropped = set(), 0
    for seed in range(14):  # all numbers of workers, with and without a slow worker
        workers = 1 + seed % 7
        speeds = [0.02 if rank == seed % workers and seed % 2 else 1.0 for rank in range(workers)]
        made = world(workers, 2, 6, seed, speeds=speeds, options={"copies": 1 + seed % 3})
        counted = [of_shards for of_shards, *_ in spied(made)]
        assert counted == [[dict(enumerate(PER_PORTION))] * 2] * 6
        assert made.record.samples == 6 * sum(PER_PORTION)
        assert made.record.updates == [(0,) * PORTIONS] * 6
        # Each gradient that was computed counts or is dropped.
        assert sum(made.done) == 6 * PORTIONS + made.record.dropped
        assert made.record.dropped == 0 or seed % 3
        dropped += made.record.dropped
        results.add(made.parameters.tobytes())
    assert len(results) == 1
    assert dropped > 14


def test_the_coordinator_gets_and_sends_scalars_only() -> None:
    history, size = 2, 5000
    made = FuzzedWorld("sandblaster", 3, 8, 1, 2, {"history": history}, batches=9, size=size).run()
    coordinator = made.world.node("coordinator", 0)
    own = [message for source, to, message in made.sent if coordinator in (source, to)]
    assert {message.type for message in own} == {"assign", "done", "products", "move", "finished"}
    most = 3 * (2 * history + 3)
    assert max(message.num_bytes for message in own) == HEADER_BYTES + 8 * most
    assert made.others[coordinator - 3].parameters.size == 0
    # The others carry vectors.
    bodies = [
        message.body.size
        for source, to, message in made.sent
        if coordinator not in (source, to) and message.body is not None
    ]
    assert set(bodies) == {size // 2}


def test_a_worker_pulls_once_an_evaluation_and_not_at_all_for_the_first() -> None:
    for seed in range(5):
        made = world(3, 2, 5, seed).run()
        pulls = [
            (message.worker, message.version, message.shard) for _, _, message in made.sent if message.type == "pull"
        ]
        assert len(set(pulls)) == len(pulls) <= 3 * 4 * 2
        assert min(version for _, version, _ in pulls) == 2


def test_an_evaluation_is_the_last_where_the_coordinator_is_told_so() -> None:
    for seed in range(5):
        made = world(3, 2, 50, seed)
        shard, coordinator = made.servers[0], made.others[2]
        assert isinstance(coordinator, Coordinator)

        def close(shard: Any = shard, coordinator: Any = coordinator) -> None:
            if shard.version == 4:
                coordinator.on_message(Message("close", 0))

        made.on_event = close
        made.run()
        assert {server.version for server in made.servers} <= {5, 6}
        assert made.record.samples == made.servers[0].version * sum(PER_PORTION)


def test_fewer_portions_than_workers_end_too() -> None:
    for seed in range(5):
        made = FuzzedWorld("sandblaster", 5, 6, seed, 2, batches=2, speeds=[0.02, 1, 1, 1, 1]).run()
        assert made.record.samples == 12


def test_a_sum_has_the_same_bits_in_any_order_and_keeps_few_parts() -> None:
    random = np.random.default_rng(1)
    for count in (1, 2, 3, 6, 11, 64):
        vectors, sums = random.normal(size=(count, 5)) * 10.0 ** random.integers(-8, 8, (count, 1)), set()
        for _ in range(20):
            tree = TreeSum(count)
            ends = [tree.add(int(number), vectors[number].copy()) for number in random.permutation(count)]
            assert [end is None for end in ends] == [True] * (count - 1) + [False]
            np.testing.assert_allclose(ends[-1], vectors.sum(axis=0), rtol=1e-10, atol=1e-6)
            sums.add(ends[-1].tobytes())
        assert len(sums) == 1
    tree, most = TreeSum(1024), 0
    for number in range(1023):
        assert tree.add(number, np.ones(1)) is None
        most = max(most, len(tree._parts))
    assert most == 10
    assert tree.add(1023, np.ones(1)) == 1024


# One gradient takes a second, messages none.
FREE = {
    "communicator__compute_times": "constant", "communicator__compute_time_s": 1.0, "communicator__latency_s": 0.0,
    "communicator__host_latency_s": 0.0, "communicator__bandwidth_bytes_per_s": 1e15,
    "communicator__host_bandwidth_bytes_per_s": 1e15, "communicator__server_bytes_per_s": 1e15,
}  # fmt: skip
SLOW = {"communicator__slow_workers": 1, "communicator__slow_factor": 1000.0}


def durations(workers: int, **chosen: Any) -> list[float]:
    """Return the simulated seconds of each evaluation: 40 portions of a second each."""
    rows = trained("sandblaster", workers, epochs=6, **FREE, **chosen)[2].reporter.rows  # type: ignore[attr-defined]
    return np.diff([0.0, *(row["train_time_s"] for row in rows)]).tolist()


def test_a_slow_worker_delays_an_evaluation_by_one_portion_at_most() -> None:
    equal, without, slow = durations(4), durations(3), durations(4, **SLOW)
    # At the end of an evaluation others compute what is still computed: the next one begins up to a portion later.
    assert max(equal) <= 40 / 4 + 1 + 1e-6
    assert max(slow) <= 40 / 3 + 1 + 1 + 1e-6
    for own, before in zip(slow, without, strict=True):
        assert own <= before + 1 + 1e-6
    # Once is not enough.
    assert max(durations(4, **SLOW, strategy__copies=1)) >= 1000


def test_a_dead_worker_loses_nothing() -> None:
    sound, parameters, _ = trained("sandblaster", 3, epochs=6, servers=2)
    for at_s in (0.01, 0.3, 1.7):
        gone = {"communicator__failed_worker": 1, "communicator__failed_at_s": at_s}
        result, found, _ = trained("sandblaster", 3, epochs=6, servers=2, **gone)
        assert result.samples_seen == sound.samples_seen == 6 * NUM_TRAIN
        assert found.tobytes() == parameters.tobytes()
    with pytest.raises(StuckError, match=r"worker 1 ended at 0\.3 s"):
        trained("sandblaster", 3, communicator__failed_worker=1, communicator__failed_at_s=0.3, strategy__copies=1)


def test_float32_trains_too_and_the_history_stays_in_float64() -> None:
    result, parameters, found = trained("sandblaster", 2, epochs=15, precision="float32")
    assert parameters.dtype == np.float32
    (shard,) = found.simulated.servers
    assert isinstance(shard, LbfgsShard)
    assert shard._basis.dtype == shard._point.dtype == np.float64
    assert result.scores["train_loss"] == pytest.approx(
        trained("sandblaster", 2, epochs=15)[0].scores["train_loss"], rel=1e-3
    )


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"learning_rate_scale": "linear"}, "learning_rate_scale"),
        ({"warmup_epochs": 1}, "warmup_epochs"),
        ({"learning_rate_decay": "cosine"}, "learning_rate_decay"),
        ({"precision": "mixed_bfloat16"}, "mixed_bfloat16"),
        ({}, ""),
    ],
)
def test_what_it_would_not_honour_is_refused(changed: dict[str, Any], word: str) -> None:
    plugin = plugins.load("strategies", "sandblaster")
    refuse: Callable[..., str] = plugin.get("refuse")
    reason = refuse(plugin.options(), Settings(strategy="sandblaster", **changed))
    assert word in reason
    assert bool(reason) == bool(word)
