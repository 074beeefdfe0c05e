import io
from itertools import chain, product
from pathlib import Path

import pytest
from rich.console import Console

from dlbench.analysis.arm_table import arm_table
from dlbench.analysis.arms import Arm, arms, last_attempts
from dlbench.cli.show import rows_of
from dlbench.cli.summary import answer, fitted, hints, show
from dlbench.records.columns import names
from dlbench.records.tables import write_table
from dlbench.report.data import read
from dlbench.report.page.content import Content
from dlbench.report.page.render import markdown
from tests.unit.analysis.made import ALONE, timed


def row(run_id: str, **values) -> dict:
    defaults = {"run_id": run_id, "attempt": 1, "status": "completed", "label": f"[red]{run_id[:1]}", "workers": 1,
                "strategy": "single", "wall_time_s": 2.0, "baseline": False}  # fmt: skip
    return dict.fromkeys(names("runs")) | defaults | values


def arm(name: str, start: float, **values) -> list[dict]:
    rate = {"samples_per_s": start, "samples_per_s_per_worker": start / values.get("workers", 1)}
    return [row(f"{name}-r{r}", **(values | {key: value + r for key, value in rate.items()})) for r in range(5)]


def shown(rows: list[dict], order: tuple[str, ...] = ()) -> str:
    console = Console(file=io.StringIO(), width=200)
    show(console, Path("a [bold]study"), rows, order)
    return console.file.getvalue()


def test_failures_are_named_with_their_reason():
    failed = row("x-r0", status="failed", reason="worker 1: ValueError: [red]no\nmore", attempt=2)
    text = shown([row("x-r0"), failed])
    assert "1 run not completed:\n  x-r0 (attempt 2): failed: worker 1: ValueError: [red]no\n" in text
    assert "Results" not in text


def test_an_empty_rate_gets_a_hint():
    short = {"timed_window_s": 1.2, "timed_steps": 40}
    (hint,) = hints([row("a-r0", **short)])
    assert "at most 1.2 s and 40 steps; a rate needs 50 steps and 5 s. `extend_window: true`" in hint
    assert hints([row("a-r0", samples_per_s=1.0, timed_window_s=9.0)]) == []
    assert "no timed window was opened" in hints([row("a-r0")])[0]
    assert hints([row("a-r0", command="imported")]) == []
    for cannot_extend in ({"command": "python x.py"}, {"updates": 5}, {"batch_policy": "goodput"}):
        (hint,) = hints([row("a-r0", **short, **cannot_extend)])
        assert "extend_window" not in hint
        assert "More steps" in hint
    for script, words in (
        ({"steps": 90, "warmup_steps": 90}, "was opened. The script gave dlbench no `barrier`"),
        ({"steps": 1, "warmup_steps": 1}, "was opened. More steps"),
        ({"steps": 90, "warmup_steps": 1, "sampled_steps": 89}, "was opened. More steps"),
        ({"loss": 1.0}, "without training time and samples/s: the script reports no steps"),
        ({"train_time_s": 1.0}, ""),
    ):
        assert words in "".join(hints([row("a-r0", command="python x.py", **script)])), script
    assert hints([row("a-r0", command="python x.py", train_time_s=1.0)]) == []


def test_arms_stand_in_the_order_of_their_names_and_unknown_ones_last():
    text = shown(arm("c", 1.0)[:1] + arm("b", 1.0)[:1] + arm("a", 1.0)[:1], order=("a", "b"))
    assert text.index("[red]a") < text.index("[red]b") < text.index("[red]c")


def written(folder: Path, *arms: list[dict]) -> Path:
    """Write a study that holds its rows and its scenario alone."""
    rows = [dict.fromkeys(names("runs")) | found | {"study": folder.name} for found in chain(*arms)]
    folder.mkdir()
    (folder / "scenario.yaml").write_text("name: s\n", encoding="utf-8")
    write_table(folder / "runs.csv", "runs", rows, sorted({key for one in rows for key in one} - set(names("runs"))))
    return folder


def answered(study: Path, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=True)
    return answer(console, study, rows_of(study))


BOTH = (timed("a", 9.0, batch_size=8), timed("b", 5.0, batch_size=16, seed=4))


