import io
from pathlib import Path

import pytest
from rich.console import Console

from dlbench.cli.live import Course, LiveTable, PlainLines, drawn, shown_end, shown_time
from dlbench.launch.execute import Progress, WorkerProgress
from dlbench.records.outcome import Outcome, Status
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def runs(count: int = 3) -> list[RunSpec]:
    return [RunSpec(scenario="s", label="[red]x", repeat=repeat, settings=Settings()) for repeat in range(count)]


def progress(elapsed_s: float = 1.0) -> Progress:
    worker = WorkerProgress(0, "compute", 12, 1, 0.5, None, 99.5, 0.1)
    return Progress(elapsed_s, (worker, WorkerProgress(1, "", None, None, None, None, None, None)))


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0.4, "0 s"), (59.4, "59 s"), (61, "1 min 01 s"), (3725, "1 h 02 min")]
)
def test_durations(seconds, text):
    assert shown_time(seconds) == text


def test_time_left_comes_from_the_runs_that_have_ended():
    clock, course = Clock(), Course()
    course.clock = clock
    course.begin(runs(4), done=2)
    assert (course.total, course.time_left_s()) == (6, None)
    course.start(runs()[0], 1)
    course.end(runs()[0], Outcome(status=Status.COMPLETED, wall_time_s=10.0))
    assert course.time_left_s() == 30.0
    course.start(runs()[1], 1)
    clock.now = 4.0
    assert course.time_left_s() == 26.0
    course.end(runs()[1], Outcome(status=Status.FAILED, wall_time_s=1000.0))
    assert course.time_left_s() == 20.0


def test_plain_lines_say_starts_ends_and_now_and_then_how_far_it_is():
    lines, clock = [], Clock()
    plain = PlainLines(lines.append, clock)
    plain.begin(Path("a study"), runs(), 1)
    plain.start(runs()[0], 2)
    for moment in range(25):
        clock.now = float(moment)
        plain.progress(progress(moment))
    plain.end(runs()[0], Outcome(status=Status.FAILED, reason="worker 1: no\nmore", wall_time_s=25), {})
    assert lines[0] == "study a study: 3 runs to make, 1 of 4 are done already"
    assert lines[1].startswith("[2/4] ")
    assert lines[1].endswith("[red]x, repeat 0, attempt 2")
    assert lines[2] == "  10 s: worker 0 (compute) epoch 1 step 12 loss 0.5000 99.5 samples/s; worker 1 (-)"
    assert lines[4] == "  failed after 25.0 s: worker 1: no"
    assert len(lines) == 5


def test_what_a_run_found_is_in_its_line():
    row = {"samples_per_s": 10.25, "validation_accuracy": 0.5, "validation_loss": 1.0}
    line = shown_end(Outcome(status=Status.COMPLETED, wall_time_s=2.0), row)
    assert line == "completed after 2.0 s, 10.2 samples/s, validation accuracy 0.5000, loss 1.0000"


def test_the_live_table_shows_workers_and_takes_names_for_text():
    stream = io.StringIO()
    console = Console(file=stream, width=120, force_terminal=True, color_system=None)
    with LiveTable(console) as table:
        table.say("[bold]not markup[/bold]")
        table.begin(Path("[red]study"), runs(), 0)
        table.start(runs()[0], 1)
        table.progress(progress())
        table.end(runs()[0], Outcome(status=Status.COMPLETED), {})
    shown = stream.getvalue()
    assert all(text in shown for text in ("[bold]not markup[/bold]", "[red]study", "[red]x", "compute", "99.5", "1/3"))


def test_many_workers_are_counted_not_listed():
    course = Course()
    course.begin(runs(), 0)
    course.start(runs()[0], 1)
    course.progress = Progress(1.0, progress().workers * 20)
    console = Console(file=io.StringIO(), width=120)
    console.print(drawn(course))
    assert "and 24 more workers" in console.file.getvalue()
