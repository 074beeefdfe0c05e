"""Which pairs are measured, how long, and what two ends make of a connection."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from dlbench.launch import link_stream
from dlbench.launch.link_stream import SKIPPED, TIMED, Span
from dlbench.launch.links import measure, pairs
from dlbench.scenario.cluster import this_machine

MIB = 1 << 20


@pytest.mark.parametrize(
    ("num_hosts", "expected"),
    [(1, ()), (2, ((0, 1),)), (3, ((0, 1), (0, 2), (1, 2)))],
)
def test_few_hosts_are_measured_in_all_pairs(num_hosts: int, expected: tuple[tuple[int, int], ...]) -> None:
    assert pairs(num_hosts) == expected


def test_many_hosts_are_measured_around_a_ring() -> None:
    assert len(pairs(8)) == 28
    ring = pairs(9)
    assert len(ring) == 9
    assert [sum(number in pair for pair in ring) for number in range(9)] == [2] * 9
    assert all(a < b for a, b in ring)


def test_one_host_has_no_links() -> None:
    assert measure(this_machine(), {}, python="/absent/python") == ()


@pytest.mark.parametrize(
    ("seconds", "num_bytes", "expected"),
    [(0.4, 10 * MIB, True), (0.3, 100 * MIB, False), (0.9, 3 * MIB, False), (1.0, 3, True)],
)
def test_a_piece_of_a_stream_is_long_enough_by_time_and_bytes_or_ends(
    seconds: float, num_bytes: int, expected: bool
) -> None:
    assert Span(least_s=0.4, least_bytes=4 * MIB, most_s=1.0).is_over(seconds, num_bytes) is expected


def test_what_a_limiter_lets_through_at_once_is_skipped_and_slow_links_end() -> None:
    assert SKIPPED.least_bytes >= 8 * (256 << 10)
    assert 2 * (SKIPPED.most_s + TIMED.most_s) <= 3


@contextmanager
def joined() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield the two ends of a connection over TCP."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        other, _ = server.accept()
        with other:
            link_stream.prepare(one)
            link_stream.prepare(other)
            yield one, other


def test_one_end_times_round_trips_and_the_other_the_stream() -> None:
    with joined() as (one, other), ThreadPoolExecutor(1) as thread:
        heard = thread.submit(link_stream.answer, other)
        heard.add_done_callback(lambda _: other.close())
        assert 0 < link_stream.call(one) < 0.1
        assert heard.result() > MIB


def test_an_end_that_is_left_alone_says_so() -> None:
    with joined() as (one, other):
        one.close()
        with pytest.raises(ConnectionError, match="the other end has closed the connection"):
            link_stream.answer(other)
    with joined() as (one, other):
        one.sendall(b"x")
        with pytest.raises(ConnectionError, match="the other end says b'x'"):
            link_stream.answer(other)


def test_a_stream_that_breaks_off_is_no_rate() -> None:
    with joined() as (one, other):
        one.sendall(b"s" + bytes(MIB // 16))
        one.close()
        with pytest.raises(ConnectionError, match="closed"):
            link_stream.answer(other)
