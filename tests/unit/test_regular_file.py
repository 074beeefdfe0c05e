"""A pipe, a device or a folder in the place of a file is refused at once."""

import os
import socket
from pathlib import Path

import pytest

from dlbench.errors import UserError
from dlbench.records.tables import read_table
from dlbench.regular_file import is_file, read_json, read_regular
from dlbench.scenario import reference
from dlbench.scenario.read.scenario_file import read


def test_a_file_and_a_link_to_one_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    (tmp_path / "b").symlink_to("a")
    assert read_regular(tmp_path / "a") == read_regular(tmp_path / "b") == b"text"
    assert read_regular(tmp_path / "a", 2) == b"te"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for path in (tmp_path / "pipe", tmp_path / "link", tmp_path / "socket", tmp_path, Path("/dev/zero")):
            before = len(list(Path("/proc/self/fd").iterdir()))
            with pytest.raises(OSError):
                read_regular(path)
            assert len(list(Path("/proc/self/fd").iterdir())) == before, "no descriptor stays open"


def test_a_word_that_can_be_no_path_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    words = [str(tmp_path / "a"), str(tmp_path / "b"), "x" * 5_000, "a\0b", "\ud800", ""]
    assert list(map(is_file, words)) == [True, False, False, False, False, False]


def test_json_of_any_kind(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": [1]}')
    assert read_json(path) == {"a": [1]}
    for content in (b"{", b"\xff", b"[" * 100_000):
        path.write_bytes(content)
        with pytest.raises(ValueError):
            read_json(path)


@pytest.mark.parametrize("name", ["s.yaml", "reference.csv", "runs.csv"])
def test_nothing_waits_for_a_pipe(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    readers = {"s.yaml": read, "reference.csv": reference.read, "runs.csv": read_table}
    with pytest.raises(UserError, match="it is a pipe or a device"):
        readers[name](tmp_path / name)