def test_the_answer_stands_below_the_arms_in_six_lines_and_as_wide_as_the_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a command is never cut, however long its path
    study = written(Path("s"), *BOTH)
    found = answered(study, 100)
    assert found[0] == "Answer: least training time with validation accuracy within 1 point of the best"
    assert [line.split()[0] for line in found[1:]] == ["use", "doubt", "next"]
    assert "mpi, batch 16" in found[1]
    assert all(len(line) <= 100 for line in found)
    console = Console(file=io.StringIO(), width=200)
    show(console, study, [one for rows in BOTH for one in rows], answers=found)
    assert "\n".join(found) in console.file.getvalue()


def test_groups_that_share_a_doubt_say_it_once(tmp_path):
    study = written(
        tmp_path / "s",
        *BOTH,
        *([row | {"model": "cnn", "run_id": f"cnn-{row['run_id']}"} for row in rows] for rows in BOTH),
    )
    found = answered(study, 140)
    assert [line for line in found if line.startswith("Answer")] == [
        f"Answer ({model} on digits): least training time with validation accuracy within 1 point of the best"
        for model in ("mlp", "cnn")
    ]
    assert sum("next" in line for line in found) == 1


def test_one_arm_is_answered_as_recommend_does_and_no_run_is_not(tmp_path):
    assert answered(written(tmp_path / "s", BOTH[0]), 200)[1].endswith("no other arm to compare it with")
    assert answer(Console(), tmp_path, []) == []
    failed = [row("a-r0", status="failed"), row("a-r1", status="failed")]
    assert answer(Console(), written(tmp_path / "f", failed), failed) == []


def test_a_failure_names_its_logs_and_the_command_that_shows_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "logs" not in shown([row("x-r0", status="failed", reason="no", attempt=2)])
    Path("a [bold]study/runs/x-r0/2").mkdir(parents=True)
    text = shown([row("x-r0", status="failed", reason="no", attempt=2)])
    assert "logs: a [bold]study/runs/x-r0/2\n" in text
    assert "shown by: dlbench logs x-r0 --study 'a [bold]study'\n" in text


def test_a_short_window_gives_a_rate_with_its_mark_that_never_competes():
    short = {"timed_window_s": 1.1, "timed_steps": 40, "timed_samples": 2_200_000}
    rows = [row(f"a-r{r}", study="s", repeat=r, **short) for r in range(5)] + arm("b", 100.0, study="s")
    text = shown(rows)
    assert "~2.0 M/s, 1.1 s window" in text
    assert "this rate is compared with no other" in text
    assert "steady throughput" not in text
    assert "a rate needs 50 steps and 5 s. `extend_window: true`" in text


def test_terminal_and_page_show_the_same_table_what_decides_first(tmp_path):
    rows = reaching(timed("a", 9.0, batch_size=8, extended_steps=70), timed("b", 5.0, 3, batch_size=16))
    text = shown(rows)
    headings = ["time to target, s", "training time, s", "validation accuracy", "validation loss", "steady samples/s"]
    assert [text.index(heading) for heading in headings] == sorted(text.index(heading) for heading in headings)
    table = arm_table(arms(last_attempts(rows)))
    page = markdown(Content(read([written(tmp_path / "s", rows)]))).replace("\\", "")
    parts = [*(cell for line in table.rows for cell in line), *table.columns, *table.notes, table.title]
    assert [part for part in parts if part not in text or part not in page] == []
    assert "a [bold]study" in text
    assert [line[-1].endswith(" *") for line in table.rows] == [True, False]
    assert "*: steps after training were timed too" in text


def reaching(*rows_of_arms: list[dict]) -> list[dict]:
    """Return rows of arms with a target that all repeats but the first have reached."""
    target = {"target_metric": "validation_accuracy", "target_value": 0.9}
    return [
        one | target | {"time_to_target_s": one["train_time_s"] / 2 if one["repeat"] else None}
        for one in chain(*rows_of_arms)
    ]


def study() -> list[Arm]:
    strategies = {"ring": (5.0, {"strategy": "stale_synchronous"}), "mpi": (6.0, {"strategy": "mpi"})}
    made = (timed(name, seconds, batch_size=32, **values) for name, (seconds, values) in strategies.items())
    return arms(reaching(timed("single", 9.0, **ALONE, batch_size=32), *made))


def six_settings() -> list[Arm]:
    axes = {
        "strategy": ("ring_all_reduce", "stale_synchronous"),
        "workers": (2, 4),
        "batch_size": (32, 1024),
        "model.batch_norm": (True, False),
        "communicator.bandwidth_bytes_per_s": (1.25e8, 1.25e9),
        "strategy.gradient_compression": ("deflated_top_k", "none"),
    }
    points = (dict(zip(axes, values, strict=True)) for values in product(*axes.values()))
    made = (timed(f"arm-{seed}", 5.0 + seed % 7, seed=seed, **point) for seed, point in enumerate(points))
    return arms(reaching(*made))


