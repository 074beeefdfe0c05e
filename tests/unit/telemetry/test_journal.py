import os
from pathlib import Path

import numpy as np
import pytest

from dlbench.errors import UserError
from dlbench.records.result import Result
from dlbench.telemetry.journal import read_journal
from dlbench.telemetry.messages import STEP_FIELDS, encode, pack_steps
from tests.unit.telemetry.lines import CHANGE


def step_rows(first: int, count: int) -> np.ndarray:
    rows = np.zeros((count, len(STEP_FIELDS)))
    rows[:, 0] = np.arange(first, first + count)
    rows[:, 1] = 1
    return rows


def write(path: Path, *messages: dict, tail: bytes = b"") -> Path:
    path.write_bytes(b"".join(encode(message) for message in messages) + tail)
    return path


def test_every_kind_is_read(tmp_path):
    path = write(
        tmp_path / "journal.jsonl",
        {"kind": "phase", "worker": 0, "seq": 1, "phase": "start", "at": 1.0, "monotonic": 2.0},
        {"kind": "facts", "worker": 1, "seq": 1, "facts": {"device_name": "CPU", "a": 1}},
        {"kind": "facts", "worker": 1, "seq": 2, "facts": {"a": 2}},
        {"kind": "steps", "worker": 1, "seq": 3, "rows": pack_steps(step_rows(1, 2)).decode()},
        {"kind": "steps", "worker": 0, "seq": 2, "rows": pack_steps(step_rows(1, 3)).decode()},
        {"kind": "steps", "worker": 1, "seq": 4, "rows": pack_steps(step_rows(3, 2)).decode()},
        {"kind": "epoch", "worker": 0, "seq": 3, "row": {"epoch": 1, "train_loss": 0.5}},
        {"kind": "sensors", "worker": 0, "seq": 4, "rows": [[-0.5, "cpu", "time_s", 1.25]]},
        {"kind": "batch_change", "worker": 1, "seq": 5, "row": CHANGE.model_dump()},
        {"kind": "error", "worker": 1, "seq": 6, "error": "ValueError: x", "traceback": "...", "out_of_memory": False},
        {"kind": "result", "worker": 0, "seq": 5, "result": Result(steps=3).model_dump(mode="json")},
        {"kind": "a kind of tomorrow", "worker": 0, "seq": 6},
        {"kind": "bye", "worker": 0, "seq": 7},
    )
    journal = read_journal(path)
    assert list(journal.steps) == [0, 1]
    assert journal.steps[1][:, 0].tolist() == [1, 2, 3, 4]
    assert journal.facts == {1: {"device_name": "CPU", "a": 2}}
    assert journal.epochs == [{"epoch": 1, "train_loss": 0.5, "worker": 0}]
    assert journal.sensors[0].value == 1.25
    assert journal.batch_changes == [CHANGE]
    assert journal.errors[0].error == "ValueError: x"
    assert journal.results[0].steps == 3
    assert journal.ended == {0}


@pytest.mark.parametrize("tail", [b'{"kind": "steps", "wor', b"\x00\x00\x00", b'{"kind": "bye", "worker": 1}'])
def test_a_torn_last_line_is_left_out(tmp_path, tail):
    path = write(tmp_path / "journal.jsonl", {"kind": "bye", "worker": 0}, tail=tail)
    assert read_journal(path).ended == {0}


def test_a_line_that_is_damaged_before_the_last_or_missing_is_named(tmp_path):
    path = tmp_path / "journal.jsonl"
    for line in (b"garbage\n", b"[1]\n", b'{"kind": "steps", "worker": 0, "rows": "AAAA"}\n'):
        path.write_bytes(line + encode({"kind": "bye", "worker": 0}))
        with pytest.raises(UserError, match=r"journal\.jsonl:1: this line is damaged"):
            read_journal(path)
    messages = [{"kind": "x", "worker": 1, "seq": seq} for seq in (1, 2, 4)]
    write(path, {"kind": "x", "worker": 0, "seq": 1}, *messages)
    with pytest.raises(UserError, match=r"journal\.jsonl:4: this line is damaged .*line 3 of worker 1 is missing"):
        read_journal(path)


def test_an_absent_journal_is_empty_and_what_is_no_file_is_refused(tmp_path):
    assert read_journal(tmp_path / "none").results == {}
    os.mkfifo(tmp_path / "journal.jsonl")
    with pytest.raises(UserError, match="it is a pipe or a device"):
        read_journal(tmp_path / "journal.jsonl")
