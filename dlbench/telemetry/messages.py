"""The protocol: JSON lines over TCP from each worker to the telemetry server, acknowledged once they are on disk.

The server opens with `{"nonce": "..."}`, the client answers with a hello that has its own nonce. From the hello on
every line of both sides is sealed (`Seal`): it shows that its sender knows the attempt's token, which itself is never
sent. The server answers the hello with `{"ack": n}`: the highest sequence number it holds of this worker, 0 at first.
Then the client sends lines; each journaled one carries `seq`, counting from 1 without gaps. The server checks it
(`dlbench.telemetry.line_check`), appends it to the attempt's `journal.jsonl` (with `worker` added), forces it to disk,
and answers `{"ack": n}`. After a broken connection the client says hello again and sends everything after the
acknowledged number; the server drops what it holds already. `beat` has no number, is not journaled and not
acknowledged: it is the heartbeat.

Kinds of lines, all with `kind`:

| kind | fields | journaled |
| --- | --- | --- |
| hello | nonce, attempt_id, worker (rank), pid, host, version (`PROTOCOL_VERSION`), oom_kills (see `cgroups`) | no |
| beat | phase, step, epoch, loss, accuracy, samples_per_s (null where unknown) | no |
| steps | rows: text of [n, len(STEP_FIELDS)] little-endian float64, see `pack_steps` | yes |
| epoch | row: the columns of `epochs.csv` after `worker`, by name | yes |
| batch_change | row: the columns of `batch_changes.csv` after `attempt`, by name; of worker 0 alone | yes |
| sensors | rows: [[at_s, sensor, quantity, value], ...] | yes |
| facts | facts: anything known once, by column name or `worker.*` key (versions, device, counted threads) | yes |
| error | error: one line, traceback: text, out_of_memory: bool, status: where the error names one | yes |
| result | result: what the worker hands in at its end (see `dlbench.records.result`) | yes |
| bye | nothing: the worker ended as it should and every line before is sent | yes |
"""

import base64
import hmac
import json
import secrets
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dlbench.errors import printable
from dlbench.records.columns import STEP_FIELDS

PROTOCOL_VERSION = 3

# Rows of one message: a block of steps holds some thousands. Rows whose columns all stay need no bytes to be claimed.
MOST_ROWS = 2**17

# Phases of a worker, in the heartbeat; the stall check names the worker that is in none in which others wait. Start-up
# goes through its phases once, in this order.
START_UP_PHASES = ("start", "rendezvous", "build", "broadcast")
TRAINING_PHASES = (
    "data", "compute", "all_reduce", "update", "serve", "barrier", "agree", "compile", "evaluate", "checkpoint",
    "script", "finish", "done",
)  # fmt: skip
PHASES = START_UP_PHASES + TRAINING_PHASES
# That of a script without the hook: nothing is known of how far it is.
SCRIPT_PHASE = "script"

# Begins the text of rows sent column by column: after their number (4 bytes) and a byte for each field (varying,
# constant, or counting up by one) come the first numbers of the fields that do not vary, then the columns of those
# that do. Without this mark, which is no base64 character, a text is plain rows.
COMPACT = "~"
_VARYING, _CONSTANT, _COUNTED = 0, 1, 2

# The two sides of a connection.
WORKER, SERVER = "worker", "server"
# Characters of the code before each line.
CODE_LENGTH = 32


