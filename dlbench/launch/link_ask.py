"""Asking an end of a link: the program `dlbench.launch.link_end`, kept running on a host while links are measured."""

import contextlib
import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from dlbench.launch.link_end import MARK
from dlbench.launch.remote import argv, elsewhere, problem_of
from dlbench.scenario.cluster import Cluster

_PROGRAM = ("-m", "dlbench.launch.link_end")
# Longer than the program takes over anything: it says itself what goes wrong, and ssh that a host is down.
ANSWER_S = 15.0
_END_S = 0.5


class LinkError(Exception):
    """An end cannot do what it was asked; the text says why."""


class End:
    """One end: the program on a host, and what it has printed so far.

    Args:
        words: The command that starts it, over ssh or here.
        python: The interpreter it runs in.
    """

    def __init__(self, words: Sequence[str], python: str) -> None:
        self._python = python
        self._printed = b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the end
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            self._errors.close()
            raise LinkError(f"{words[0]} cannot be started: {error.strerror or error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """Return the answer to a request.

        Raises:
            LinkError: It cannot be done, or the end does not answer.
        """
        self._send({"do": do, **request})
        return self.answer()

    def give_up(self) -> None:
        """Have it wait for no caller any more."""
        self._send({"do": "stop"})
        with contextlib.suppress(LinkError):
            self.answer()

    def _send(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, as its silence will show
            self._process.stdin.write(json.dumps(request).encode() + b"\n")

    def answer(self) -> dict[str, Any]:
        """Return the next answer.

        Raises:
            LinkError: It is an error, or does not come.
        """
        deadline = time.monotonic() + ANSWER_S
        while True:
            for line in self._lines(deadline):
                _, mark, text = line.partition(MARK)
                if mark:
                    return _without_error(json.loads(text))

    def _lines(self, deadline: float) -> Iterator[str]:
        """Yield the lines that are complete; wait for more where none is.

        Raises:
            LinkError: The program has ended, or time is over.
        """
        while b"\n" not in self._printed:
            self._printed += self._read(deadline)
        line, _, self._printed = self._printed.partition(b"\n")
        yield line.decode(errors="replace")

    def _read(self, deadline: float) -> bytes:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise LinkError(f"no answer within {ANSWER_S:g} s")
        data = os.read(self._process.stdout.fileno(), 1 << 16)
        if not data:
            raise LinkError(self._end())
        return data

    def _end(self) -> str:
        """Return why the program has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace")
        return problem_of(self._process.returncode or 0, said, self._python)

    def close(self) -> None:
        """End the program: it ends by itself when nobody can ask any more."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()


def _without_error(answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in answer:
        raise LinkError(answer["error"])
    return answer


@contextlib.contextmanager
def ends(cluster: Cluster, environment: Mapping[str, str], python: str) -> Iterator[list[End | LinkError]]:
    """Yield an end on every host, in order, or why there is none; all are started at once."""
    others = elsewhere(cluster)
    with contextlib.ExitStack() as opened:
        found: list[End | LinkError] = []
        for host in cluster.hosts:
            over_ssh = argv(cluster, host, _PROGRAM, environment, python)
            try:
                end = End(over_ssh if host in others else [python, *_PROGRAM], python)
                found.append(opened.enter_context(end))
            except LinkError as error:
                found.append(error)
        yield found
