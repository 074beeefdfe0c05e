"""Each column of each kind of line is given each bad value: none is acknowledged."""

import json

import numpy as np
import pytest

from dlbench.telemetry.attempt_session import AttemptSession
from dlbench.telemetry.line_check import LineChecker
from dlbench.telemetry.messages import decode
from tests.unit.launch.fakes import assignment
from tests.unit.telemetry.lines import CHANGE, RESULT_LINE, bad_lines, spoken, steps

SOUND = (
    steps(),
    steps(loss=np.nan, peer_wait_s=np.nan, epoch=0, phase=4, step=[7, 8, 9], started_at_s=[1, 2, 3]),
    {"kind": "epoch", "row": {"epoch": 1, "train_loss": None, "samples": 5, "of_a_newer_version": [1], "bleu": -3.5}},
    {"kind": "sensors", "rows": [[-0.5, "cpu", "load", 1], [None, "gpu", "power_w", None]]},
    {"kind": "batch_change", "row": CHANGE.model_dump() | {"noise_scale": None}},
    {"kind": "facts", "facts": {"worker.core": "=", "device_name": "an (R) é", "jit_compile": True}},
    RESULT_LINE,
    {"kind": "error", "error": ""},
    {"kind": "of a newer version"},
    {"kind": "epoch", "row": {"epoch": 2, "train_accuracy": 1, "train_loss": -1e300}},
    {"kind": "bye"},
)


def test_what_a_worker_says_passes_in_order(tmp_path):
    session = AttemptSession(assignment(workers=2), tmp_path / "j", lambda _: None)
    session.receive(0, [spoken(line, number) for number, line in enumerate(SOUND, start=1)])
    assert session.failure == ""
    assert session.commit() == {0: len(SOUND)}
    session.journal.close()


def test_no_bad_value_of_any_column_is_acknowledged(tmp_path):
    taken, given = [], assignment(workers=2)
    for what, line in bad_lines():
        session = AttemptSession(given, tmp_path / "j", lambda _: None)
        session.receive(0, [spoken(line)])
        if session.commit() or not session.failure:
            taken.append(what)
        session.journal.close()
    assert taken == []
    assert (tmp_path / "j").read_bytes() == b""


@pytest.mark.parametrize(
    "lines",
    [
        (steps(step=[4, 5, 6]), steps(step=[6, 7, 8])),
        (steps(started_at_s=[1, 2, 3]), steps(step=[4, 5, 6], started_at_s=[2, 3, 4])),
        ({"kind": "epoch", "row": {"epoch": 2}}, {"kind": "epoch", "row": {"epoch": 2}}),
        ({"kind": "bye"}, {"kind": "error", "error": "x"}),
        ({"kind": "epoch", "row": {"epoch": None}},),
        ({"kind": "batch_change", "row": CHANGE.model_dump()},
         {"kind": "batch_change", "row": CHANGE.model_dump() | {"step": 7}}),
        ({"kind": "result", "result": {"steps": 3, "segments": [{"opened_at_s": 2, "closed_at_s": 1, "steps": 1,
                                                                "samples": 1}]}},),
    ],
)  # fmt: skip
def test_rows_come_in_the_order_in_which_they_were_made(lines):
    checker = LineChecker()
    for line in lines[:-1]:
        checker.check(line)
    with pytest.raises(ValueError):
        checker.check(lines[-1])


def test_a_missing_field_or_one_of_another_type_is_no_line():
    for line in (
        {"kind": "steps"}, {"kind": "steps", "rows": 3}, {"kind": "steps", "rows": "~"},
        {"kind": "steps", "rows": "abc"},
        {"kind": "epoch", "row": []}, {"kind": "sensors", "rows": [[1, "a", "b"]]}, {"kind": "sensors", "rows": [{}]},
        {"kind": "batch_change", "row": {"step": 3}},
        {"kind": "facts", "facts": None}, {"kind": "result", "result": {"steps": None}}, {"kind": "error"}, {},
    ):  # fmt: skip
        with pytest.raises(ValueError):
            LineChecker().check(decode(json.dumps(line).encode()))
