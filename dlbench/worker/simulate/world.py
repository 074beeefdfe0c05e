"""The simulated world: nodes, their messages and gradients, as events in the order of a simulated clock."""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

from dlbench.communicators.simulated import SimulatedOptions
from dlbench.strategies import Array
from dlbench.strategies._protocol import Gradient, Memory, Message
from dlbench.worker.simulate.links import Links
from dlbench.worker.simulate.times import ComputeTimes
from dlbench.worker.train.node_plan import NodePlan
from dlbench.worker.train.schedule import InLockStep, Ticket

# Workers that a message names.
_MOST_NAMED = 5


class StuckError(RuntimeError):
    """Workers wait for messages that no node will send."""


class GradientComputer(Protocol):
    """Computes gradients, and follows what nodes hold."""

    def gradient(self, ticket: Ticket, parameters: Array) -> tuple[Array, float | None]:
        """Return mean gradient and loss of a ticket's samples at some parameters; no gradient is written again."""

    def served(self, node: int) -> None:
        """Note that a node that is no worker has taken a message."""

    def begins(self, worker: int, ticket: Ticket | None) -> None:
        """Note that a worker begins a ticket, or has found no more."""


@dataclass
class Counts:
    """What has happened so far.

    Attributes:
        events: Events of the simulator.
        links: By sender and receiver, messages and bytes sent.
        compute_time_s: Time in which it computed, by worker.
        steps: Gradients computed, by worker.
        updates: Updates of parameters.
        samples: Samples that entered one.
        staleness: How many gradients had which staleness.
        dropped: Gradients that entered no update.
        ended_at_s: When each worker found no more samples.
        opened: When the timed window opened, and the samples that had entered updates by then.
        closed: The same of its end so far.
    """

    compute_time_s: list[float]
    steps: list[int]
    ended_at_s: list[float | None]
    links: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    events: int = 0
    updates: int = 0
    samples: int = 0
    dropped: int = 0
    staleness: Counter[int] = field(default_factory=Counter)
    opened: tuple[float, int] | None = None
    closed: tuple[float, int] | None = None


