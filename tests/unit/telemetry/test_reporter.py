import tempfile
import threading
import time

import numpy as np
import pytest

from dlbench.telemetry import reporter as reporter_module
from dlbench.telemetry import spool
from dlbench.telemetry.messages import STEP_FIELDS, unpack_steps
from dlbench.telemetry.reporter import Reporter
from tests.unit.telemetry.fake_server import FakeServer, Unwatched, assignment, wait_until


@pytest.fixture
def server():
    with FakeServer() as made:
        yield made


@pytest.fixture
def files(monkeypatch):
    """Return the temporary files that are made."""
    made, make = [], tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: made.append(make(**options)) or made[-1])
    return made


def opened(server, **limits):
    return Reporter(server.assignment(**limits), 0, Unwatched)


def rows(number, count=10):
    block = np.full((count, len(STEP_FIELDS)), np.nan)
    block[:, 0] = np.arange(count) + number * count
    return block


def facts(number):
    return {"kind": "facts", "number": number}


def numbers(server):
    return [message["number"] for message in server.of_kind("facts")]


def test_messages_arrive_numbered_in_order_and_without_a_file(server, files):
    reporter = opened(server)
    for number in range(100):
        reporter.send(facts(number))
    block = rows(1)
    expected = block.copy()
    reporter.send_steps(block)
    block[:] = -1  # rows are copied when they are handed over
    reporter.send_epoch({"train_loss": float("nan")})
    assert reporter.close(60)
    assert numbers(server) == list(range(100))
    assert [message["seq"] for message in server.messages] == list(range(1, 104))
    np.testing.assert_array_equal(unpack_steps(server.of_kind("steps")[0]["rows"]), expected)
    assert server.of_kind("epoch")[0]["row"] == {"train_loss": None}
    assert server.messages[-1]["kind"] == "bye"
    assert server.hellos[0]["worker"] == 0
    assert files == [], "on a healthy connection nothing is written to disk"


def test_the_heartbeat_carries_what_was_assigned_last(server):
    reporter = opened(server)
    reporter.phase, reporter.step, reporter.epoch, reporter.loss = "all_reduce", 7, 2, 0.5
    wait_until(lambda: server.beats and server.beats[-1]["step"] == 7)
    beat = server.beats[-1]
    assert (beat["phase"], beat["epoch"], beat["loss"], beat["accuracy"]) == ("all_reduce", 2, 0.5, None)
    assert reporter.close(60)
    assert server.of_kind("beat") == []


@pytest.mark.parametrize("memory_bytes", [0, 2**20])
def test_no_message_is_lost_or_comes_twice_over_a_connection_that_keeps_breaking(monkeypatch, memory_bytes):
    monkeypatch.setattr(reporter_module, "Spool", lambda: spool.Spool(memory_bytes))
    with FakeServer(drop_after_bytes=6000) as server:
        reporter = opened(server)
        for number in range(300):
            reporter.send({**facts(number), "padding": "x" * (number % 7) * 50})
            if number % 20 == 0:
                time.sleep(0.01)
        assert reporter.close(60)
    assert numbers(server) == list(range(300))
    assert server.dropped > 3
    assert server.replayed > 0  # the test would prove nothing if nothing had been sent again
    assert len(server.hellos) == server.dropped + 1


def test_what_is_made_while_the_server_is_dead_arrives_when_it_is_back(server, files, monkeypatch):
    monkeypatch.setattr(reporter_module, "Spool", lambda: spool.Spool(memory_bytes=100))
    reporter = opened(server)
    reporter.send(facts(0))
    assert reporter.drain(60)
    assert files == []
    server.die()
    for number in range(1, 20):
        reporter.send(facts(number))
    assert not reporter.drain(0.3)
    assert len(files) == 1, "beyond the memory bound a break is spilled to disk"
    server.start()
    assert reporter.close(60)
    assert numbers(server) == list(range(20))
    assert files[0].closed


def test_close_says_that_nothing_is_acknowledged_and_nonsense_is_connected_to_again(server, monkeypatch):
    for answer in (b"", b'{"ack": 99}\n'):
        monkeypatch.setattr(FakeServer, "_take", lambda self, it, *_, answer=answer: it.sendall(answer))
        reporter = opened(server)
        reporter.send(facts(0))
        assert not reporter.close(0.3), answer
    reporter = opened(server)
    reporter.send(facts(0))
    assert not reporter.drain(0.3)
    monkeypatch.undo()
    assert reporter.close(60)
    assert numbers(server) == [0]


def test_without_an_endpoint_nothing_happens():
    reporter = Reporter(assignment(None), 0, Unwatched)
    reporter.phase = "compute"
    reporter.send({"kind": "facts"})
    reporter.send_steps(rows(0))
    reporter.error(ValueError("x"))
    assert reporter.drain(0)
    assert reporter.close(0)
    assert reporter.observer_cpu_s() == 0.0


def test_an_error_is_sent_at_once_with_its_traceback(server):
    reporter = opened(server, flush_interval_s=30)
    wait_until(lambda: server.hellos)
    try:
        raise ValueError("first line\nsecond")
    except ValueError as error:
        reporter.error(error)
    wait_until(lambda: server.of_kind("error"))
    message = server.of_kind("error")[0]
    assert message["error"] == "ValueError: first line"
    assert "test_reporter.py" in message["traceback"]
    assert message["out_of_memory"] is False
    reporter.abandon()
    assert server.of_kind("bye") == []


def test_many_rows_arrive_whole_and_the_queue_stays_bounded(server, monkeypatch):
    monkeypatch.setattr(reporter_module, "MOST_QUEUED_BYTES", 2**20)
    reporter = opened(server, flush_interval_s=30)
    most = 0
    for number in range(100):
        reporter.send_steps(rows(number, 2000))  # 208 kB
        most = max(most, reporter._queued_bytes - reporter._sender.taken_bytes)
    assert reporter.close(60)
    assert most <= 2**20 + 208_000
    got = np.concatenate([unpack_steps(message["rows"])[:, 0] for message in server.of_kind("steps")])
    np.testing.assert_array_equal(got, np.arange(200_000))


def test_an_idle_reporter_costs_next_to_nothing(server):
    reporter = opened(server, flush_interval_s=0.1)
    wait_until(lambda: server.beats)
    before, beats = reporter.observer_cpu_s(), len(server.beats)
    wait_until(lambda: len(server.beats) >= beats + 5)
    assert 0 < reporter.observer_cpu_s() - before < 0.2  # one that never sleeps takes all of half a second
    assert reporter.close(60)


def test_the_training_thread_only_assigns():
    for name in ("phase", "step", "epoch", "loss", "accuracy", "samples_per_s"):
        assert name in vars(Reporter(assignment(None), 0, Unwatched)), "a property would cost a call"
    assert Reporter.__setattr__ is object.__setattr__


def test_cpu_time_of_ended_threads_is_remembered():
    reporter, is_read, may_end = Reporter(assignment(), 0), threading.Event(), threading.Event()

    def work():
        reporter.register_thread()
        sum(range(2_000_000))
        is_read.set()
        may_end.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    is_read.wait(60)
    used = reporter.observer_cpu_s()
    may_end.set()
    thread.join()
    assert reporter.observer_cpu_s() >= used > 0
