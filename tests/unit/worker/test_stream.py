import time
from statistics import median
from types import SimpleNamespace

import numpy as np
import pytest

from dlbench.records.messages import STEP_FIELDS, unpack_steps
from dlbench.worker import stream as stream_module
from dlbench.worker.stream import Stream, ThreadClocks
from tests.unit.worker.inbox import FakeInbox, assignment, wait_until


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(stream_module, "own_file", lambda name: tmp_path / name)
    return tmp_path


@pytest.fixture
def inbox():
    with FakeInbox() as made:
        yield made


def opened(inbox, **limits):
    return Stream(inbox.assignment(**limits), 0)


def rows(number, count=10):
    block = np.full((count, len(STEP_FIELDS)), np.nan)
    block[:, 0] = np.arange(count) + number * count
    return block


def numbers(inbox):
    return [message["number"] for message in inbox.of_kind("facts")]


def test_messages_arrive_numbered_in_order_with_a_goodbye(inbox, own_folder):
    stream = opened(inbox)
    for number in range(100):
        stream.send({"kind": "facts", "number": number})
    assert stream.close(60)
    assert numbers(inbox) == list(range(100))
    assert [message["seq"] for message in inbox.messages] == list(range(1, 102))
    assert inbox.messages[-1]["kind"] == "bye"
    assert inbox.hellos[0]["worker"] == 0
    assert list(own_folder.iterdir()) == []


def test_step_rows_are_copied_when_handed_over(inbox):
    stream = opened(inbox)
    block = rows(1)
    expected = block.copy()
    stream.send_steps(block)
    block[:] = -1
    assert stream.close(60)
    np.testing.assert_array_equal(unpack_steps(inbox.of_kind("steps")[0]["rows"]), expected)


def test_a_number_that_is_not_finite_becomes_null(inbox):
    stream = opened(inbox)
    stream.send({"kind": "epoch", "row": {"train_loss": float("nan")}})
    assert stream.close(60)
    assert inbox.of_kind("epoch")[0]["row"] == {"train_loss": None}


def test_the_heartbeat_carries_what_was_assigned_last(inbox):
    stream = opened(inbox)
    stream.phase, stream.step, stream.epoch, stream.loss = "exchange", 7, 2, 0.5
    wait_until(lambda: inbox.beats and inbox.beats[-1]["step"] == 7)
    beat = inbox.beats[-1]
    assert (beat["phase"], beat["epoch"], beat["loss"], beat["accuracy"]) == ("exchange", 2, 0.5, None)
    assert stream.close(60)
    assert inbox.of_kind("beat") == []


def test_no_message_is_lost_or_comes_twice_over_a_connection_that_keeps_breaking():
    with FakeInbox(drop_after_bytes=6000) as inbox:
        stream = opened(inbox)
        for number in range(300):
            stream.send({"kind": "facts", "number": number, "padding": "x" * (number % 7) * 50})
            if number % 20 == 0:
                time.sleep(0.01)
        assert stream.close(60)
    assert numbers(inbox) == list(range(300))
    assert inbox.dropped > 3
    assert inbox.replayed > 0  # the test would prove nothing if nothing had been sent again
    assert len(inbox.hellos) == inbox.dropped + 1


def test_late_acknowledgements_hold_nothing_up():
    with FakeInbox(ack_delay_s=0.2) as inbox:
        stream = opened(inbox)
        for number in range(50):
            stream.send({"kind": "facts", "number": number})
            time.sleep(0.01)
        assert stream.close(60)
    assert numbers(inbox) == list(range(50))
    assert inbox.replayed == 0


def test_what_is_made_while_the_inbox_is_dead_arrives_when_it_is_back(inbox, own_folder):
    stream = opened(inbox)
    stream.send({"kind": "facts", "number": 0})
    assert stream.drain(60)
    inbox.die()
    for number in range(1, 20):
        stream.send({"kind": "facts", "number": number})
    assert not stream.drain(0.3)
    assert [path.suffix for path in own_folder.iterdir()] == [".spool"]
    inbox.start()
    assert stream.close(60)
    assert numbers(inbox) == list(range(20))
    assert list(own_folder.iterdir()) == []


def test_without_a_temporary_folder_rows_wait_in_memory(inbox, monkeypatch):
    monkeypatch.setattr(stream_module, "own_file", lambda name: None)
    stream = opened(inbox)
    stream.send({"kind": "facts", "number": 0})
    assert stream.close(60)
    assert numbers(inbox) == [0]


