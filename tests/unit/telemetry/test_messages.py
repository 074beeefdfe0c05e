import base64
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

import dlbench
from dlbench.records import columns
from dlbench.telemetry import messages
from dlbench.telemetry.messages import STEP_FIELDS, WORKER, Seal, decode, encode, pack_steps, unpack_steps


def random(count):
    return np.random.default_rng(0).normal(size=(count, len(STEP_FIELDS)))


def test_a_message_is_one_line_and_comes_back():
    message = {"kind": "error", "traceback": "first\nsecond\n\t끝 “x”", "seq": 3, "worker": 0}
    line = encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line) == message


def test_numbers_that_are_not_finite_become_null_wherever_they_are():
    for value in (math.nan, math.inf, -math.inf, np.float64("nan")):
        message = {"rows": [[0.5, "cpu", value]], "facts": {"loss": value, "ok": 1.0}}
        found = json.loads(encode(message), parse_constant=pytest.fail)
        assert found == {"rows": [[0.5, "cpu", None]], "facts": {"loss": None, "ok": 1.0}}, value


def test_texts_can_be_written_and_shown():
    odd = {"kind": "facts", "facts": {"a\x1b[2J": ["\udcff", "one\r\ntwo", "\u202e"]}}
    found = decode(encode(odd))
    assert found["facts"] == {"a\\x1b[2J": ["\\udcff", "one\ntwo", "\\u202e"]}


def test_a_line_that_is_no_object_or_has_a_number_that_no_column_can_hold_is_refused():
    numbers = (b"1" + b"0" * 400, b"%d" % 2**63, b"NaN", b"-Infinity")
    beats = [b'{"kind": "beat", "step": %b}' % number for number in numbers]
    for line in (b"[1, 2]\n", b"3\n", b"null\n", b'"text"\n', b"{\n", b"\n", b"\xff\xfe\n", *beats):
        with pytest.raises(ValueError):
            decode(line)


def test_steps_come_back_bit_by_bit():
    unknown, regular = random(7), random(1000)
    unknown[2, 3:6] = math.nan
    regular[:, 0] = np.arange(17, 1017)
    regular[:, 1], regular[:, 2], regular[:, 3], regular[:, 4] = 1.0, math.nan, -0.0, math.inf
    tables = [random(0), random(1), unknown, regular, np.asfortranarray(random(2))]
    # Columns that only nearly stay, or nearly count up.
    for column in ([-0.0, 1, 2], [math.inf, math.inf, 1], [math.inf, -math.inf, 1], [0.0, -0.0, 0.0], [1, 2, 2]):
        tables.append(np.zeros((3, len(STEP_FIELDS))))
        tables[-1][:, 5] = column
    for rows in tables:
        returned = unpack_steps(pack_steps(rows).decode())
        assert (returned.tobytes(), returned.shape) == (rows.tobytes(), rows.shape), rows
        message = {"seq": 12, "kind": "steps", "rows": pack_steps(rows).decode()}
        assert messages.encode_steps(12, rows) == encode(message)
    assert len(pack_steps(regular)) < len(pack_steps(random(1000))) * 9 / 13, "what does not vary is sent once"


def test_plain_rows_of_earlier_journals_are_read():
    rows = np.arange(3.0 * len(STEP_FIELDS)).reshape(3, -1)
    np.testing.assert_array_equal(unpack_steps(base64.b64encode(rows.tobytes()).decode()), rows)
    for text in (base64.b64encode(rows.tobytes()[:-8]).decode(), pack_steps(rows).decode()[:-8]):
        with pytest.raises(ValueError):
            unpack_steps(text)


def test_every_phase_that_a_worker_reports_is_one():
    files = Path(dlbench.__file__).parent.joinpath("worker").rglob("*.py")
    reported = {name for file in files for name in re.findall(r'reporter\.phase = "(\w+)"', file.read_text())}
    assert {"compute", "compile"} < reported <= set(messages.PHASES)
    for phases in (messages.PHASES, columns.STEP_PHASES):
        assert len(set(phases)) == len(phases)


TOKEN, NONCES = "0f" * 16, ("a1", "b2")


def both(sender: str = WORKER, token: str = TOKEN, nonces: tuple[str, str] = NONCES) -> tuple[Seal, Seal]:
    """Return the seal of one side, and the other side's of the worker's lines on the connection of the tests."""
    return Seal(token, *nonces, sender), Seal(TOKEN, *NONCES, WORKER)


def test_lines_come_back_in_their_order_from_each_side() -> None:
    for sender, side in zip(Seal.pair(TOKEN, *NONCES), (WORKER, messages.SERVER), strict=True):
        receiver = Seal(TOKEN, *NONCES, side)
        for line in (b"first", b"", b"second with \xff", b"x" * 10_000):
            sealed = sender.sealed(line + b"\n")
            assert sealed[messages.CODE_LENGTH :] == line + b"\n"
            assert receiver.opened(sealed[:-1]) == line


@pytest.mark.parametrize(
    ("sender", "token", "nonces"),
    [
        (messages.SERVER, TOKEN, NONCES),
        (WORKER, "1f" * 16, NONCES),
        (WORKER, TOKEN, ("a2", "b2")),
        (WORKER, TOKEN, ("a1", "b3")),
    ],
)
def test_another_side_token_or_connection_is_refused(sender: str, token: str, nonces: tuple[str, str]) -> None:
    one, other = both(sender, token, nonces)
    with pytest.raises(ConnectionError):
        other.opened(one.sealed(b"line\n")[:-1])


def test_a_line_is_taken_once_whole_and_in_its_place() -> None:
    one, other = both()
    first, second = (one.sealed(b"line\n")[:-1] for _ in range(2))
    assert other.opened(first) == b"line"
    with pytest.raises(ConnectionError):
        other.opened(first)
    _, other = both()
    with pytest.raises(ConnectionError):
        other.opened(second)
    code = first[: messages.CODE_LENGTH]
    for changed in (first + b"x", first[:-1], b"0" * messages.CODE_LENGTH + b"line", b"", code):
        _, other = both()
        with pytest.raises(ConnectionError):
            other.opened(changed)
