"""Rendering in other processes: the same bytes, errors where the result is asked for, and killed processes."""

import contextlib
import multiprocessing
from functools import partial
from pathlib import Path

import pytest

from dlbench.report.rendering import pool
from dlbench.report.rendering.pool import RenderPool, Task, render
from tests.unit.report.charts import bars, lines


def element(style: str = "light", paths: tuple[Path, ...] = ()) -> Task:
    return partial(render, lines(), style, paths, page_id="one")


def files(folder: Path, name: str = "one") -> Task:
    folder.mkdir(exist_ok=True)
    return partial(render, bars(), "light", (folder / f"{name}.png", folder / f"{name}.svg"), "A caption.")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_processes_render_the_same_until_they_are_killed(tmp_path: Path) -> None:
    with RenderPool(0) as here:
        drawn = here.submit(element())()
        assert here.submit(files(tmp_path / "here"))() == ""
    with RenderPool(2) as others:
        rendered = [others.submit(files(tmp_path / "others", name)) for name in ("one", "two")]
        missing = others.submit(element(paths=(tmp_path / "absent" / "x.png",)))
        unknown = others.submit(element("absent"))
        assert others.submit(element())() == drawn
        assert [one() for one in rendered] == [""] * 2
        with pytest.raises(FileNotFoundError):
            missing()
        with pytest.raises(Exception, match="there is no style"):
            unknown()
        found = contents(tmp_path / "others")
        assert sorted(found) == ["one.png", "one.svg", "two.png", "two.svg"]
        assert {name: found[name] for name in ("one.png", "one.svg")} == contents(tmp_path / "here")
        for child in multiprocessing.active_children():
            child.kill()
        assert others.submit(files(tmp_path / "after"))() == ""
    assert len(contents(tmp_path / "after")) == 2


def test_after_a_mistake_no_process_is_left() -> None:
    before = set(multiprocessing.active_children())
    with contextlib.suppress(KeyError), RenderPool(1) as found:
        for _ in range(50):
            found.submit(element())
        raise KeyError
    assert set(multiprocessing.active_children()) == before


def test_where_no_process_can_be_started_this_one_renders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no room for a process")

    monkeypatch.setattr(pool.ProcessPoolExecutor, "submit", refuse)
    with RenderPool(2) as found:
        assert found.submit(files(tmp_path / "there"))() == ""
    assert len(contents(tmp_path / "there")) == 2
