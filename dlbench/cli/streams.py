"""Standard streams that are closed, full or gone: dlbench goes on without them, and its exit code says so."""

import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STREAMS = 3


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
