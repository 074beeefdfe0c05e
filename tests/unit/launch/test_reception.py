"""What a worker says is on disk before it is acknowledged, and seen by the watch."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dlbench.launch.reception import Reception
from tests.unit.launch.fakes import TOKEN, assignment


@pytest.fixture
def reception(tmp_path: Path) -> Iterator[Reception]:
    made = Reception(assignment(workers=2), tmp_path / "j", lambda _: None)
    yield made
    made.shut()


def lines(*messages: dict[str, Any]) -> list[tuple[bytes, dict[str, Any]]]:
    return [(json.dumps(message).encode(), message) for message in messages]


def test_the_disk_has_it_before_it_is_acknowledged(reception: Reception, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda *arguments: (done.append("write"), write(*arguments))[1])
    monkeypatch.setattr(os, "fdatasync", lambda _: done.append("sync"))
    assert reception.take(0, lines({"kind": "x", "seq": 1}, {"kind": "x", "seq": 2})) == 2
    assert done == ["write", "sync"], "one write and one sync for lines that arrive together"


@pytest.mark.parametrize("call", ["write", "fdatasync"])
def test_what_is_not_on_disk_is_not_acknowledged(
    reception: Reception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    assert reception.take(0, lines({"kind": "x", "seq": 1})) == 1

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, full)
    assert reception.take(0, lines({"kind": "bye", "seq": 2})) is None
    monkeypatch.undo()
    assert reception.failure == "the journal cannot be written: No space left on device"
    assert not reception.workers()[0].has_left
    assert reception.take(0, lines({"kind": "x", "seq": 2})) is None, "a journal with a hole is worse than a short one"
    assert [json.loads(line)["seq"] for line in (tmp_path / "j").read_text().splitlines()] == [1]


def test_a_write_in_pieces_is_completed(reception: Reception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, bytes(content)[:3]))
    assert reception.take(0, lines({"kind": "x", "seq": 1})) == 1
    assert json.loads((tmp_path / "j").read_text()) == {"worker": 0, "kind": "x", "seq": 1}


def test_beats_alone_are_not_acknowledged(reception: Reception) -> None:
    assert reception.take(0, lines({"kind": "beat", "phase": "build"})) is None
    assert reception.workers()[0].phase == "build"


def test_a_repeat_is_acknowledged_again(reception: Reception) -> None:
    reception.take(0, lines({"kind": "x", "seq": 1}))
    assert reception.take(0, lines({"kind": "x", "seq": 1})) == 1


@pytest.mark.parametrize("kind", ["steps", "epoch", "result", "bye"])
def test_rows_show_that_start_up_is_over(reception: Reception, kind: str) -> None:
    reception.take(0, lines({"kind": "phase", "phase": "build", "seq": 1}))
    assert not reception.workers()[0].has_trained
    reception.take(0, lines({"kind": kind, "seq": 2}))
    assert reception.workers()[0].has_trained


@pytest.mark.parametrize("phase", ["data", "compute", "exchange"])
def test_training_phases_show_that_start_up_is_over(reception: Reception, phase: str) -> None:
    reception.take(1, lines({"kind": "beat", "phase": phase}))
    assert [view.has_trained for view in reception.workers().values()] == [False, True]


@pytest.mark.parametrize(
    "beat", [{"phase": None}, {"phase": 7, "step": "x"}, {"step": float("nan"), "loss": "a"}, {"step": 1e300}]
)
def test_odd_beats_do_no_harm(reception: Reception, beat: dict[str, Any]) -> None:
    reception.take(0, lines({"kind": "beat", **beat}))
    assert reception.workers()[0].step is None


def test_what_the_kernel_had_killed_is_what_it_had_at_first(reception: Reception) -> None:
    for told in (3, 5):
        reception.welcome({"worker": 0, "pid": 7, "host": "a", "oom_kills": told})
        assert reception.workers()[0].oom_kills == 3
    reception.welcome({"worker": 1, "pid": 8, "host": "b", "oom_kills": "3"})
    assert reception.workers()[1].oom_kills is None


def test_admission(reception: Reception) -> None:
    assert reception.admits({"token": TOKEN, "worker": 1})
    assert not reception.admits({"token": TOKEN + "x", "worker": 1})
    assert not reception.admits({"token": TOKEN, "worker": 2})
    assert not reception.admits({"worker": 1})
