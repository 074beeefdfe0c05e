"""Embedding tables over servers beside the workers, everything else over all-reduce, by how sparse gradients are.

Kim et al., "Parallax: Sparsity-aware Data Parallel Training of Deep Neural Networks" (EuroSys 2019, arXiv 1808.02621).
A lookup table has gradients only at the rows that a batch's tokens name: the share a of its rows. With N workers and a
table of w bytes a worker sends and receives in a step, both together

    dense   4 w (N-1)/N      all-reduce of the whole gradient round dlbench's own ring, as of all other variables
    gather  2 a w (N-1)      each worker sends its rows to all others (Horovod's way for sparse gradients)
    server  4 a w (N-1)/N    each worker owns a part of the rows; it pulls those of its batch and pushes their gradients

so that beyond two workers servers move least unless nearly all rows are touched; between two workers `gather` moves as
much in one exchange in place of two. A row that travels takes its number along, 4 bytes, once (`server`: when it is
asked for), and a list of rows its length, 8 bytes. N counts workers, each with a server beside it, whatever hosts they
are on: those of one host do not add up their gradients first, as Parallax's do.

The first step is an all-reduce of everything. In it a is measured: the mean of all workers' shares. The routes hold
from the second step on, and checkpoints keep them. A table with gradients at other rows than its tokens' (one that
enters the network a second time, or is regularised) stays dense.
"""

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from time import perf_counter
from typing import Any

import numpy as np
from pydantic import Field

from dlbench.plugins import Options
from dlbench.scenario.needs import Needs
from dlbench.scenario.settings import Precision, Settings
from dlbench.strategies import Array, is_plain_sgd
from dlbench.strategies._payloads import PayloadExchange
from dlbench.strategies._ring import Ring
from dlbench.strategies._row_servers import ROW_NUMBER, RowServer, gather_sum
from dlbench.strategies._step import NAN, Step, StepTimestamps
from dlbench.strategies.mpi import MpiLibraryCommunicator
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Sums, Trainer, places

NEEDS = Needs(collectives=("mpi",), communicators=("mpi",), as_one_worker={})


class Route(StrEnum):
    """Which way a table's gradients go; `auto` chooses for each table."""

    AUTO = "auto"
    DENSE = "dense"
    GATHER = "gather"
    SERVER = "server"


# In the order of the numbers that stand for them in checkpoints.
_ROUTES = (Route.DENSE, Route.GATHER, Route.SERVER)


class ParallaxOptions(Options):
    """Options of the strategy `parallax`."""

    route: Route = Field(
        Route.AUTO,
        description="Which way gradients of embedding tables go: `auto` by their touched share and the number of "
        "workers; `dense`, `gather` or `server` all of them.",
    )


OPTIONS = ParallaxOptions


def refuse(options: ParallaxOptions, settings: Settings) -> str:
    """Return why rows that only some workers touch cannot be updated by servers, or ""."""
    if options.route in (Route.DENSE, Route.GATHER):
        return ""
    remedy = "use `strategy.route: gather` or `dense`, which do"
    if not is_plain_sgd(settings):
        return (
            f"servers of rows (strategy.route {options.route}) apply plain sgd: momentum, weight decay and other "
            f"optimizers change rows that no batch touches; {remedy}"
        )
    if settings.precision is Precision.MIXED_FLOAT16:
        return f"servers of rows skip no update, as mixed_float16 may have to: use mixed_bfloat16, or {remedy}"
    return ""


def bytes_of_step(route: Route, table_bytes: int, num_rows: int, touched: float, workers: int) -> float:
    """Return what a worker sends and receives of a table in a step, row numbers included, lengths left out.

    Args:
        route: Not `auto`.
        table_bytes: Of all values.
        num_rows: Of the table.
        touched: Share of the rows that a worker's batch touches.
        workers: All of them.
    """
    others, numbers = workers - 1, ROW_NUMBER.itemsize * num_rows
    return {
        Route.DENSE: 4 * table_bytes * others / workers,
        Route.GATHER: 2 * touched * (table_bytes + numbers) * others,
        Route.SERVER: touched * (4 * table_bytes + 2 * numbers) * others / workers,
    }[route]


