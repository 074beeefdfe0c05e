"""Rows on servers, to all, or in the whole gradient: the same weights, exactly the bytes of the formulas."""

import numpy as np
import pytest

from dlbench.scenario.settings import Settings
from dlbench.strategies import parallax
from dlbench.strategies._volume import ring
from dlbench.strategies.parallax import Route, bytes_of_step, choose
from tests.fakes import KeptReporter, SumStrategy, in_threads

# No number of workers but one divides the rows.
ROWS, WIDTH, CLASSES, LENGTH = 31, 3, 4, 5
SPARSE = (Route.SERVER, Route.GATHER)
RATE = 0.3
# Samples of each worker in each step; in the last ones some have none, or all but one.
STEPS = 6


class TableTrainer:
    """Class bias, then a table, then a kernel: softmax regression on the mean of a sample's rows, with plain SGD."""

    flops_per_sample = None
    scores = ("loss", "accuracy")
    tables = {"words": 1}  # noqa: RUF012 - like an instance's, and never changed

    def __init__(self, dtype: type = np.float64, decay: float = 0.0) -> None:
        self.shapes = (CLASSES,), (ROWS, WIDTH), (WIDTH, CLASSES)
        self.num_parameters = CLASSES + ROWS * WIDTH + WIDTH * CLASSES
        self.flat = np.random.default_rng(0).normal(size=self.num_parameters).astype(dtype)
        self.decay, self.written = decay, []

    def parts(self, flat):
        bias, table, kernel = np.split(flat, [CLASSES, CLASSES + ROWS * WIDTH])
        return bias, table.reshape(ROWS, WIDTH), kernel.reshape(WIDTH, CLASSES)

    def parameters(self):
        return self.flat.copy()

    def set_rows(self, number, rows, values):
        assert number == 1
        assert rows.dtype == np.int32
        self.written.append(rows.copy())
        self.parts(self.flat)[1][rows] = values

    def compile(self, in_graph, in_forward=None):
        assert in_graph is None

    def gradient(self, x, y, scale):
        bias, table, kernel = self.parts(self.flat)
        flat = np.zeros_like(self.flat)
        to_bias, to_table, to_kernel = self.parts(flat)
        if len(y):
            hidden = table[x].mean(axis=1)
            logits = hidden @ kernel + bias
            delta = np.exp(logits - logits.max(axis=1, keepdims=True))
            delta /= delta.sum(axis=1, keepdims=True)
            delta[np.arange(len(y)), y] -= 1
            delta *= scale
            to_bias += delta.sum(axis=0)
            to_kernel += hidden.T @ delta
            np.add.at(to_table, x, (delta @ kernel.T)[:, np.newaxis] / LENGTH)
        to_table += self.decay * table
        return flat, {"loss": 0.0, "accuracy": 0}

    def apply(self, update, learning_rate):
        self.flat -= self.flat.dtype.type(learning_rate) * update


def batches(rank, step, size, tokens=ROWS):
    """Return a worker's samples in a step; the last step has too few for all."""
    samples = 4 if step < STEPS - 1 else int(rank == size - 1)
    random = np.random.default_rng([rank, step])
    return random.integers(0, tokens, (samples, LENGTH)).astype(np.uint8), random.integers(0, CLASSES, samples)


def shares(size, tokens=ROWS):
    """Return the share of the table that each worker's first batch touches."""
    return [len(np.unique(batches(rank, 0, size, tokens)[0])) / ROWS for rank in range(size)]


def measured(size, dtype):
    """Return what `choose` is given after the first step."""
    return ROWS * WIDTH * np.dtype(dtype).itemsize, ROWS, float(np.mean(shares(size))), size


def made(communicator, route, dtype=np.float64, **others):
    strategy = parallax.create(parallax.OPTIONS(route=route), communicator, None)
    return strategy, strategy.bind(TableTrainer(dtype, **others), KeptReporter())


