"""Silences imports that write to file descriptor 2, which no log level stops."""

import os
import shutil
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
            with open(2, "wb", closefd=False) as stderr:
                shutil.copyfileobj(held_back, stderr)
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