class SimulatedWorld:
    """All nodes of a run, and a clock that jumps from one event to the next.

    Events at the same moment happen in the order in which they were planned, so that a run is the same each time.

    Args:
        plan: What nodes there are, and which samples they train on.
        machines: How long gradients and messages take, and which nodes fail.
        hosts: The host of each node.
        computes: Computes gradients.

    Attributes:
        last_update_s: When parameters were last updated.
        failed_at_s: When nodes failed, by node.
    """

    def __init__(
        self, plan: NodePlan, machines: SimulatedOptions, hosts: Sequence[int], computes: GradientComputer
    ) -> None:
        self.now = 0.0
        world = self._world = plan.world
        num_workers, nodes = world.num_workers, world.num_nodes
        self.memory: Memory | None = SimulatedMemory(world.parameters) if plan.needs.shares_memory else None
        # For each gradient a worker moves what is shared twice through its host's memory.
        self._memory_bytes = 2 * world.parameters.nbytes if plan.needs.shares_memory else 0
        self.counts = Counts([0.0] * num_workers, [0] * num_workers, [None] * num_workers)
        self._schedule, self._computes, self._links = plan.schedule, computes, Links(hosts, machines)
        # Workers in lock step that each apply a step do so at moments that differ a little: the window has whole steps.
        each_applies = isinstance(plan.schedule, InLockStep) and not world.others
        self._updates_per_step = num_workers if each_applies else 1
        self._times = ComputeTimes(machines, num_workers, world.seed)
        self._server_s_per_byte = 1 / machines.server_bytes_per_s
        self._events: list[tuple[float, int, Callable[[int, Any], None], int, Any]] = []
        self._planned = 0
        self._busy, self._over = [False] * num_workers, [False] * num_workers
        self._computed_at = [-1.0] * num_workers
        self._num_begun = self._begun_by_then = 0
        self.last_update_s = 0.0
        self._first_end_s = math.inf
        self._is_ending = False
        # Set where `between` is to be called after this event.
        self.interrupted = False
        self.failed_at_s: dict[int, float] = {}
        self._serving_until = [0.0] * nodes
        self.workers = [plan.worker(rank, _NodePort(self, rank)) for rank in range(num_workers)]
        self._others = {node: plan.other(node, _NodePort(self, node)) for node in range(num_workers, nodes)}
        self.servers = [self._others[world.server(shard)] for shard in range(world.num_servers)]
        failing = [] if machines.failed_worker is None else [machines.failed_worker]
        failing += [] if machines.failed_server is None else [world.server(machines.failed_server)]
        for node in failing:
            self._plan(machines.failed_at_s, self._die, node, None)
        # Failures that are still to come.
        self._failures = len(failing)

    def run(self, between: Callable[[], bool] = lambda: True) -> None:
        """Begin all workers, and let events happen until there are none.

        Args:
            between: Called after events while `interrupted` is set; False ends the run there.

        Raises:
            StuckError: Workers that have samples left wait for ever, or none is left.
        """
        for rank in range(len(self.workers)):
            self._try_to_begin(rank)
        events, counts = self._events, self.counts
        # A failure alone is no reason to go on.
        while len(events) > self._failures:
            self.now, _, happen, node, what = heapq.heappop(events)
            counts.events += 1
            happen(node, what)
            if self.interrupted and not between():
                return
        if not any(self._over) and self.failed_at_s.keys() >= {*range(len(self.workers))}:
            raise StuckError("every worker has failed")
        waiting = [rank for rank, over in enumerate(self._over) if not over and rank not in self.failed_at_s]
        # A worker that computed its last gradient when there were no more samples has lost nothing but that gradient.
        if any(self._computed_at[rank] < self._first_end_s for rank in waiting) or (waiting and not self.failed_at_s):
            raise StuckError(self._why(waiting))

    def send(self, source: int, to: int, message: Message) -> None:
        """Carry a message from one node to another."""
        num_bytes, links, counts = message.num_bytes, self._links, self.counts
        messages, so_far = counts.links.get((source, to), (0, 0))
        counts.links[source, to] = messages + 1, so_far + num_bytes
        if links.is_local(source, to):
            self._plan(links.copied_at(self.now, source, num_bytes), self._deliver, to, message)
        else:
            self._plan(links.first_byte_at(self.now, source, num_bytes), self._receive, to, message)

    def updated(self, staleness: Sequence[int], samples: int) -> None:
        """Count an update."""
        counts = self.counts
        if self.now > self.last_update_s and counts.updates % self._updates_per_step == 0:
            # The window opens, or ends so far, at the last moment of updates, all of which are counted by now.
            if counts.opened is None and self._begun_by_then == len(self.workers):
                counts.opened = self.last_update_s, counts.samples
            if not self._is_ending:
                counts.closed = self.last_update_s, counts.samples
        counts.updates += 1
        counts.samples += samples
        counts.staleness.update(staleness)
        self.last_update_s, self._begun_by_then = self.now, self._num_begun

    def dropped(self, samples: int) -> None:
        """Count a gradient that entered no update, and hand out as many samples more while all workers train.

        Later only the slowest, whose gradients are dropped, would be left to take them.
        """
        self.counts.dropped += 1
        if not self._is_ending:
            self._schedule.give_back(samples)

    def _plan(self, moment: float, happen: Callable[[int, Any], None], node: int, what: Any) -> None:
        self._planned += 1
        heapq.heappush(self._events, (moment, self._planned, happen, node, what))

    def _try_to_begin(self, rank: int) -> None:
        if self._busy[rank] or self._over[rank] or not self.workers[rank].may_begin():
            return
        ticket = self._schedule.next(rank, self.workers[rank])
        self._computes.begins(rank, ticket)
        if ticket is None:
            self._over[rank] = self._is_ending = True
            self._first_end_s = min(self._first_end_s, self.now)
            self.counts.ended_at_s[rank] = self.now
            self.workers[rank].finish()
            return
        self._busy[rank] = True
        seconds = self._times.next(rank, len(ticket.share.indices))
        self.counts.compute_time_s[rank] += seconds
        if self._memory_bytes:
            seconds += self._links.copied_at(self.now, rank, self._memory_bytes) - self.now
        self._plan(self.now + seconds, self._computed, rank, (ticket, self.workers[rank].begin()))

    def _computed(self, rank: int, begun: tuple[Ticket, Array]) -> None:
        if rank in self.failed_at_s:
            return
        ticket, parameters = begun
        share = ticket.share
        samples = len(share.indices)
        values, loss = self._computes.gradient(ticket, parameters)
        self._busy[rank], self._computed_at[rank] = False, self.now
        self._num_begun += not self.counts.steps[rank]
        self.counts.steps[rank] += 1
        self.workers[rank].on_gradient(Gradient(values, ticket.step, samples, samples / share.total, loss))
        self._try_to_begin(rank)

    def _receive(self, to: int, message: Message) -> None:
        """A message's first byte is at its receiver's interface."""
        self._plan(self._links.received_at(self.now, to, message.num_bytes), self._deliver, to, message)

    def _deliver(self, to: int, message: Message) -> None:
        if to in self.failed_at_s:
            return
        if to < len(self.workers):
            self.workers[to].on_message(message)
            self._try_to_begin(to)
            return
        # A node that is no worker handles a message after those before it.
        num_bytes = 0 if message.body is None else message.body.nbytes
        done = max(self.now, self._serving_until[to]) + num_bytes * self._server_s_per_byte
        self._serving_until[to] = done
        self._plan(done, self._serve, to, message)

    def _serve(self, to: int, message: Message) -> None:
        if to not in self.failed_at_s:
            self._others[to].on_message(message)
            self._computes.served(to)

    def _die(self, node: int, _: None) -> None:
        self._failures -= 1
        self.failed_at_s[node] = self.now

    def _why(self, waiting: Sequence[int]) -> str:
        named = ", ".join(str(rank) for rank in waiting[:_MOST_NAMED])
        more = f" and {len(waiting) - _MOST_NAMED} more" if len(waiting) > _MOST_NAMED else ""
        dead = ((*self._world.role(node), moment) for node, moment in self.failed_at_s.items())
        gone = "; ".join(f"{role} {index} ended at {moment:.3g} s" for role, index, moment in dead)
        because = f"{gone}, and " if gone else ""
        return f"{because}worker{'s' if len(waiting) > 1 else ''} {named}{more} wait for messages that will not come"


class SimulatedMemory:
    """One vector, and how often it was written: each read and each write happens at one moment of the clock.

    So reads are never torn and no write is lost, as they may be between real processes.
    """

    def __init__(self, first: Array) -> None:
        self._parameters, self._version = first, 0

    def read(self) -> tuple[Array, int]:
        """Return the vector, which stays as it is, and how many times it has been written."""
        return self._parameters, self._version

    def subtract(self, change: Array, at: Array | None = None) -> int:
        """Subtract from all numbers, or from those at some places (each named once); return the writes before."""
        self._parameters = self._parameters.copy()
        self._parameters[slice(None) if at is None else at] -= change
        self._version += 1
        return self._version - 1


class _NodePort:
    """How one node answers."""

    def __init__(self, world: SimulatedWorld, node: int) -> None:
        self._world, self._node = world, node
        self.memory = world.memory
        self.updating, self.updated, self.dropped = nullcontext, world.updated, world.dropped

    def send(self, to: int, message: Message) -> None:
        """Send a message to a node."""
        self._world.send(self._node, to, message)
