"""Folders for what killed processes leave behind."""

import mmap
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dlbench import scratch


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Where temporary files and shared memory are."""
    temporary, memory = tmp_path / "tmp", tmp_path / "shm"
    for folder in (temporary, memory):
        folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(scratch, "_SHARED_MEMORY", memory)
    return temporary, memory


def left(*places: Path) -> list[str]:
    return sorted(path.name for place in places for path in place.glob("dlbench-*/*"))


def test_folders_are_private_and_stay_while_they_are_held(places: tuple[Path, Path]) -> None:
    variables = {"TMPDIR": "/elsewhere"}
    held = scratch.use(variables, temporary=True)
    temporary, memory = (Path(variables[name]) for name in ("TMPDIR", "OMPI_MCA_btl_sm_backing_directory"))
    assert (temporary.parents[1], memory.parents[1]) == places
    assert [path.stat().st_mode & 0o777 for path in (temporary, temporary.parent)] == [0o700, 0o700]
    (memory / "segment").write_text("x")
    scratch.sweep()
    assert (memory / "segment").exists()
    for descriptor in held:
        os.close(descriptor)
    scratch.sweep()
    assert left(*places) == []


def test_a_script_keeps_its_own_temporary_files(places: tuple[Path, Path]) -> None:
    variables: dict[str, str] = {}
    held = scratch.use(variables, temporary=False)
    assert list(variables) == ["OMPI_MCA_btl_sm_backing_directory"]
    assert left(places[0]) == []
    os.close(held[0])


def test_what_a_killed_process_held_is_removed_by_the_next(places: tuple[Path, Path]) -> None:
    code = (
        "import os, signal, sys, tempfile; from pathlib import Path; from dlbench import scratch\n"
        "tempfile.tempdir, scratch._SHARED_MEMORY = sys.argv[1], Path(sys.argv[2])\n"
        "scratch.use(os.environ, temporary=True); open(os.environ['TMPDIR'] + '/left', 'w').close()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, *map(str, places)], check=False)
    assert len(left(*places)) == 2
    scratch.sweep()
    assert left(*places) == []


def test_links_and_what_is_no_folder_are_left_alone(places: tuple[Path, Path], tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").touch()
    own = places[0] / f"dlbench-{os.getuid()}"
    own.mkdir(mode=0o700)
    (own / "scratch-link").symlink_to(mine)
    (own / "scratch-file").touch()
    scratch.sweep()
    assert left(places[0]) == ["scratch-file", "scratch-link"]
    assert (mine / "file").exists()


def test_segments_of_mpich_that_nobody_maps_are_removed(places: tuple[Path, Path]) -> None:
    mapped, left_over, other = (places[1] / name for name in ("mpich_shm_1_0", "mpich_shm_2_0", "of_somebody"))
    for path in (mapped, left_over, other):
        path.write_bytes(bytes(mmap.PAGESIZE))
    with mapped.open("r+b") as file, mmap.mmap(file.fileno(), 0):
        scratch.sweep()
        assert [path.exists() for path in (mapped, left_over, other)] == [True, False, True]
    scratch.sweep()
    assert [path.exists() for path in (mapped, other)] == [False, True]


def test_without_a_place_the_variables_stay(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_SHARED_MEMORY", places[1] / "absent")
    variables = {"TMPDIR": "/elsewhere"}
    held = scratch.use(variables, temporary=False)
    assert (variables, held) == ({"TMPDIR": "/elsewhere"}, [])
