"""Standard streams: control characters are spelled out, and dlbench goes on where a stream is closed, full or gone."""

import contextlib
import io
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TextIO, cast

from dlbench.errors import spelled

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STREAMS = 3


class PlainText:
    """A text stream in which control characters are spelled out.

    Attributes:
        rich_proxied_file: The stream below: what rich draws with it is written there (`tables.console`).
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Write a text."""
        self.rich_proxied_file.write(spelled(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextlib.contextmanager
def plain_text() -> Iterator[None]:
    """Spell out control characters in all that is printed: studies, logs and names come from other people, too."""
    output, errors = (cast("TextIO", PlainText(stream)) for stream in (sys.stdout, sys.stderr))
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        yield


class Output(io.FileIO):
    """A standard stream whose failure is noted, not raised: a study is not ended by a disk that its output lies on.

    Attributes:
        lost: Why something could not be written; None while all could.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self.lost: OSError | None = None

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write bytes, or note why they cannot be written."""
        try:
            return super().write(data)
        except BlockingIOError:
            raise
        except OSError as error:
            self.lost = self.lost or error
            return memoryview(data).nbytes


def open_streams() -> Output:
    """Make standard output and error usable whatever they are; return the output.

    A stream that is closed leads nowhere from then on: else its number would be that of the next file that is opened,
    and what a program prints would be written into a table.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < _STREAMS:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    output, errors = Output(1), Output(2)
    sys.stdout, sys.stderr = _text(output), _text(errors)
    return output


def _text(raw: Output) -> io.TextIOWrapper:
    """Return a text stream like the one Python opens; what its encoding lacks is spelled out."""
    is_terminal = raw.isatty()
    encoding = getattr(sys.stdout, "encoding", None)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=encoding, errors="backslashreplace", line_buffering=is_terminal
    )