def choose(table_bytes: int, num_rows: int, touched: float, workers: int) -> Route:
    """Return the route of a table by the paper's rule: dense unless sparse moves fewer bytes."""
    sparse = Route.SERVER if workers > 2 else Route.GATHER
    table = table_bytes, num_rows, touched, workers
    return sparse if bytes_of_step(sparse, *table) < bytes_of_step(Route.DENSE, *table) else Route.DENSE


class _Table:
    """A lookup table in the flat vector: its name, the number of its variable, where it is, and its route."""

    def __init__(self, name: str, number: int, place: slice, shape: tuple[int, ...]) -> None:
        self.name, self.number, self.place, self.shape = name, number, place, shape
        self.route, self.touched, self.note = Route.DENSE, NAN, ""
        self.server: RowServer | None = None

    def of(self, flat: Array) -> Array:
        """Return the table's part of a flat vector, [num_rows, width], without a copy."""
        return flat[self.place].reshape(self.shape)


class ParallaxStep(Step):
    """Pulls rows, computes the gradient, exchanges it and applies it; see the module.

    Args:
        trainer: Of this worker.
        reporter: Gets the phase.
        communicator: Its messages.
        route: That of the options.
    """

    def __init__(
        self, trainer: Trainer, reporter: Reporter, communicator: MpiLibraryCommunicator, route: Route
    ) -> None:
        super().__init__(trainer, reporter)
        trainer.compile(None)
        self._communicator, self._route = communicator, route
        self.can_mark = communicator.size > 1
        self.ring, self.exchange = Ring(communicator), PayloadExchange(communicator)
        # Whole tables are gathered for evaluations and checkpoints: these bytes are of no training step.
        self._refreshing = PayloadExchange(communicator)
        where, numbers = places(trainer.shapes), getattr(trainer, "tables", {})
        self.tables = [_Table(name, i, where[i], trainer.shapes[i]) for name, i in numbers.items()]
        self._is_routed = self._is_stale = False
        self._dense: list[slice] = [slice(0, trainer.num_parameters)]
        # Of trainers with tables.
        self._set_rows: Any = getattr(trainer, "set_rows", None)

    def run(
        self, batch: Callable[[], tuple[Array, Array]], total: int, learning_rate: float, *, marked: bool
    ) -> tuple[StepTimestamps, Sums]:
        """Train one step; see `Step`."""
        reporter, trainer = self.reporter, self.trainer
        x, y, started, batch_ready = self._take(batch)
        reporter.phase = "all_reduce"
        rows = np.unique(x).astype(ROW_NUMBER) if self.tables else np.empty(0, ROW_NUMBER)
        for table in self.tables:
            if table.server is not None:
                self._set_rows(table.number, *table.server.pull(rows))
        pull_s = perf_counter() - batch_ready
        reporter.phase = "compute"
        gradient, sums = trainer.gradient(x, y, self.scale(len(y), total))
        gradient_ready = perf_counter()
        peers_ready = self._meet(self._communicator.barrier, marked=marked)
        if not self._is_routed:
            self._measure(gradient, rows)
        self._reduce(gradient, rows, learning_rate)
        reporter.phase = "update"
        reduced = perf_counter()
        trainer.apply(gradient, learning_rate)
        if not self._is_routed:
            self._take_routes()
        moments = started, batch_ready, gradient_ready, peers_ready, reduced, perf_counter()
        return StepTimestamps(*moments, pull_s=pull_s), sums

    def refresh(self) -> None:
        """Write all rows that servers hold into the trainer; a collective."""
        if not self._is_stale:
            return
        self.reporter.phase = "all_reduce"
        for table in self.tables:
            if table.server is not None:
                values = table.server.whole(self._refreshing)
                self._set_rows(table.number, np.arange(len(values), dtype=ROW_NUMBER), values)
        self._is_stale = False

    def state(self) -> Array:
        """Return the routes, two numbers for each table: which, and the touched share."""
        return np.array([(_ROUTES.index(table.route), table.touched) for table in self.tables]).ravel()

    def set_state(self, state: Array) -> None:
        """Overwrite the routes; the trainer's weights are those to go on from."""
        for table, (number, touched) in zip(self.tables, state.reshape(-1, 2).tolist(), strict=True):
            table.route, table.touched = _ROUTES[int(number)], touched
        self._take_routes()

    def _measure(self, gradient: Array, rows: Array) -> None:
        """Measure the touched share of each table over all workers, and choose its route; a collective."""
        if not self.tables:
            return
        workers = self._communicator.size
        measured = np.array([(len(rows) / t.shape[0], _has_others(t.of(gradient), rows)) for t in self.tables])
        self._communicator.all_reduce(measured, measured)
        for table, (touched, others) in zip(self.tables, measured.tolist(), strict=True):
            table.touched = touched / workers
            wanted = self._route
            if wanted is Route.AUTO:
                num_bytes = gradient.itemsize * math.prod(table.shape)
                wanted = choose(num_bytes, table.shape[0], table.touched, workers)
            table.route = Route.DENSE if others or workers == 1 else wanted
            table.note = "; not only its tokens' rows change" if others else ""

    def _take_routes(self) -> None:
        """Let the next step go by the tables' routes; all workers' trainers hold the same weights."""
        self._is_routed = True
        parameters = self.trainer.parameters()
        others = [table for table in self.tables if table.route is not Route.DENSE]
        for table in others:
            if table.route is Route.SERVER:
                table.server = RowServer(table.of(parameters), self.exchange)
        sparse = sorted((table.place for table in others), key=lambda place: place.start)
        edges = [0, *(edge for place in sparse for edge in (place.start, place.stop)), parameters.size]
        self._dense = [slice(*edge) for edge in zip(edges[::2], edges[1::2], strict=True) if edge[0] < edge[1]]

    def _reduce(self, gradient: Array, rows: Array, learning_rate: float) -> None:
        """Overwrite the flat gradient with the sum over workers, zeros where servers update; a collective."""
        for place in self._dense:
            self.ring.all_reduce(gradient[place])
        for table in self.tables if self._is_routed else ():
            if table.server is not None:
                table.server.push(table.of(gradient), learning_rate)
                self._is_stale = True
            elif table.route is Route.GATHER:
                gather_sum(self.exchange, table.of(gradient), rows)


