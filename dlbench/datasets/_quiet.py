"""Silences imports that write to file descriptor 2, which no log level stops."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Hold back what is written to file descriptor 2; write it out only if the block fails."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as held_back:
        os.dup2(held_back.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(kept, 2)
            held_back.seek(0)
            _write_all(2, held_back.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _write_all(descriptor: int, text: bytes) -> None:
    while text:
        text = text[os.write(descriptor, text) :]
