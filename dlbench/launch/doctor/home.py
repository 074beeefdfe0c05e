"""This machine as hosts call it: a port on which anybody may ask for the time, open while hosts are asked."""

import contextlib
import socket
import threading
import time
from typing import Self

_LISTENING_S = 0.2
_SILENCE_S = 5.0
_LONGEST_LINE = 64


class Home:
    """Answers each line with the time (seconds since 1970, by this machine's clock), as long as it is open."""

    def __init__(self, address: str = "") -> None:
        self._listener = socket.create_server((address, 0), backlog=512)
        self._listener.settimeout(_LISTENING_S)
        self._is_closing = False
        self._thread = threading.Thread(target=self._serve, name="home", daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closing = True
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while not self._is_closing:
            with contextlib.suppress(OSError):
                connection, _ = self._listener.accept()
                threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    """Tell one caller the time for each line."""
    with connection, contextlib.suppress(OSError):
        connection.settimeout(_SILENCE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection.makefile("rwb", buffering=0) as lines:
            while lines.readline(_LONGEST_LINE):
                lines.write(f"{time.time():.6f}\n".encode())