def test_an_inbox_that_never_answers_makes_close_say_so(own_folder):
    with FakeInbox(is_mute=True) as inbox:
        stream = opened(inbox)
        stream.send({"kind": "facts", "number": 0})
        started = time.monotonic()
        assert not stream.close(0.3)
        assert time.monotonic() - started < 60
    assert list(own_folder.iterdir()) == []


def test_what_answers_nonsense_is_dialled_again(inbox, monkeypatch):
    monkeypatch.setattr(FakeInbox, "_take", lambda self, connection, _: connection.sendall(b'{"ack": 99}\n'))
    stream = opened(inbox)
    stream.send({"kind": "facts", "number": 0})
    assert not stream.drain(0.5)
    monkeypatch.undo()
    assert stream.drain(60)
    assert stream.close(60)
    assert numbers(inbox) == [0]


def test_without_an_inbox_nothing_happens(own_folder):
    stream = Stream(assignment(None), 0)
    stream.phase = "compute"
    stream.send({"kind": "facts"})
    stream.send_steps(rows(0))
    stream.error(ValueError("x"))
    assert stream._courier is None
    assert stream.drain(0)
    assert stream.close(0)
    assert stream.observer_cpu_s() == 0.0
    assert list(own_folder.iterdir()) == []


def test_an_error_is_sent_at_once_with_its_traceback(inbox):
    stream = opened(inbox, flush_interval_s=30)
    wait_until(lambda: inbox.hellos)
    try:
        raise ValueError("first line\nsecond")
    except ValueError as error:
        stream.error(error)
    wait_until(lambda: inbox.of_kind("error"))
    message = inbox.of_kind("error")[0]
    assert message["error"] == "ValueError: first line"
    assert "test_stream.py" in message["traceback"]
    assert message["out_of_memory"] is False
    stream.abandon()
    assert inbox.of_kind("bye") == []


def test_queued_rows_do_not_grow_without_bound(inbox, monkeypatch):
    monkeypatch.setattr(stream_module, "MOST_QUEUED_BYTES", 2**20)
    stream = opened(inbox, flush_interval_s=30)
    most = 0
    for number in range(200):
        stream.send_steps(rows(number, 1000))  # 104 kB
        most = max(most, stream._queued_bytes - stream._courier.taken_bytes)
    assert stream.close(60)
    assert most <= 2**20 + 104_000
    assert sum(len(unpack_steps(message["rows"])) for message in inbox.of_kind("steps")) == 200_000


def test_tens_of_megabytes_go_home(inbox):
    stream = opened(inbox, flush_interval_s=0.5)
    for number in range(100):
        stream.send_steps(rows(number, 4000))  # 416 kB
    assert stream.close(60)
    got = np.concatenate([unpack_steps(message["rows"])[:, 0] for message in inbox.of_kind("steps")])
    np.testing.assert_array_equal(got, np.arange(400_000))


def test_an_idle_stream_costs_next_to_nothing(inbox):
    stream = opened(inbox, flush_interval_s=0.1)
    wait_until(lambda: inbox.beats)
    before = stream.observer_cpu_s()
    time.sleep(1.0)
    assert 0 < stream.observer_cpu_s() - before < 0.2  # one that never sleeps takes 1 s
    assert stream.close(60)


def test_the_training_thread_only_assigns(inbox):
    stream = opened(inbox, flush_interval_s=0.5)

    def cost_s(told):
        started = time.thread_time()
        for number in range(10_000):
            told.step = number
            told.phase = "compute"
        return time.thread_time() - started

    plain = SimpleNamespace()
    costs = [(cost_s(stream), cost_s(plain)) for _ in range(9)]
    assert median(mine / bare for mine, bare in costs) < 5  # a lock or a system call would be more
    assert stream.close(60)


def test_cpu_time_of_ended_threads_is_remembered():
    import threading

    clocks, is_read, may_end = ThreadClocks(), threading.Event(), threading.Event()

    def work():
        clocks.add_current()
        sum(range(2_000_000))
        is_read.set()
        may_end.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    is_read.wait(60)
    used = clocks.total_s()
    may_end.set()
    thread.join()
    time.sleep(0.05)
    assert clocks.total_s() >= used > 0
