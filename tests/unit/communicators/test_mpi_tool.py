import os
from contextlib import suppress
from pathlib import Path

import pytest

from dlbench.communicators._mpi_tool import captured_stderr, loaded_library, other_lines, selected_components

PRINTED = """\
[vm:06499] coll:base:comm_select: new communicator: MPI COMM 3 DUP FROM 0 (cid 3)
[vm:06499] (3/MPI COMM 3 DUP FROM 0): no underlying reduce; disqualifying myself
[vm:06499] coll:base:comm_select: selecting          sm, priority   0, Disabled
[vm:06499] coll:base:comm_select: selecting       basic, priority  10, Enabled
something else
[vm:06499] coll:base:comm_select: selecting       tuned, priority 100, Enabled
"""


def test_enabled_components_in_order() -> None:
    assert selected_components(PRINTED) == ("basic", "tuned")
    assert selected_components("") == ()
    assert other_lines(PRINTED) == "something else\n"


def test_what_c_code_writes_is_captured_and_standard_error_comes_back(capfd: pytest.CaptureFixture[str]) -> None:
    with suppress(ValueError), captured_stderr() as captured:
        os.write(2, b"from below\n")
        raise ValueError
    os.write(2, b"afterwards\n")
    assert captured.text == "from below\n"
    assert capfd.readouterr().err == "afterwards\n"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("/opt/a b/lib/libmpi.so.40", "/opt/a b/lib/libmpi.so.40"),
        ("/usr/lib/libmpich.so.12.3.1", "/usr/lib/libmpich.so.12.3.1"),
        ("/usr/lib/libopen-pal.so.80", None),
        ("[heap]", None),
    ],
)
def test_the_library_is_found_among_the_mappings(tmp_path: Path, name: str, expected: str | None) -> None:
    maps = tmp_path / "maps"
    maps.write_text(f"7f00-7f10 r--p 00000000 fe:00 100    {name}\n7f10-7f20 rw-p 00000000 00:00 0\n")
    assert loaded_library(maps) == (expected and Path(expected))