def encode(message: dict[str, Any]) -> bytes:
    """Return one message as a line of JSON; numbers that are not finite become null."""
    try:
        return json.dumps(message, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    except ValueError:
        finite = _changed(message, lambda it: None if isinstance(it, float) and not np.isfinite(it) else it)
        return json.dumps(finite, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Return the message of one line; its texts can be written and shown (`errors.printable`).

    Raises:
        ValueError: The line is not a JSON object in UTF-8, or has a number that is none of 64 bits.
    """
    message: dict[str, Any] = json.loads(line.decode(), parse_int=_whole, parse_constant=_no_number)
    if not isinstance(message, dict):
        raise ValueError("a message is a JSON object")
    if message.get("kind") != "steps":
        message = _changed(message, lambda it: printable(it) if isinstance(it, str) else it)
    return message


def _whole(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        raise ValueError("a whole number is beyond 64 bits")
    return int(text)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a value of JSON in which all keys, texts and numbers are changed."""
    if isinstance(value, dict):
        return {change(key): _changed(item, change) for key, item in value.items()}
    return [_changed(item, change) for item in value] if isinstance(value, list | tuple) else change(value)


def encode_steps(number: int, rows: npt.NDArray[np.float64]) -> bytes:
    """Return the line of step rows [n, len(STEP_FIELDS)]: what `encode` would, without a look at every character."""
    return b'{"seq":%d,"kind":"steps","rows":"%b"}\n' % (number, pack_steps(rows))


def pack_steps(rows: npt.NDArray[np.float64]) -> bytes:
    """Return step rows [n, len(STEP_FIELDS)] as ASCII text, bit for bit; see `COMPACT`."""
    # At tens of thousands of rows a second every pass over them counts.
    rows = np.ascontiguousarray(rows, dtype="<f8")
    if len(rows) < 2:
        return base64.b64encode(rows.tobytes())
    columns = rows.T
    kinds = np.array([_kind(column) for column in columns], dtype="u1")
    header = np.array(len(rows), "<u4").tobytes() + kinds.tobytes()
    numbers = rows[0, kinds != _VARYING].tobytes() + columns[kinds == _VARYING].tobytes()
    return COMPACT.encode() + base64.b64encode(header + numbers)


def unpack_steps(text: str) -> npt.NDArray[np.float64]:
    """Return the step rows [n, len(STEP_FIELDS)] of a text made by `pack_steps`.

    Raises:
        ValueError: It is no such text, or not all of it, or claims more than `MOST_ROWS`.
    """
    content = base64.b64decode(text.removeprefix(COMPACT), validate=True)
    num_fields = len(STEP_FIELDS)
    if not text.startswith(COMPACT):
        numbers = np.frombuffer(content, dtype="<f8")
        if len(numbers) % num_fields:
            raise ValueError("rows of steps are cut short")
        return numbers.reshape(-1, num_fields)
    num_rows = int(np.frombuffer(content, "<u4", 1)[0])
    kinds = np.frombuffer(content, "u1", num_fields, offset=4)
    numbers = np.frombuffer(content, "<f8", offset=4 + num_fields)
    num_varying = int(np.count_nonzero(kinds == _VARYING))
    if num_rows > MOST_ROWS:
        raise ValueError(f"{num_rows:,} rows of steps are claimed in one message")
    if (kinds > _COUNTED).any() or len(numbers) != num_fields - num_varying + num_varying * num_rows:
        raise ValueError("rows of steps are not what their head says")
    first, varying = np.split(numbers, [num_fields - num_varying])
    rows = np.empty((num_rows, num_fields))
    rows[:, kinds != _VARYING] = first
    rows[:, kinds == _COUNTED] += np.arange(num_rows)[:, np.newaxis]
    rows[:, kinds == _VARYING] = varying.reshape(-1, num_rows).T
    return rows


def _kind(column: npt.NDArray[np.float64]) -> int:
    """Return whether a column of at least two numbers varies, stays, or counts up by one: bit for bit."""
    bits = column.view("<u8")
    if bits[0] == bits[1]:
        return _CONSTANT if (bits == bits[0]).all() else _VARYING
    if float(column[1]) - float(column[0]) != 1:
        return _VARYING
    counted = column[0] + np.arange(len(column), dtype="<f8")
    return _COUNTED if (bits == counted.view("<u8")).all() else _VARYING


def new_nonce() -> str:
    """Return 128 random bits, in hexadecimal digits."""
    return secrets.token_hex(16)


class Seal:
    """The lines of one direction of one connection, in order, each preceded by a code that needs the attempt's token.

    Each connection has a nonce of either side, and each direction a key that is made from the token and both nonces.
    The code is the first 128 bits of an HMAC (RFC 2104) over the line's number and its bytes. Whoever is between the
    two can neither speak as one of them, nor repeat a line on this or another connection, nor leave one out; they can
    read, and cut the connection.

    Args:
        token: What both sides know.
        server_nonce: The server's, of this connection.
        worker_nonce: The worker's.
        sender: Whose lines these are: `WORKER` or `SERVER`.
    """

    def __init__(self, token: str, server_nonce: str, worker_nonce: str, sender: str) -> None:
        context = " ".join(("dlbench telemetry", sender, server_nonce, worker_nonce))
        self._key = hmac.digest(token.encode(), context.encode(), "sha256")
        self._count = 0

    @classmethod
    def pair(cls, token: str, server_nonce: str, worker_nonce: str) -> tuple[Self, Self]:
        """Return the seals of a connection: of what the worker sends, and of what the server sends."""
        return cls(token, server_nonce, worker_nonce, WORKER), cls(token, server_nonce, worker_nonce, SERVER)

    def sealed(self, line: bytes) -> bytes:
        """Return the next line, which ends with a newline, with its code before it."""
        return self._code(line[:-1]) + line

    def opened(self, line: bytes) -> bytes:
        """Return what the next line says, without its code; the line comes without its newline.

        Raises:
            ConnectionError: It was not sealed by the other side, or is not the next of its lines.
        """
        content = line[CODE_LENGTH:]
        if not hmac.compare_digest(line[:CODE_LENGTH], self._code(content)):
            raise ConnectionError("a line that is not sealed by the other side")
        return content

    def _code(self, content: bytes) -> bytes:
        self._count += 1
        return hmac.digest(self._key, b"%d %b" % (self._count, content), "sha256").hex().encode()[:CODE_LENGTH]