def _has_others(gradient: Array, rows: Array) -> bool:
    """Return whether a table has gradients at other rows than these."""
    changed: Array = np.asarray(gradient.any(axis=1))
    changed[rows] = False
    return bool(changed.any())


class Parallax:
    """One worker's side of the strategy; until it is bound to a trainer it has nothing but facts."""

    _step: ParallaxStep

    def __init__(self, options: ParallaxOptions, communicator: MpiLibraryCommunicator) -> None:
        self._options, self._communicator = options, communicator
        self._tables: list[_Table] = []

    @property
    def bytes_sent(self) -> int:
        """Bytes that left this worker in training steps, not those of whole tables for evaluations and checkpoints."""
        return self._step.ring.bytes_sent + self._step.exchange.bytes_sent

    def bind(self, trainer: Trainer, reporter: Reporter) -> ParallaxStep:
        """Return the step."""
        self._step = ParallaxStep(trainer, reporter, self._communicator, self._options.route)
        self._tables = self._step.tables
        return self._step

    def facts(self) -> dict[str, Any]:
        """Return the library and, once they are chosen, the routes."""
        chosen = [table for table in self._tables if not math.isnan(table.touched)]
        routes = [f"{table.name}: {table.route} (touched {table.touched:.3g}{table.note})" for table in chosen]
        facts = {"collectives": "mpi", "mpi_version": self._communicator.library}
        return facts | ({"routes": "; ".join(routes)} if routes else {})

    def state(self) -> dict[str, Array]:
        """Return the routes of the tables."""
        return {"routes": self._step.state()}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Overwrite them."""
        self._step.set_state(state["routes"])


def create(options: ParallaxOptions, communicator: MpiLibraryCommunicator, algorithm: str | None) -> Parallax:
    """Return one worker's side."""
    return Parallax(options, communicator)
