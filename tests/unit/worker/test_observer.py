import threading
import time
import types

import pytest

from dlbench import plugins
from dlbench.records import columns
from dlbench.records.assignment import Assignment
from dlbench.scenario.layout import Layout, Place
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.worker import observer as observer_module
from dlbench.worker.observer import Observer, next_reading
from tests.fakes import KeptReporter


class Counter:
    """A sensor that counts its readings, and may fail."""

    def __init__(self, fail_at=None):
        self.count, self.closed, self.fail_at = 0, 0, fail_at

    def read(self):
        self.count += 1
        if self.fail_at is not None and self.count >= self.fail_at:
            raise OSError("gone")
        return [("count", float(self.count))]

    def close(self):
        self.closed += 1


def plugin_of(sensor, **attributes):
    return types.SimpleNamespace(
        QUANTITIES={"count": "readings"}, available=lambda: True, open=lambda place: sensor, **attributes
    )


@pytest.fixture
def sensors(monkeypatch):
    """Replace the sensors by ours, by name."""
    found = {}

    def load(kind, name):
        if isinstance(found[name], Exception):
            raise found[name]
        return plugins.Plugin(kind, name, "", plugins.Options, found[name])

    monkeypatch.setattr(observer_module.plugins, "names", lambda kind: tuple(found))
    monkeypatch.setattr(observer_module.plugins, "load", load)
    return found


def assignment(*places, interval_s=0.02):
    layout = Layout(places=places or (Place(rank=0, workers=(0,)),), intra_op_threads=1, inter_op_threads=1)
    run = RunSpec(scenario="s", label="l", repeat=0, settings=Settings(sensor_interval_s=interval_s))
    return Assignment(run=run, attempt=1, attempt_id="a", layout=layout)


@pytest.fixture
def observing():
    """Start observers that are stopped whatever happens."""
    started = []

    def start(*places, rank=0, **keywords):
        reporter = KeptReporter()
        observer = Observer(assignment(*places, **keywords), rank, reporter)
        started.append(observer)
        observer.start()
        return observer, reporter

    yield start
    for observer in started:
        observer.stop()
        observer._thread.join(60)
        assert not observer._thread.is_alive()


def wait_for(condition, limit_s=60.0):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.002)


def begin(observer):
    observer.baseline()
    observer.zero(time.perf_counter())


def test_this_machine_is_observed_from_start_to_end(observing):
    observer, reporter = observing(interval_s=0.01)
    begin(observer)
    wait_for(lambda: reporter.sensor_rows)
    totals = observer.totals()
    observer.stop()
    assert set(totals) < set(columns.names("runs"))
    assert totals["host_memory_peak_bytes"] > 1 << 20
    assert totals["network_bytes"] >= 0
    assert {row[1] for row in reporter.sensor_rows} >= {"cpu", "host", "memory", "network"}
    assert reporter.facts == {}


def test_times_count_from_zero_and_are_negative_before(sensors, observing):
    sensors["counter"] = plugin_of(Counter())
    observer, reporter = observing()
    wait_for(lambda: len(observer._held) >= 2)
    assert reporter.messages == []
    begin(observer)
    wait_for(lambda: reporter.sensor_rows and reporter.sensor_rows[-1][0] > 0.02)
    times = [row[0] for row in reporter.sensor_rows]
    assert times[0] < 0
    assert times == sorted(times)
    assert [row[1:3] for row in reporter.sensor_rows] == [("counter", "count")] * len(times)
    assert [row[3] for row in reporter.sensor_rows] == [float(count + 1) for count in range(len(times))]


def test_delays_never_add_up():
    now, turn, moments = 0.0, 0, []
    for delay in (0.002, 0.0, 0.003, 0.001) * 5:
        moments.append(now)
        turn, waiting_s = next_reading(turn, now + 0.01, 0.05)
        now += 0.01 + waiting_s + delay
    assert moments == [pytest.approx(0.05 * number, abs=0.0031) for number in range(20)]


def test_a_missed_reading_is_left_out():
    rows = (
        (0, 0.01, (1, 0.04)),
        (0, 0.12, (3, 0.03)),
        # Woken a little early, the reading of this turn is done all the same.
        (3, 0.1499, (4, 0.0501)),
        (3, 0.2, (4, 0.0)),
    )
    for turn, elapsed_s, expected in rows:
        assert next_reading(turn, elapsed_s, 0.05) == pytest.approx(expected), (turn, elapsed_s)


def test_rows_leave_in_blocks_within_the_flush_interval(sensors, observing):
    sensors["counter"] = plugin_of(Counter())
    observer, reporter = observing(interval_s=0.02)
    begin(observer)
    wait_for(lambda: len(reporter.messages) >= 3)
    blocks = [len(message["rows"]) for message in reporter.messages]
    # 0.5 s / 0.02 s: no more readings than that wait. The first block holds all that were made before 0 s too.
    assert blocks[1:3] == [25, 25]


def test_stopping_sends_what_is_left_and_closes(sensors, observing):
    counter = Counter()
    sensors["counter"] = plugin_of(counter)
    observer, reporter = observing(interval_s=100.0)
    begin(observer)
    observer.totals()
    observer.stop()
    observer.stop()
    assert counter.closed == 1
    assert [row[3] for row in reporter.sensor_rows] == [float(count + 1) for count in range(counter.count)]
    assert counter.count >= 2
    assert reporter.threads == [observer._thread.ident], "its CPU time is accounted"
    assert observer._thread.daemon


