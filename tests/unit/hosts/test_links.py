"""Which pairs are measured, how long, and what two ends make of a connection."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from dlbench.hosts import link_ends, links
from dlbench.hosts.link_ends import SKIPPED, TIMED, Span
from dlbench.hosts.links import MessageTime, measure, pairs
from dlbench.scenario.cluster import this_machine

MIB = 1 << 20


def test_few_hosts_are_measured_in_all_pairs_and_many_around_a_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [pairs(number) for number in (1, 2, 3)] == [(), ((0, 1),), ((0, 1), (0, 2), (1, 2))]
    assert len(pairs(8)) == 28
    ring = pairs(9)
    assert len(ring) == 9
    assert [sum(number in pair for pair in ring) for number in range(9)] == [2] * 9
    assert all(a < b for a, b in ring)
    monkeypatch.setattr(links, "started", None)
    assert measure(this_machine(), {}) == (), "one host has no links"
    rates = [MessageTime(0, 1, 287_000, time_s, time_s, number=7).rate_bytes_per_s for time_s in (0.5, 0.0)]
    assert rates == [574_000, None]


def test_a_part_of_a_stream_is_long_enough_by_time_and_bytes_or_ends() -> None:
    span = Span(min_s=0.4, min_bytes=4 * MIB, max_s=1.0)
    cases = {(0.4, 10 * MIB): True, (0.3, 100 * MIB): False, (0.9, 3 * MIB): False, (1.0, 3): True}
    assert {case: span.is_over(*case) for case in cases} == cases
    # What a limiter lets through at once is skipped, and slow links end.
    assert SKIPPED.min_bytes >= 8 * (256 << 10)
    assert 2 * (SKIPPED.max_s + TIMED.max_s) <= 3


@contextmanager
def joined() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield the two ends of a connection over TCP."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        other, _ = server.accept()
        with other:
            link_ends.prepare(one)
            link_ends.prepare(other)
            yield one, other


def test_one_end_times_round_trips_and_the_other_the_stream() -> None:
    with joined() as (one, other), ThreadPoolExecutor(1) as thread:
        received = thread.submit(link_ends.receive, other)
        received.add_done_callback(lambda _: other.close())
        round_trip_s, messages = link_ends.send(one, [8192, MIB])
        assert 0 < round_trip_s < 0.1
        assert [size for size, _, _ in messages] == [8192, MIB]
        assert all(least_s <= typical_s < 0.5 for _, typical_s, least_s in messages)
        assert received.result() > MIB


def test_an_end_that_is_left_alone_raises_an_error() -> None:
    message_broken_off, stream_broken_off = b"m" + (9).to_bytes(8) + b"12345", b"s" + bytes(MIB // 16)
    for sent, error in ((b"", "closed"), (b"x", "b'x'"), (message_broken_off, "closed"), (stream_broken_off, "closed")):
        with joined() as (one, other):
            one.sendall(sent)
            one.close()
            with pytest.raises(ConnectionError, match=error):
                link_ends.receive(other)
