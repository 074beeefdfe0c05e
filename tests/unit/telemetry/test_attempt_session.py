"""What a worker reports is on disk before it is acknowledged, and known to the stall check."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dlbench.telemetry.attempt_session import AttemptSession
from tests.unit.launch.fakes import assignment, layout


@pytest.fixture
def session(tmp_path: Path) -> Iterator[AttemptSession]:
    made = AttemptSession(assignment(workers=2), tmp_path / "j", lambda _: None)
    yield made
    made.journal.close()


def receive(session: AttemptSession, rank: int, *messages: dict[str, Any]) -> None:
    session.receive(rank, [json.dumps(message).encode() for message in messages])


def kept(tmp_path: Path) -> list[tuple[int, int]]:
    lines = (tmp_path / "j").read_text().splitlines()
    return [(line["worker"], line["seq"]) for line in map(json.loads, lines)]


def test_what_arrives_together_is_forced_to_disk_once_before_it_is_acknowledged(
    session: AttemptSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda *arguments: (done.append("write"), write(*arguments))[1])
    monkeypatch.setattr(os, "fdatasync", lambda _: done.append("sync"))
    receive(session, 0, {"kind": "x", "seq": 1}, {"kind": "x", "seq": 2})
    receive(session, 1, {"kind": "bye", "seq": 1})
    assert not session.workers()[1].has_left, "what is not on disk does not count"
    assert done == []
    assert session.commit() == {0: 2, 1: 1}
    assert done == ["write", "sync"]
    assert session.workers()[1].has_left
    assert session.commit() == {}


@pytest.mark.parametrize("call", ["write", "fdatasync"])
def test_what_is_not_on_disk_is_not_acknowledged(
    session: AttemptSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    receive(session, 0, {"kind": "x", "seq": 1})
    assert session.commit() == {0: 1}

    write = os.write

    def full(descriptor: int, content: bytes = b"") -> int:
        write(descriptor, bytes(content)[:5])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, full)
    receive(session, 0, {"kind": "bye", "seq": 2})
    assert session.commit() == {}
    monkeypatch.undo()
    assert session.failure == "the journal cannot be written: No space left on device"
    assert not session.workers()[0].has_left
    receive(session, 0, {"kind": "x", "seq": 2})
    assert session.commit() == {}, "a journal with a hole is worse than a short one"
    assert kept(tmp_path) == [(0, 1)]


def test_a_write_in_pieces_is_completed(
    session: AttemptSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, bytes(content)[:3]))
    receive(session, 0, {"kind": "x", "seq": 1})
    assert session.commit() == {0: 1}
    assert kept(tmp_path) == [(0, 1)]


def test_numbers_are_kept_once_and_without_gaps(session: AttemptSession, tmp_path: Path) -> None:
    receive(session, 0, {"kind": "x", "seq": 1}, {"kind": "x", "seq": 1}, {"kind": "x", "seq": 2})
    # A connection that breaks and opens again before the commit: the worker sends both lines again.
    assert session.connected({"worker": 0}) == 0
    receive(session, 0, {"kind": "x", "seq": 1}, {"kind": "x", "seq": 2})
    assert session.commit() == {0: 2}
    receive(session, 0, {"kind": "x", "seq": 1})
    assert session.commit() == {0: 2}, "a repeat is acknowledged again"
    with pytest.raises(ConnectionError):
        receive(session, 0, {"kind": "x", "seq": 4})
    assert session.connected({"worker": 0}) == 2
    assert kept(tmp_path) == [(0, 1), (0, 2)]


def test_rows_and_training_phases_show_that_start_up_is_over(tmp_path: Path) -> None:
    contents: dict[str, dict[str, Any]] = {
        "steps": {"rows": ""},
        "epoch": {"row": {"epoch": 1}},
        "result": {"result": {"steps": 1}},
        "bye": {},
    }
    lines = [{"kind": kind, "seq": 1, **content} for kind, content in contents.items()]
    lines += [{"kind": "beat", "phase": phase} for phase in ("data", "compute", "all_reduce")]
    for number, line in enumerate(lines):
        session = AttemptSession(assignment(workers=2), tmp_path / str(number), lambda _: None)
        receive(session, 1, {"kind": "beat", "phase": "broadcast"})
        session.commit()
        assert not session.workers()[1].has_trained, line
        receive(session, 1, line)
        session.commit()
        assert [view.has_trained for view in session.workers().values()] == [False, True], line
        session.journal.close()


def test_hosts_are_known_before_a_worker_connects_where_there_are_several(tmp_path: Path) -> None:
    for hosts, addresses in ((("a", "a"), ["", ""]), (("a", "b"), ["a", "b"])):
        placed = assignment(workers=2).model_copy(update={"layout": layout(*hosts)})
        session = AttemptSession(placed, tmp_path / hosts[1], lambda _: None)
        assert [view.address for view in session.workers().values()] == addresses
        session.journal.close()


def test_heartbeats_are_seen_at_once_and_odd_ones_do_no_harm(session: AttemptSession) -> None:
    receive(session, 0, {"kind": "beat", "phase": "build"})
    assert session.workers()[0].phase == "build"
    odd = [{"phase": None}, {"phase": 7, "step": "x"}, {"step": 0.5, "loss": "a"}, {"step": 1e300}]
    receive(session, 0, *({"kind": "beat", **beat} for beat in odd))
    session.receive(0, [b'{"kind":"beat","phase":"\\u001b]0;x\\u0007","loss":1e999}'])
    assert session.workers()[0].phase == "\\x1b]0;x\\x07", "it is shown on a terminal"
    assert session.workers()[0].loss is None
    assert session.workers()[0].step is None
    assert session.commit() == {}
    assert not session.failure


@pytest.mark.parametrize(
    "line", [b"not json", b"[1]", b"[" * 100_000, b"\xff", b'{"seq": true}', b'{"seq": "1"}', b'{"kind": 7}', b""]
)
def test_a_line_that_is_none_ends_the_attempt(session: AttemptSession, tmp_path: Path, line: bytes) -> None:
    session.receive(0, [b'{"kind":"x","seq":1}', line, b'{"kind":"x","seq":2}'])
    assert session.failure.startswith("worker 0 has sent a line that is none: ")
    assert session.commit() == {}, "rows of an attempt that has failed are not acknowledged"


def test_the_first_count_of_killed_processes_stays(session: AttemptSession) -> None:
    for count in (3, 5):
        session.connected({"worker": 0, "pid": 7, "host": "a", "oom_kills": count})
        assert session.workers()[0].oom_kills == 3
    session.connected({"worker": 1, "pid": 8, "host": "b", "oom_kills": "3"})
    assert session.workers()[1].oom_kills is None


def test_a_second_process_of_a_rank_may_connect_and_report_no_steps(session: AttemptSession) -> None:
    steps = {"kind": "steps", "rows": ""}
    for rank, pid, message in (
        (0, 7, {"kind": "x"}),
        (0, 8, {"kind": "beat", "phase": "build"}),  # it loads data, and begins as the script does
        (0, 7, steps),
        (0, 8, {"kind": "x"}),
        (1, 8, steps),
        (0, 7, steps),
    ):
        seq = session.connected({"worker": rank, "pid": pid}) + 1
        receive(session, rank, message if message["kind"] == "beat" else message | {"seq": seq})
        session.commit()
    assert not session.failure
    assert session.connected({"worker": 0, "pid": 8}) == 0
    receive(session, 0, steps | {"seq": 1})
    assert session.failure.startswith("two processes of the script report steps as worker 0: ")


def test_admission(session: AttemptSession) -> None:
    assert session.admits({"nonce": "a1", "worker": 1})
    for nonce, worker in (("a 1", 1), (None, 1), ("", 1), ("a1", 2), ("a1", -1), ("a1", True), ("a1", "0")):
        assert not session.admits({"nonce": nonce, "worker": worker}), (nonce, worker)
    assert not session.admits({"worker": 1})