def train(step, communicator, steps=range(STEPS), make=batches, **others):
    """Train steps; return the rows that this worker's batch touched in each."""
    rank, size, touched = communicator.rank, communicator.size, []
    for number in steps:
        given = make(rank, number, size, **others)
        total = sum(len(make(other, number, size, **others)[1]) for other in range(size))
        step.run(lambda given=given: given, total, RATE, marked=number % 2 == 0)
        touched.append(np.unique(given[0]).astype(int))
    return touched


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-13), (np.float32, 1e-6)])
def test_every_route_ends_at_the_weights_of_an_all_reduce(size, dtype, tolerance):
    def dense(communicator):
        trainer = TableTrainer(dtype)
        train(SumStrategy(communicator).bind(trainer, KeptReporter()), communicator)
        return trainer.flat

    expected = in_threads(size, dense)[0]
    for route in Route:

        def work(communicator, route=route):
            strategy, step = made(communicator, route, dtype)
            train(step, communicator)
            step.refresh()
            return step.trainer.flat, strategy.facts().get("routes")

        (first, routes), *others = in_threads(size, work)
        np.testing.assert_allclose(first, expected, rtol=0, atol=tolerance)
        assert all(np.array_equal(flat, first) for flat, _ in others), route
        expected_route = "dense" if size == 1 else choose(*measured(size, dtype)) if route is Route.AUTO else route
        assert routes.startswith(f"words: {expected_route} (touched ")


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("route", [*SPARSE, Route.DENSE])
def test_bytes_are_those_of_the_rows_that_were_touched(size, route):
    def work(communicator):
        strategy, step = made(communicator, route)
        train(step, communicator, range(1))
        before = strategy.bytes_sent
        touched = train(step, communicator, range(1, STEPS))
        assert strategy.bytes_sent == sum(num_bytes for _, num_bytes in communicator.sent)
        sent = strategy.bytes_sent - before
        step.refresh()
        assert strategy.bytes_sent - before == sent
        return before, sent, touched

    results = in_threads(size, work)
    touched = [[of_one[number] for _, _, of_one in results] for number in range(STEPS - 1)]
    for rank, (first, sent, _) in enumerate(results):
        whole = 8 * ring(CLASSES + ROWS * WIDTH + WIDTH * CLASSES, size, rank)
        # Before the table and after it.
        dense = 8 * (ring(CLASSES, size, rank) + ring(WIDTH * CLASSES, size, rank))
        assert first == whole
        of_rows = {Route.SERVER: row_bytes_of_a_server, Route.GATHER: row_bytes_of_a_gather}.get(route)
        expected = [whole if of_rows is None else dense + of_rows(rank, rows, size) for rows in touched]
        assert sent == sum(expected)


def row_bytes_of_a_server(rank, touched, size):
    """Return row numbers and gradients to their owners, and values of own rows to those who ask."""
    elsewhere = np.count_nonzero(touched[rank] % size != rank)
    asked = sum(np.count_nonzero(rows % size == rank) for other, rows in enumerate(touched) if other != rank)
    return elsewhere * (4 + WIDTH * 8) + asked * WIDTH * 8 + 8 * (size - 1)


def row_bytes_of_a_gather(rank, touched, size):
    """Return its own rows, and what it passes on: those of all others but its right neighbour."""
    passed = sum(map(len, touched)) - len(touched[(rank + 1) % size])
    return passed * (4 + WIDTH * 8) + 8 * (size - 1)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_with_rows_spread_evenly_bytes_are_those_of_the_paper(size):
    """Each batch has the same number of rows of every owner: half of what is sent and received leaves a worker."""
    rows, values = np.arange(size * LENGTH), ROWS * WIDTH * 8

    def even(rank, step, size):
        return rows.reshape(size, LENGTH), np.zeros(size, int)

    def work(communicator, route):
        strategy, step = made(communicator, route)
        train(step, communicator, range(1), even)
        before, ring = strategy.bytes_sent, step.ring.bytes_sent
        train(step, communicator, range(1, 4), even)
        return strategy.bytes_sent - before - (step.ring.bytes_sent - ring)

    touched, lengths = len(rows) / ROWS, 8 * (size - 1)
    for route in SPARSE:
        formula = bytes_of_step(route, values, ROWS, touched, size)
        assert in_threads(size, lambda c, route=route: work(c, route)) == [3 * round(formula / 2 + lengths)] * size


@pytest.mark.parametrize(
    ("workers", "touched", "route"),
    [
        (1, 0.01, Route.DENSE),
        (2, 0.01, Route.GATHER),
        (3, 0.01, Route.SERVER),
        (48, 0.01, Route.SERVER),
        (3, 0.995, Route.DENSE),
        (2, 0.99, Route.DENSE),
        (3, 0.99, Route.SERVER),
        (48, 1.0, Route.DENSE),
    ],
)
def test_sparse_tables_are_on_servers_beyond_two_workers(workers, touched, route):
    # 64 numbers of float32 a row: its number is 1/64 of what a server moves of it.
    assert choose(1000 * 256, 1000, touched, workers) is route
    table = 1000 * 256, 1000, touched, workers
    if workers > 2:
        assert bytes_of_step(route, *table) == min(bytes_of_step(other, *table) for other in (*SPARSE, Route.DENSE))


