"""Compressed gradients, reduced and in messages: nothing is lost, all end alike, bytes are counted as they leave."""

import numpy as np
import pytest

from dlbench import plugins
from dlbench.strategies._compressed import Compressed
from tests.fakes import KeptReporter, LinearTrainer, SumStrategy, ThreadCommunicator, in_threads
from tests.simulations import simulation
from tests.unit.strategies.worlds import SIZE, FuzzedWorld

ALL = [
    ("threshold", {"threshold": 0.05}),
    ("threshold", {"threshold": 0.05, "entropy_coded": True}),
    ("top_k", {"density": 0.1}),
    ("half", {}),
    ("half", {"format": "float16"}),
    ("eight_bit", {}),
    ("low_rank", {"rank": 1}),
]
EXACT = [("top_k", {"density": 1.0}), ("low_rank", {"rank": 100})]
# Their number of values no number of workers divides.
INPUTS, CLASSES = 13, 7
STEPS = 6


def gradients(rank, dtype=np.float64):
    random = np.random.default_rng(rank)
    return [random.standard_normal(INPUTS * CLASSES).astype(dtype) for _ in range(STEPS)]


def compressed(communicator, name, options):
    plugin = plugins.load("compressors", name)
    strategy = Compressed(SumStrategy(communicator), communicator, plugin, plugin.options(**options), 5)
    step = strategy.bind(LinearTrainer(INPUTS, CLASSES), KeptReporter())
    return strategy, step._all_reduce


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(("name", "options"), [*ALL, *EXACT])
def test_workers_end_alike_and_what_they_have_not_sent_is_what_is_missing(name, options, size):
    def work(communicator: ThreadCommunicator):
        strategy, all_reduce = compressed(communicator, name, options)
        reduced = [all_reduce(gradient).copy() for gradient in gradients(communicator.rank)]
        left = sum(_whole_vectors(strategy, communicator.rank, size))
        assert strategy.bytes_sent == sum(num_bytes for _, num_bytes in communicator.sent)
        return np.array(reduced), left

    (first, _), *others = results = in_threads(size, work)
    assert all(np.array_equal(reduced, first) for reduced, _ in others)
    total = np.sum([gradients(rank) for rank in range(size)], axis=(0, 1))
    left, rounding = np.sum([left for _, left in results], axis=0), 1e-14 * STEPS * size * np.abs(total).max()
    assert np.abs(first.sum(axis=0) + left - total).max() < rounding
    # At full density and full rank nothing is left out.
    assert (np.abs(left).max() < rounding) == ((name, options) in EXACT)


def _whole_vectors(strategy, rank, size):
    """Yield what a worker has not sent, as vectors of all values."""
    blocks = np.array_split(np.arange(INPUTS * CLASSES), size)
    for key, values in strategy.state().items():
        whole = np.zeros(INPUTS * CLASSES)
        if key in ("residual", "gradient.residual"):
            whole[:] = values
        elif key.endswith(".residual"):
            number = rank if key.startswith("sum") else int(key.split(".")[0].split()[1])
            whole[blocks[number]] = values
        yield whole


def test_less_is_sent():
    def sent(name, **options):
        def work(communicator: ThreadCommunicator):
            strategy, all_reduce = compressed(communicator, name, options)
            for gradient in gradients(communicator.rank):
                all_reduce(gradient)
            return strategy.bytes_sent

        return sum(in_threads(3, work)) / STEPS

    numbers, headers = INPUTS * CLASSES, 3 * 2 * 8
    whole = 2 * 2 * 8 * numbers
    # Nine places and values to two others; in blocks two bytes of each number and four of each block, twice.
    assert sent("top_k", density=0.1) == 3 * 2 * 9 * (4 + 8) + headers
    assert sent("half") == 2 * 2 * (2 * numbers + 3 * 4) + 2 * headers
    assert sent("low_rank", rank=1) == 2 * 2 * 8 * (INPUTS + CLASSES)
    assert sent("eight_bit") < whole / 4
    assert sent("threshold", threshold=3.0, entropy_coded=True) < sent("top_k", density=0.1)


def test_one_that_is_not_finite_makes_all_workers_sums_so():
    def work(communicator: ThreadCommunicator):
        _, all_reduce = compressed(communicator, *case)
        gradient = gradients(communicator.rank)[0]
        if communicator.rank == 1:
            gradient[3] = np.inf
        return all_reduce(gradient)

    for case in ALL:
        for reduced in in_threads(3, work):
            assert np.isnan(reduced[3]), case


@pytest.mark.parametrize(("name", "options"), [*ALL, ("top_k", {"density": 0.1, "momentum": 0.9})])
def test_it_goes_on_from_its_state(name, options):
    def work(communicator: ThreadCommunicator):
        (strategy, all_reduce), (other, same) = (compressed(communicator, name, options) for _ in range(2))
        *earlier, last = gradients(communicator.rank)
        for gradient in earlier:
            all_reduce(gradient)
        other.set_state(strategy.state())
        reduced, again = all_reduce(last.copy()).copy(), same(last.copy())
        assert np.array_equal(reduced, again)
        state, same_state = strategy.state(), other.state()
        assert state.keys() == same_state.keys()
        assert all(np.array_equal(array, same_state[key]) for key, array in state.items())

    in_threads(3, work)