class Traffic(Counter):
    def read(self):
        super().read()
        return [("sent_bytes", 100.0 * self.count)]


def test_totals_reach_to_the_last_mark_or_to_the_end(sensors, observing):
    for num_marks, num_readings in ((0, 1), (1, 1), (2, 2)):
        sensors["network"] = plugin_of(Traffic())
        observer, _ = observing(interval_s=100.0)
        wait_for(lambda observer=observer: observer._held)
        begin(observer)
        for _ in range(num_marks):
            observer.mark()
        observer.stop()
        assert observer.totals()["network_bytes"] == 100 * num_readings, num_marks


def test_a_peak_after_the_last_mark_counts(sensors, observing):
    class Memory(Counter):
        def read(self):
            super().read()
            return [("peak_rss_bytes", 100.0 * self.count)]

    sensors["memory"], sensors["network"] = plugin_of(Memory()), plugin_of(Traffic())
    observer, _ = observing(interval_s=100.0)
    wait_for(lambda: observer._held)
    begin(observer)
    observer.mark()
    totals = observer.totals()
    assert (totals["host_memory_peak_bytes"], totals["network_bytes"]) == (400, 100)


def test_what_counters_grew_by_is_unknown_without_a_reading_at_both_ends(sensors, observing, monkeypatch):
    monkeypatch.setattr(observer_module, "PATIENCE_S", 0.05)
    for missing in ("baseline", "mark"):
        sensors["network"] = plugin_of(Traffic())
        observer, _ = observing(interval_s=0.001)
        wait_for(lambda observer=observer: observer._held)
        for name in ("baseline", "mark"):
            if name == missing:
                with observer._lock:
                    getattr(observer, name)()
            else:
                getattr(observer, name)()
        assert observer.totals()["network_bytes"] is None, missing


def test_a_failing_sensor_is_dropped_with_one_note(sensors, observing):
    failing, counter = Counter(fail_at=3), Counter()
    sensors["failing"], sensors["counter"] = plugin_of(failing), plugin_of(counter)
    observer, reporter = observing()
    begin(observer)
    wait_for(lambda: counter.count >= 6)
    observer.stop()
    notes = [message for message in reporter.messages if message["kind"] == "facts"]
    assert notes == [{"kind": "facts", "facts": {"worker.sensor_failing": "dropped: OSError: gone"}}]
    assert failing.closed == 1
    assert failing.count == 3
    assert len([row for row in reporter.sensor_rows if row[1] == "failing"]) == 2


def test_a_sensor_that_does_not_open_never_ends_the_run(sensors, observing):
    broken = {
        "import": ImportError("no such thing"),
        "available": types.SimpleNamespace(available=lambda: 1 / 0, open=None),
        "open": types.SimpleNamespace(available=lambda: True, open=lambda place: 1 / 0),
        "empty": types.SimpleNamespace(),
    }
    counter, absent = Counter(), types.SimpleNamespace(available=lambda: False, open=None)
    sensors |= {**broken, "absent": absent, "counter": plugin_of(counter)}
    observer, reporter = observing()
    begin(observer)
    wait_for(lambda: counter.count >= 2)
    assert set(reporter.facts) == {f"worker.sensor_{name}" for name in broken}, "what is absent needs no note"
    assert all(note.startswith("dropped: ") for note in reporter.facts.values())


def test_a_sensor_that_hangs_holds_up_neither_training_nor_the_end(sensors, observing, monkeypatch):
    monkeypatch.setattr(observer_module, "PATIENCE_S", 0.05)
    release = threading.Event()

    class Hanging(Counter):
        def read(self):
            release.wait(300)
            return super().read()

    sensors["hanging"] = plugin_of(Hanging())
    observer, _ = observing()
    try:
        started = time.monotonic()
        begin(observer)
        assert set(observer.totals().values()) == {None}
        observer.stop()
        assert time.monotonic() - started < 60
    finally:
        release.set()


def test_one_worker_of_each_host_reads_what_belongs_to_it(sensors, observing):
    places = (
        Place(rank=0, role="server", workers=(), host="a"),
        Place(rank=1, workers=(0,), host="a"),
        Place(rank=2, workers=(1,), local_index=1, host="a"),
        Place(rank=3, workers=(2,), host="b"),
        Place(rank=4, workers=(3,), local_index=1, host="b"),
    )
    sensors["own"], sensors["host"] = plugin_of(Counter()), plugin_of(Counter(), PER_HOST=True)
    for rank, expected in ((1, {"own", "host"}), (2, {"own"}), (3, {"own", "host"}), (4, {"own"})):
        observer, reporter = observing(*places, rank=rank)
        begin(observer)
        wait_for(lambda observer=observer, reporter=reporter: len(observer._held) or reporter.sensor_rows)
        observer.stop()
        assert {row[1] for row in reporter.sensor_rows} == expected, rank


def test_an_observer_that_never_started_knows_nothing(monkeypatch):
    monkeypatch.setattr(observer_module, "PATIENCE_S", 0.01)
    observer = Observer(assignment(), 0, KeptReporter())
    begin(observer)
    assert set(observer.totals().values()) == {None}
    observer.stop()