def test_auto_goes_by_what_it_measures():
    def routes(tokens, size):
        def work(communicator):
            strategy, step = made(communicator, Route.AUTO)
            assert "routes" not in strategy.facts()
            train(step, communicator, tokens=tokens)
            return strategy.facts()["routes"], strategy.state()["routes"].tolist()

        return in_threads(size, work)

    for size, route in ((2, "gather"), (3, "server")):
        share = np.mean(shares(size, 4))
        found = routes(4, size)
        assert {text for text, _ in found} == {f"words: {route} (touched {share:.3g})"}
        assert all(state[1] == pytest.approx(share) for _, state in found)


def test_a_worker_writes_the_rows_of_its_batch_alone_before_each_gradient():
    def work(communicator):
        _, step = made(communicator, Route.SERVER)
        touched = train(step, communicator)
        written = [np.sort(rows) for rows in step.trainer.written]
        assert len(written) == STEPS - 1
        assert all(np.array_equal(rows, batch) for rows, batch in zip(written, touched[1:], strict=True))
        step.refresh()
        step.refresh()
        assert len(step.trainer.written) == STEPS

    in_threads(3, work)


@pytest.mark.parametrize("route", Route)
@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_checkpoint_goes_on_to_the_bit(route, size):
    def work(communicator):
        strategy, step = made(communicator, route)
        train(step, communicator, range(3), tokens=20)
        step.refresh()
        kept, state, before = step.trainer.parameters(), strategy.state(), strategy.bytes_sent
        train(step, communicator, range(3, STEPS), tokens=20)
        step.refresh()
        again, other = made(communicator, route)
        other.trainer.flat[:] = kept
        again.set_state(state)
        train(other, communicator, range(3, STEPS), tokens=20)
        other.refresh()
        assert np.array_equal(other.trainer.flat, step.trainer.flat)
        assert again.bytes_sent == strategy.bytes_sent - before
        assert again.facts() == strategy.facts()

    in_threads(size, work)


@pytest.mark.parametrize("route", [*SPARSE, Route.DENSE])
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_gradient_that_is_not_finite_is_seen_by_all_workers(route, value):
    def work(communicator):
        _, step = made(communicator, route)
        train(step, communicator, range(2))
        compute = step.trainer.gradient

        def spoiled(x, y, scale):
            flat, sums = compute(x, y, scale)
            if communicator.rank == 1:
                step.trainer.parts(flat)[1][x[0, 0]] = value
            return flat, sums

        step.trainer.gradient = spoiled
        train(step, communicator, range(2, 3))
        step.refresh()
        return np.flatnonzero(~np.isfinite(step.trainer.parts(step.trainer.flat)[1]).all(axis=1)).tolist()

    assert in_threads(3, work) == [[int(batches(1, 2, 3)[0][0, 0])]] * 3


@pytest.mark.parametrize("route", [Route.AUTO, *SPARSE])
def test_a_table_that_changes_elsewhere_stays_dense(route):
    def work(communicator):
        strategy, step = made(communicator, route, decay=0.01)
        train(step, communicator, tokens=4)
        return step.trainer.flat, strategy.facts()["routes"]

    (flat, routes), *others = in_threads(3, work)
    assert routes.startswith("words: dense (touched 0.")
    assert routes.endswith("not only its tokens' rows change)")
    assert all(np.array_equal(flat, other) for other, _ in others)


def test_pulling_is_a_part_of_the_step_and_the_phase_says_so():
    def work(communicator):
        _, step = made(communicator, Route.SERVER)
        x, y = batches(0, 0, 2)
        found = [step.run(lambda: (x, y), 8, RATE, marked=False)[0] for _ in range(3)]
        assert step.norms is None
        assert all(0 < moments.pull_s < moments.gradient_ready - moments.batch_ready for moments in found)

    in_threads(2, work)


def test_a_trainer_without_tables_reduces_everything():
    def work(communicator):
        strategy, step = made(communicator, Route.AUTO)
        step.tables.clear()
        train(step, communicator)
        return strategy.bytes_sent, strategy.facts(), strategy.state()["routes"].size

    found = in_threads(3, work)
    assert [sent for sent, _, _ in found] == [
        STEPS * 8 * ring(TableTrainer().num_parameters, 3, rank) for rank in range(3)
    ]
    assert found[0][1:] == ({"collectives": "mpi", "mpi_version": "threads"}, 0)


@pytest.mark.parametrize(
    ("route", "settings", "words"),
    [
        ("server", {"optimizer": "adam"}, "apply plain sgd"),
        ("auto", {"precision": "mixed_float16"}, "use mixed_bfloat16"),
        ("dense", {"optimizer": "adam", "precision": "mixed_float16"}, ""),
        ("gather", {"momentum": 0.9}, ""),
    ],
)
def test_what_servers_of_rows_cannot_apply_is_refused(route, settings, words):
    reason = parallax.refuse(parallax.OPTIONS(route=route), Settings(strategy="parallax", **settings))
    assert words in reason
    assert bool(reason) == bool(words)
