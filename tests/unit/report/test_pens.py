"""Drawing in other processes: the same bytes, errors where the result is asked for, and nobody missed who dies."""

import contextlib
import sys
import time
from pathlib import Path

import pytest

from dlbench.report import pen, pens
from dlbench.report.pen import Task
from dlbench.report.pens import Pens
from tests.unit.report.charts import hostile, lines


def files(folder: Path, name: str = "one") -> Task:
    folder.mkdir(exist_ok=True)
    return Task(name, hostile(), "light", (folder / f"{name}.png", folder / f"{name}.svg"), "A caption.")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_other_processes_draw_the_same(tmp_path: Path) -> None:
    with Pens(1) as here, Pens(2) as others:
        here.draw(files(tmp_path / "here")).result().get()
        drawn = [others.draw(files(tmp_path / "others", name)) for name in ("one", "two", "three")]
        assert {one.result().get() for one in drawn} == {""}
    found = contents(tmp_path / "others")
    assert sorted(found) == ["one.png", "one.svg", "three.png", "three.svg", "two.png", "two.svg"]
    assert {name: found[name] for name in ("one.png", "one.svg")} == contents(tmp_path / "here")


def test_other_processes_return_the_same_element() -> None:
    with Pens(1) as here, Pens(2) as others:
        elements = [pens.draw(Task("one", hostile(), "page")).result().get() for pens in (here, others)]
    assert elements[0] == elements[1]
    assert elements[0].startswith("<svg")


def test_nothing_but_drawing_is_done_by_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pen, "draw", lambda task: pytest.fail("drawn here"))
    with Pens(2) as others:
        others.draw(files(tmp_path / "there")).result().get()


@pytest.mark.parametrize("count", [1, 2])
def test_what_cannot_be_written_is_raised_where_the_result_is_asked_for(tmp_path: Path, count: int) -> None:
    with Pens(count) as found:
        wrong = found.draw(Task("x", lines(), "light", (tmp_path / "absent" / "x.png",)))
        right = found.draw(files(tmp_path / "there"))
        with pytest.raises(FileNotFoundError):
            wrong.result().get()
        assert right.result().error == ""


def test_what_nobody_expected_is_raised_with_its_trace() -> None:
    with Pens(2) as found, pytest.raises(RuntimeError, match="there is no style"):
        found.draw(Task("x", lines(), "absent")).result().get()


def test_after_a_mistake_nobody_waits_for_pictures(tmp_path: Path) -> None:
    started, found = time.monotonic(), Pens(2)
    with contextlib.suppress(KeyError), found:
        begun = [found.draw(files(tmp_path / "there", str(number))) for number in range(200)]
        raise KeyError
    assert time.monotonic() - started < 60
    assert all(one.cancelled() or one.result().error == "given up" for one in begun[10:])


def test_processes_that_die_are_missed_by_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pens, "PROGRAM", (sys.executable, "-c", "raise SystemExit(3)"))
    with Pens(2) as found:
        drawn = [found.draw(files(tmp_path / "there", name)) for name in ("one", "two", "three")]
        assert [one.result().get() for one in drawn] == [""] * 3
    assert len(contents(tmp_path / "there")) == 6


def test_where_no_process_can_be_started_this_one_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pens, "PROGRAM", (str(tmp_path / "absent"),))
    with Pens(2) as found:
        assert found.draw(files(tmp_path / "there")).result().get() == ""
    assert len(contents(tmp_path / "there")) == 2
