import io
from pathlib import Path

from rich.console import Console

from dlbench.cli.live import Display, LiveTable, PlainLines, shown_end
from dlbench.launch.execute import Progress
from dlbench.records.outcome import Outcome, Status
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.study.budget import Durations
from dlbench.telemetry.attempt_session import WorkerView


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def runs(count: int = 3) -> list[RunSpec]:
    return [RunSpec(scenario="s", label="[red]x", repeat=repeat, settings=Settings()) for repeat in range(count)]


def progress(elapsed_s: float = 1.0, times: int = 1) -> Progress:
    worker = WorkerView(0, phase="compute", step=12, epoch=1, loss=0.5, samples_per_s=99.5)
    return Progress(elapsed_s, (worker, WorkerView(1)) * times)


def test_time_left_comes_from_the_runs_that_have_ended() -> None:
    clock = Clock()
    display, durations = Display(clock), Durations()
    display.begin(Path("s"), runs(4), 2, durations)
    assert (display.total, display.time_left_s()) == (6, None)
    display.start(runs()[0], 1)
    durations.add(runs()[0].run_id, Status.COMPLETED, 10.0)
    display.end(runs()[0], Outcome(status=Status.COMPLETED, wall_time_s=10.0), {})
    assert display.time_left_s() == 30.0
    display.start(runs()[1], 1)
    clock.now = 4.0
    assert display.time_left_s() == 26.0
    clock.now = 60.0  # 50 s late
    assert display.time_left_s() == 70.0
    display.end(runs()[1], Outcome(status=Status.FAILED, wall_time_s=1000.0), {})
    assert display.time_left_s() == 20.0


def test_plain_lines_show_starts_ends_and_every_ten_seconds_how_far_it_is() -> None:
    lines: list[str] = []
    clock = Clock()
    plain = PlainLines(lines.append, clock)
    plain.begin(Path("a study"), runs(), 1, Durations())
    plain.start(runs()[0], 2)
    for moment in range(25):
        clock.now = float(moment)
        plain.progress(progress(moment))
    plain.end(runs()[0], Outcome(status=Status.FAILED, reason="worker 1: no\nmore", wall_time_s=25), {})
    assert lines[0] == "study a study: 3 runs to make, 1 of 4 are done already"
    assert lines[1].startswith("[2/4] ")
    assert lines[1].endswith("[red]x, repeat 0, attempt 2")
    assert lines[2] == "  10 s: worker 0 (compute) epoch 1 step 12 step loss 0.500 99.5 samples/s now; worker 1 (-)"
    assert lines[4] == "  failed after 25.0 s: worker 1: no"
    (run_id, attempt) = (runs()[0].run_id, 2)
    assert lines[5] == f"  logs: a study/runs/{run_id}/{attempt}"
    assert lines[6] == f"  shown by: dlbench logs {run_id} --study 'a study'"
    assert len(lines) == 7


def test_what_a_run_found_is_in_its_line() -> None:
    row = {"samples_per_s": 10.25, "validation_accuracy": 0.5, "validation_loss": 1.0}
    line = shown_end(Outcome(status=Status.COMPLETED, wall_time_s=2.0), row)
    assert line == "completed after 2.0 s, 10.2 samples/s, validation accuracy 0.500, validation loss 1"
    regression = {"validation_mean_squared_error": 0.25}
    line = shown_end(Outcome(status=Status.COMPLETED, wall_time_s=2.0), regression)
    assert line == "completed after 2.0 s, validation mean squared error 0.250"


def test_the_live_table_shows_workers_counts_many_and_takes_names_for_text() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=120, force_terminal=True, color_system=None)
    with LiveTable(console) as table:
        table.say("[bold]not markup[/bold]")
        table.begin(Path("[red]study"), runs(), 0, Durations())
        table.start(runs()[0], 1)
        table.progress(progress(times=20))
        table.end(runs()[0], Outcome(status=Status.COMPLETED), {})
    shown = stream.getvalue()
    expected = ("[bold]not markup[/bold]", "[red]study", "[red]x", "compute", "99.5", "1/3", "and 24 more workers")
    assert [text for text in expected if text not in shown] == []
