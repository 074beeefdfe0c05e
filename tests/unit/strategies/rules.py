"""Schedules of bounded staleness and of backup workers, in any order, each with its rule checked after every event."""

import numpy as np

from dlbench.strategies._protocol import Message
from tests.unit.strategies.worlds import FuzzedWorld


def stale_schedule(seed: int, reads: str) -> tuple[int, int]:
    """Run one schedule of `stale_synchronous`; return its bound, and the largest lead there was.

    Raises:
        AssertionError: A worker was further ahead than the bound, or waits for ever.
    """
    workers, bound = 2 + seed % 4, seed % 4
    # In every third one a worker is slow.
    speeds = [0.02 if rank == seed % workers and seed % 3 == 0 else 1.0 for rank in range(workers)]
    options = {"bound": bound, "reads": reads}
    world = FuzzedWorld("stale_synchronous", workers, 7, seed, 1 + seed % 2, options, speeds=speeds)
    return bound, bounded(world, bound)


def bounded(world: FuzzedWorld, bound: int) -> int:
    """Check SSP's rule after each event of a world; return the largest lead there was."""
    server, leads = world.servers[0], [0]

    def look() -> None:
        clocks = world.done
        computing = [clock for rank, clock in enumerate(clocks) if world.begun[rank] is not None]
        # A worker that computes has read at its clock: everything up to clock - bound - 1 was in by then.
        slowest = min(min(server.clocks), 1 << 30)
        leads.extend(clock - slowest for clock in computing)
        assert max(leads) <= bound, f"a worker is {max(leads)} steps ahead of the slowest"

    world.on_event = look
    world.run()
    return max(leads)


def backup_schedule(seed: int) -> int:
    """Run one schedule of `backup_workers`; return how many gradients were dropped.

    Raises:
        AssertionError: An update was made of other gradients than the first of its step, or a worker waits for ever.
    """
    workers, backups = 2 + seed % 4, seed % 3 % (2 + seed % 4 - 1)
    speeds = [0.05] * backups + [1.0] * (workers - backups)
    world = FuzzedWorld("backup_workers", workers, 6, seed, options={"backups": backups}, speeds=speeds)
    taken = _spy_on_gradients(world)
    world.run()
    # Each update but those after the first worker had finished takes exactly N gradients, all at its own version.
    full = [update for update in taken if len(update) == workers - backups]
    assert all(len({version for _, version in update}) == 1 for update in taken)
    assert all(update[0][1] == number for number, update in enumerate(taken))
    assert len(full) >= len(taken) - backups - workers
    assert world.record.dropped == 6 * workers - sum(map(len, taken))
    assert backups or not world.record.dropped
    return world.record.dropped


def _spy_on_gradients(world: FuzzedWorld) -> list[list[tuple[int, int]]]:
    """Return a list that gets (worker, version) of the messages that are in each update of the server."""
    server, found = world.servers[0], []
    held: dict[int, int] = {}
    take, update = server.on_message, server.update

    def taken(message: Message) -> None:
        if message.type == "push" and message.version == server.version:
            assert message.worker not in held, "a second gradient of one worker in a step"
            held[message.worker] = message.version
        take(message)

    def updated(gradient: np.ndarray, rate: float, staleness: list[int], samples: int) -> None:
        assert len(staleness) == len(held)
        assert set(staleness) == {0}
        found.append(sorted(held.items()))
        held.clear()
        update(gradient, rate, staleness, samples)

    server.on_message, server.update = taken, updated
    return found