def test_a_step_says_how_long_it_encoded():
    def work(communicator: ThreadCommunicator):
        plugin = plugins.load("compressors", "top_k")
        strategy = Compressed(SumStrategy(communicator), communicator, plugin, plugin.options(), 5)
        step = strategy.bind(LinearTrainer(INPUTS, CLASSES), KeptReporter())
        x, y = np.ones((4, INPUTS)), np.arange(4)
        assert step.norms is None
        return [step.run(lambda: (x, y), 8, 0.1, marked=False)[0] for _ in range(2)]

    for steps in in_threads(2, work):
        for moments in steps:
            assert 0 < moments.encoding_s + moments.decoding_s < moments.reduced - moments.gradient_ready


OF_NODES = [name for name in plugins.names("strategies") if plugins.load("strategies", name).get("NEEDS").compresses]
OF_NODES.remove("mpi")


def maker(name, **options):
    plugin = plugins.load("compressors", name)
    return lambda size: plugin.get("create")(plugin.options(**options), size, np.dtype("float64"), 1.0)


def ended(strategy, seed, make_compressor=None, **others):
    world = FuzzedWorld(strategy, 1 + seed % 5, 6, seed, 1 + seed % 3, make_compressor=make_compressor, **others).run()
    return world, [worker.begin() for worker in world.workers]


@pytest.mark.parametrize("strategy", OF_NODES)
def test_nodes_whose_gradients_are_sent_with_all_values_do_what_they_do_uncompressed(strategy):
    for seed in range(5):
        whole, parameters = ended(strategy, seed)
        dense, same = ended(strategy, seed, maker("top_k", density=1.0))
        for first, second in zip(parameters, same, strict=True):
            np.testing.assert_allclose(first, second, rtol=1e-13, atol=1e-13)
        assert dense.record == whole.record
        pushed = [message.body for _, _, message in dense.sent if message.type in ("push", "push_pull", "block")]
        assert all(body.dtype == np.uint8 for body in pushed)


@pytest.mark.parametrize("strategy", ["ring", "parameter_server"])
@pytest.mark.parametrize("name", ["threshold", "top_k", "half", "eight_bit"])
def test_workers_agree_whatever_was_sent_and_comes_first(strategy, name):
    for seed in range(3):
        first, *others = ended(strategy, seed, maker(name))[1]
        assert all(np.array_equal(first, other) for other in others)
        again = ended(strategy, seed, maker(name))[1][0]
        assert np.array_equal(first, again)


def test_what_was_left_out_keeps_its_weight_whatever_samples_the_step_has_in_which_it_is_sent():
    """Workers in lock step train alike, however their payloads travel; those without samples send theirs, too."""

    def samples(rank, step):
        return int(step % 2 or not rank) * (1 + rank)

    def parameters(strategy, **options):
        make = maker("top_k", density=0.2)
        world = FuzzedWorld(strategy, 3, 7, options=options, samples=samples, make_compressor=make).run()
        return world.workers[0].begin()

    around = parameters("ring")
    np.testing.assert_allclose(parameters("parameter_server"), around, rtol=1e-12)
    np.testing.assert_allclose(parameters("stale_synchronous", bound=0), around, rtol=1e-12)


@pytest.mark.parametrize("strategy", OF_NODES)
def test_a_threshold_is_of_a_workers_mean_gradient_also_where_its_part_of_a_steps_mean_is_sent(strategy):
    found = simulation(strategy, 4, compression="threshold", compression__threshold=0.5)
    compressor, arrived = found.world.make_compressor(1), np.zeros(1)
    compressor.decode(compressor.encode(np.ones(1)), arrived)
    assert arrived == (0.5 if found._plan.needs.hands_out else 0.5 / 4)


def test_a_ring_of_payloads_sends_each_to_all_others_once():
    world, _ = ended("ring", 3, maker("half"))
    assert len(world.sent) == 6 * 4 * 3
    assert {message.body.nbytes for _, _, message in world.sent} == {4 + 2 * SIZE}


@pytest.mark.parametrize("strategy", OF_NODES)
@pytest.mark.parametrize("name", ["threshold", "top_k", "half", "eight_bit"])
def test_nodes_see_a_gradient_that_is_not_finite(strategy, name):
    def spoiled(rank, step, parameters):
        return np.full_like(parameters, np.inf if step == 3 else 0.5)

    world, _ = ended(strategy, 3, maker(name), gradient=spoiled)
    held = world.parameters if world.servers else world.workers[0].begin()
    assert np.isnan(held).all()
