"""What a loaded MPI library does: control variables through MPI_T, and the components it selected.

MPI_T (MPI 3.1, chapter 14) is the standard's own way to read effective values; mpi4py does not wrap it, so ctypes
calls it in the library that is loaded already.
"""

import ctypes
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TEXT = 256
_SELECTED = re.compile(r"coll:base:comm_select: selecting +(\S+), priority +-?\d+, (Enabled|Disabled)")
_SELECTION_LINE = re.compile(r"coll:base:comm_select: |no underlying reduce; disqualifying myself")


def loaded_library(maps: Path = Path("/proc/self/maps")) -> Path | None:
    """Return the file of the MPI library among a process's memory mappings (proc(5)), None where there is none."""
    match = re.search(r"(/.*/libmpi[\w-]*\.so[.\d]*)$", maps.read_text(), re.MULTILINE)
    return Path(match[1]) if match else None


def library_version(library: Path) -> str:
    """Return the version text of a loaded MPI library; MPI need not have been started (MPI 3.1, 8.1.1)."""
    text, length = ctypes.create_string_buffer(8192), ctypes.c_int()
    ctypes.CDLL(str(library)).MPI_Get_library_version(text, ctypes.byref(length))
    return text.value.decode(errors="replace")


class ControlVariables:
    """The effective values of an MPI library's control variables, read through MPI_T after MPI_Init.

    Args:
        library: The file of the library, loaded already.
        thread_level: What MPI_Query_thread says: Open MPI 5 takes the level given to MPI_T for that of MPI itself.
    """

    def __init__(self, library: Path, thread_level: int) -> None:
        self._mpi = ctypes.CDLL(str(library))
        self._thread_level = thread_level

    def read(self, name: str) -> str | None:
        """Return a variable's value as text, an enumerated one by its name; None where there is no such variable."""
        provided = ctypes.c_int()
        self._call("init_thread", self._thread_level, ctypes.byref(provided))
        try:
            index = ctypes.c_int()
            if self._mpi.MPI_T_cvar_get_index(name.encode(), ctypes.byref(index)) != 0:
                return None
            return self._value(index)
        finally:
            self._call("finalize")

    def _value(self, index: ctypes.c_int) -> str:
        is_text, enumeration = self._kind(index)
        handle, count = ctypes.c_void_p(), ctypes.c_int()
        self._call("cvar_handle_alloc", index, None, ctypes.byref(handle), ctypes.byref(count))
        try:
            buffer = ctypes.create_string_buffer(max(_TEXT, 8 * count.value) + 1)
            self._call("cvar_read", handle, buffer)
        finally:
            self._call("cvar_handle_free", ctypes.byref(handle))
        if is_text:
            return buffer.value.decode(errors="replace")
        number = ctypes.c_int.from_buffer(buffer).value
        return self._item(enumeration, number) or str(number)

    def _kind(self, index: ctypes.c_int) -> tuple[bool, ctypes.c_void_p]:
        """Return whether a variable is text, and its enumeration."""
        datatype, enumeration = ctypes.c_void_p(), ctypes.c_void_p()
        lengths = [ctypes.c_int(_TEXT), ctypes.c_int(_TEXT)]
        texts = [ctypes.create_string_buffer(_TEXT) for _ in lengths]
        numbers = [ctypes.c_int() for _ in range(3)]  # verbosity, binding, scope
        self._call(
            "cvar_get_info",
            index, texts[0], ctypes.byref(lengths[0]), ctypes.byref(numbers[0]), ctypes.byref(datatype),
            ctypes.byref(enumeration), texts[1], ctypes.byref(lengths[1]), *map(ctypes.byref, numbers[1:]),
        )  # fmt: skip
        text_type = ctypes.addressof(ctypes.c_char.in_dll(self._mpi, "ompi_mpi_char"))
        return datatype.value == text_type, enumeration

    def _item(self, enumeration: ctypes.c_void_p, number: int) -> str | None:
        """Return the name of an enumeration's value, None where it has none."""
        if not enumeration.value:
            return None
        items, length = ctypes.c_int(), ctypes.c_int(_TEXT)
        text = ctypes.create_string_buffer(_TEXT)
        self._call("enum_get_info", enumeration, ctypes.byref(items), text, ctypes.byref(length))
        for index in range(items.value):
            value, length = ctypes.c_int(), ctypes.c_int(_TEXT)
            self._call("enum_get_item", enumeration, index, ctypes.byref(value), text, ctypes.byref(length))
            if value.value == number:
                return text.value.decode(errors="replace")
        return None

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._mpi, f"MPI_T_{name}")(*arguments)
        if code != 0:
            raise RuntimeError(f"MPI_T_{name} failed with code {code}")


class Captured:
    """The text written to standard error; complete when the block has ended."""

    text = ""


@contextmanager
def captured_stderr() -> Iterator[Captured]:
    """Collect what this process writes to file descriptor 2, C libraries included."""
    captured = Captured()
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield captured
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            captured.text = file.read().decode(errors="replace")


def selected_components(text: str) -> tuple[str, ...]:
    """Return the collective components that Open MPI enabled for a communicator, the first asked last."""
    return tuple(name for name, state in _SELECTED.findall(text) if state == "Enabled")


def other_lines(text: str) -> str:
    """Return the lines that are not about the selection of components: they belong in the log."""
    return "".join(line for line in text.splitlines(keepends=True) if not _SELECTION_LINE.search(line))
