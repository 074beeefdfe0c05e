"""A telemetry server that misbehaves on demand: it drops connections, answers late, dies and comes back."""

import contextlib
import random
import socket
import threading
import time

from dlbench.records.assignment import Endpoint
from dlbench.scenario.run_spec import Limits
from dlbench.telemetry.messages import CODE_LENGTH, Seal, decode, encode, new_nonce
from tests.unit.launch import fakes

TOKEN = "secret"


class FakeServer:
    """Keeps what a worker sends, each number once and in order, as the real one does."""

    def __init__(self, drop_after_bytes=None):
        self.messages, self.beats, self.hellos, self.received_bytes = [], [], [], 0
        self.drop_after_bytes = drop_after_bytes
        self.dropped = self.replayed = self.acknowledged = 0
        self._random = random.Random(0)
        self._sockets, self._threads = set(), []
        self._listener, self.port = None, 0

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.die()

    def start(self):
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        self._spawn(self._accept, self._listener)

    def die(self):
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for connection in list(self._sockets):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()
        self._threads.clear()

    def assignment(self, **limits):
        return assignment(Endpoint(address="127.0.0.1", port=self.port, token=TOKEN), **limits)

    def of_kind(self, kind):
        return [message for message in self.messages if message["kind"] == kind]

    def _spawn(self, target, *arguments):
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self._sockets.add(connection)
            self._spawn(self._serve, connection)

    def _serve(self, connection):
        left = None if self.drop_after_bytes is None else self._random.randint(1, self.drop_after_bytes)
        rest = b""
        with contextlib.suppress(OSError), connection:
            nonce, seals = new_nonce(), None
            connection.sendall(encode({"nonce": nonce}))
            while data := connection.recv(4096 if left else 2**20):
                self.received_bytes += len(data)
                *lines, rest = (rest + data).split(b"\n")
                if lines and seals is None:
                    own = decode(lines[0][CODE_LENGTH:])["nonce"]
                    seals = Seal.pair(TOKEN, nonce, own)
                self._take(connection, [decode(seals[0].opened(line)) for line in lines], seals)
                if left is not None:
                    left -= len(data)
                    if left <= 0:
                        self.dropped += 1
                        break
        self._sockets.discard(connection)

    def _take(self, connection, messages, seals):
        for message in messages:
            if message["kind"] == "hello":
                self.hellos.append(message)
            elif message["kind"] == "beat":
                self.beats.append(message)
                continue
            elif message["seq"] == len(self.messages) + 1:
                self.messages.append(message)
            else:
                assert message["seq"] <= len(self.messages), "a number is missing"
                self.replayed += 1
        if not messages or all(message["kind"] == "beat" for message in messages):
            return
        # A connection that breaks takes acknowledgements with it: what they were for comes again.
        is_hello = messages[0]["kind"] == "hello"
        if self.drop_after_bytes is None or (not is_hello and self._random.random() < 0.5):
            self.acknowledged = len(self.messages)
        elif not is_hello:
            return
        connection.sendall(seals[1].sealed(encode({"ack": self.acknowledged})))


def assignment(endpoint=None, **limits):
    """Return the assignment of a run of one worker; `limits` are fields of `Limits`."""
    made = fakes.assignment()
    run = made.run.model_copy(
        update={"limits": Limits(**{"flush_interval_s": 0.02, "orphan_timeout_s": 60.0, **limits})}
    )
    return made.model_copy(update={"run": run, "attempt_id": f"test-{time.monotonic_ns()}", "endpoint": endpoint})


def wait_until(condition, timeout_s=60.0):
    """Wait for a condition; fail when it does not come."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


class Unwatched:
    """A watchdog that watches nothing."""

    def __init__(self, limits):
        pass

    def progress(self, mark):
        pass

    def contact(self, is_open, reason):
        pass

    def stop(self):
        pass