def drawn(columns: int, found: list[Arm] | None = None) -> tuple[str, tuple[str, ...]]:
    _, table, left_out = fitted(found or study(), columns)
    console = Console(file=io.StringIO(), width=columns)
    console.print(table)
    return console.file.getvalue(), left_out  # type: ignore[attr-defined]


@pytest.mark.parametrize("columns", [60, 80, 100, 120, 200])
def test_no_line_is_too_long_and_no_word_broken(columns: int) -> None:
    text, left_out = drawn(columns)
    assert max(map(len, text.splitlines())) <= columns
    # Heading, rule, rows and two empty lines: no row is folded.
    rows = [line for line in text.splitlines() if any(name in line for name in ("alone", "stale_sync", " mpi"))]
    assert len(rows) == 3
    assert "stale_synchronous" in text
    assert "4/5" in text or "reached 4/5" in left_out[0]


def test_six_settings_fit_a_terminal_of_100_columns() -> None:
    text, left_out = drawn(100, six_settings())
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    assert sum("ring_all_reduce  " in line or "stale_synchronous  " in line for line in lines) == 64
    assert "training" in text
    equal, too_wide = left_out
    assert equal == "equal in all arms: n 5, reached 4/5"
    # Measures go before settings, and of these the ones that readers look for last.
    assert too_wide.startswith("too wide for this terminal: validation loss, steady samples/s, validation accuracy")
    assert too_wide.endswith("strategy.gradient_compression")
    _, narrower = drawn(60, six_settings())
    assert narrower[1].endswith("model.batch_norm, batch_size")


def test_a_wide_terminal_shows_intervals_and_a_narrow_one_margins() -> None:
    wide, nothing = drawn(200)
    narrow, left_out = drawn(80)
    assert "[" in wide
    assert "±" not in wide
    assert nothing == ()
    assert "±" in narrow
    assert "[" not in narrow
    assert left_out[0].startswith("equal in all arms: n 5, reached 4/5")


def test_each_axis_has_a_column_and_the_base_line_is_named() -> None:
    table, _, _ = fitted(study(), 200)
    assert list(table.columns)[:3] == ["strategy", "n", "reached"]
    assert [row[:3] for row in table.rows] == [
        ("one worker alone", "5", "4/5"), ("stale_synchronous", "5", "4/5"), ("mpi", "5", "4/5"),
    ]  # fmt: skip
    assert table.texts == {"strategy"}


def test_a_time_that_some_runs_did_not_reach_says_so() -> None:
    rows = reaching(timed("ring", 5.0, strategy="ring"), timed("mpi", 5.0, strategy="mpi"))
    reached = {"ring": 3, "mpi": 2}
    for one in rows:
        one["time_to_target_s"] = 2.0 + one["repeat"] if one["repeat"] < reached[one["strategy"]] else None
    table, _, _ = fitted(arms(rows), 200)
    assert table.columns["time to target, s"] == ["4 (3/5 reached)", "not reached"]
    assert table.columns["reached"] == ["3/5", "2/5"]


def test_arms_are_named_by_what_tells_them_apart_and_base_lines_as_such() -> None:
    alone = [timed("a", 5.0, **ALONE), timed("b", 6.0, **ALONE)]
    for rows, cells in (
        ([[one | {"label": "baseline x=1"} for one in rows] for rows in alone], [("one worker alone x=1",)] * 2),
        ([timed("a", 5.0), timed("b", 6.0)], [("label of a",), ("label of b",)]),
        (
            [timed("a", 5.0, **ALONE, batch_size=8), timed("b", 6.0, **ALONE, batch_size=16)],
            [("one worker alone", "8"), ("one worker alone", "16")],
        ),
    ):
        table, _, _ = fitted(arms(list(chain(*rows))), 200)
        assert [line[: len(cells[0])] for line in table.rows] == cells


def test_a_regression_has_its_error() -> None:
    rows = [*timed("a", 5.0, workers=2), *timed("b", 6.0, workers=4)]
    rows = [row | {"validation_mean_squared_error": 0.25, "validation_accuracy": None} for row in rows]
    table, _, _ = fitted(arms(rows), 200)
    assert table.columns["validation mean squared error"] == ["0.250 [0.250, 0.250]"] * 2
