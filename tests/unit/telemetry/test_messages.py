import base64
import json
import math

import numpy as np
import pytest

from dlbench.records import columns
from dlbench.telemetry import messages


def test_a_message_is_one_line_and_comes_back():
    message = {"kind": "error", "traceback": "first\nsecond\r\n끝 “x”", "seq": 3, "worker": 0}
    line = messages.encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert messages.decode(line) == message


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_become_null_wherever_they_are(value):
    message = {"kind": "sensors", "rows": [[0.5, "cpu", "utilization", value]], "facts": {"loss": value, "ok": 1.0}}
    found = json.loads(messages.encode(message), parse_constant=pytest.fail)
    assert found["rows"] == [[0.5, "cpu", "utilization", None]]
    assert found["facts"] == {"loss": None, "ok": 1.0}


def test_a_numpy_number_that_is_not_finite_becomes_null():
    assert json.loads(messages.encode({"loss": np.float64("nan")})) == {"loss": None}


@pytest.mark.parametrize("line", [b"[1, 2]\n", b"3\n", b"null\n", b'"text"\n', b"{\n", b"\n", b"\xff\xfe\n"])
def test_a_line_that_is_no_object_is_refused(line):
    with pytest.raises(ValueError):
        messages.decode(line)


def test_steps_come_back_bit_by_bit():
    rows = np.random.default_rng(0).normal(size=(7, len(messages.STEP_FIELDS)))
    rows[2, 3:6] = math.nan
    found = messages.unpack_steps(messages.pack_steps(rows))
    assert found.tobytes() == rows.tobytes()
    assert found.shape == rows.shape


def test_what_does_not_vary_is_sent_once_and_comes_back_bit_by_bit():
    rows = np.random.default_rng(0).normal(size=(1000, len(messages.STEP_FIELDS)))
    rows[:, 0] = np.arange(17, 1017)
    rows[:, 1], rows[:, 2], rows[:, 3], rows[:, 4] = 1.0, math.nan, -0.0, math.inf
    text = messages.pack_steps(rows)
    assert messages.unpack_steps(text).tobytes() == rows.tobytes()
    assert len(text) < len(messages.pack_steps(np.random.default_rng(0).normal(size=rows.shape))) * 9 / 13


def test_a_line_of_steps_is_the_one_that_encode_makes():
    rows = np.random.default_rng(0).normal(size=(50, len(messages.STEP_FIELDS)))
    message = {"seq": 12, "kind": "steps", "rows": messages.pack_steps(rows)}
    assert messages.encode_steps(12, rows) == messages.encode(message)


@pytest.mark.parametrize(
    "column",
    [[-0.0, 1.0, 2.0], [math.inf, math.inf, 1.0], [math.inf, -math.inf, 1.0], [0.0, -0.0, 0.0], [1.0, 2.0, 2.0]],
)
def test_numbers_that_only_nearly_count_or_stay_come_back_bit_by_bit(column):
    rows = np.zeros((3, len(messages.STEP_FIELDS)))
    rows[:, 5] = column
    assert messages.unpack_steps(messages.pack_steps(rows)).tobytes() == rows.tobytes()


def test_plain_rows_of_earlier_journals_are_read():
    rows = np.arange(3.0 * len(messages.STEP_FIELDS)).reshape(3, -1)
    np.testing.assert_array_equal(messages.unpack_steps(base64.b64encode(rows.tobytes()).decode()), rows)


def test_steps_are_packed_in_row_order_whatever_their_layout_in_memory():
    rows = np.asfortranarray(np.arange(2.0 * len(messages.STEP_FIELDS)).reshape(2, -1))
    np.testing.assert_array_equal(messages.unpack_steps(messages.pack_steps(rows)), rows)


def test_no_steps_are_no_rows():
    assert messages.unpack_steps(messages.pack_steps(np.empty((0, len(messages.STEP_FIELDS))))).shape == (
        0,
        len(messages.STEP_FIELDS),
    )


def test_a_cut_text_of_steps_is_refused():
    text = messages.pack_steps(np.random.default_rng(0).normal(size=(2, len(messages.STEP_FIELDS))))
    with pytest.raises(ValueError):
        messages.unpack_steps(text[:-8])


def test_phases_are_named_once():
    assert len(set(messages.PHASES)) == len(messages.PHASES)
    assert len(set(columns.STEP_PHASES)) == len(columns.STEP_PHASES)
