"""One end of a link: `python -m dlbench.launch.link_end` does what it is asked until nobody asks any more.

Requests come on standard input and answers go to standard output, each a line of JSON. It needs nothing but Python.

| `do` | request | answer |
| --- | --- | --- |
| way | to: a host | address, own, interface, is_loopback (`records.interfaces.Way`); empty where its name is unknown |
| own | interface: its name, or a network; empty: any | address |
| listen | address, token | port; then, once somebody has called, bandwidth_bytes_per_s, interface |
| stop | nothing: `listen` waits for no caller any more | none |
| call | address, port, token, own (empty: any) | latency_s, interface |

What cannot be done is answered with `error`.
"""

import contextlib
import hmac
import json
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from dlbench.launch import link_stream
from dlbench.records.interfaces import UnknownName, address_on, interface_of, way_to

# Before an answer: a shell that logs in may print anything.
MARK = "dlbench-link: "
# Nobody who still wants something is silent for so long; the connection to us may be gone without a word.
_IDLE_S = 900
_CONNECT_S = 5.0
_CALLED_S = 8.0
_WELCOME = b"k"

_Request = dict[str, Any]
_Answers = Iterator[dict[str, Any]]


def main() -> None:
    """Do what is asked, line by line."""
    for line in iter(_next_line, ""):
        request = json.loads(line)
        try:
            for answer in _DOES[request["do"]](request):
                _say(answer)
        except OSError as error:
            _say({"error": _told(error)})


def _next_line() -> str:
    signal.alarm(_IDLE_S)
    return sys.stdin.readline()


def _say(answer: dict[str, Any]) -> None:
    print(MARK + json.dumps(answer), flush=True)  # noqa: T201


def _told(error: OSError) -> str:
    return str(error.strerror or error or type(error).__name__)


def _way(request: _Request) -> _Answers:
    try:
        yield way_to(request["to"]).told()
    except UnknownName:
        yield {"address": "", "own": "", "interface": "", "is_loopback": False}


def _own(request: _Request) -> _Answers:
    yield {"address": address_on(request["interface"])}


def _listen(request: _Request) -> _Answers:
    with _server(request["address"]) as server:
        yield {"port": server.getsockname()[1]}
        with _caller(server, request["token"]) as connection:
            interface = interface_of(connection.getsockname()[0])
            yield {"bandwidth_bytes_per_s": link_stream.answer(connection), "interface": interface}


def _server(address: str) -> socket.socket:
    """Listen on the address that others call; on all where it is not ours but led to us, as behind a router."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, 0), family=family)
    except OSError:
        return socket.create_server(("", 0), family=family)


@contextlib.contextmanager
def _caller(server: socket.socket, token: str) -> Iterator[socket.socket]:
    """Yield the connection of whoever has the token; strangers are sent away.

    Raises:
        TimeoutError: Nobody came in time.
    """
    deadline = time.monotonic() + _CALLED_S
    while (left_s := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([server, sys.stdin], [], [], left_s)
        if server not in ready:
            break
        connection, _ = server.accept()
        with connection:
            link_stream.prepare(connection)
            if _has(connection, token):
                connection.sendall(_WELCOME)
                yield connection
                return
    raise TimeoutError(f"nobody called within {_CALLED_S:g} s")


def _has(connection: socket.socket, token: str) -> bool:
    with contextlib.suppress(OSError):
        return hmac.compare_digest(connection.recv(len(token), socket.MSG_WAITALL), token.encode())
    return False


def _stop(_: _Request) -> _Answers:
    yield from ()


def _call(request: _Request) -> _Answers:
    place, token = (request["address"], request["port"]), request["token"]
    source = (request["own"], 0) if request["own"] else None
    with socket.create_connection(place, timeout=_CONNECT_S, source_address=source) as connection:
        link_stream.prepare(connection)
        connection.sendall(token.encode())
        if connection.recv(1) != _WELCOME:
            raise ConnectionError("the other end sends callers away")
        interface = interface_of(connection.getsockname()[0])
        yield {"latency_s": link_stream.call(connection), "interface": interface}


_DOES: dict[str, Callable[[_Request], _Answers]] = {
    "way": _way,
    "own": _own,
    "listen": _listen,
    "stop": _stop,
    "call": _call,
}


if __name__ == "__main__":
    main()
