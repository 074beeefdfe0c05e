"""Published numbers beside measured ones: a study's own copy, verdicts in words, and curves that can share an axis."""

from dataclasses import replace
from pathlib import Path

import pytest

from dlbench.analysis.claims.claim_tests import ClaimState
from dlbench.analysis.statistics.intervals import Interval, median_interval
from dlbench.errors import UserError
from dlbench.records import files
from dlbench.report.chart import Axis, Mark, Panel, Role, Series
from dlbench.report.data import ReportData
from dlbench.report.references import (
    compared,
    of,
    published,
    relative,
    relative_panel,
    verdicts,
)
from dlbench.scenario.reference import parse
from tests.unit.report.figures.makers import repeats, report_data

TEXT = """\
# source: Who & <b>Whom</b> 2024
# x: batch_size
# claims:
#   - {claim: falls, column: train_time_s}
batch_size,train_time_s,train_accuracy
8,1000,0.5
16,600,0.8
32,500,
"""
TIME = Axis("training time (s)")
BATCH = Axis("batch size", "log2")


def studies(tmp_path: Path, *texts: str, emulated: str | None = None, factor: float = 1.0) -> ReportData:
    """Return a study for each text, which is its reference; an empty one has none."""
    rows = [
        row
        for number in range(len(texts))
        for size, time_s in ((8, 10.0), (16, 7.0), (32, 5.0))
        for row in repeats(
            3,
            study=f"s{number}",
            batch_size=size,
            train_time_s=[factor * time_s, factor * time_s + 0.1, factor * time_s + 0.2],
            train_accuracy=[0.6, 0.61, 0.62],
            emulated=emulated,
        )
    ]
    found = report_data(*rows, tmp_path=tmp_path)
    for source, text in zip(found.studies, texts, strict=True):
        if text:
            (source.path / files.REFERENCE).write_text(text, encoding="utf-8")
    return found


def test_a_study_has_a_copy_of_its_own_or_none(tmp_path: Path) -> None:
    with_it, without = studies(tmp_path, TEXT, "").studies
    assert of(with_it) == parse(TEXT, "r.csv")
    assert of(without) is None


def test_a_copy_that_is_broken_is_told(tmp_path: Path) -> None:
    found = studies(tmp_path, TEXT.replace("600", "six"))
    with pytest.raises(UserError, match=r"reference\.csv:7: train_time_s needs a number"):
        verdicts(found)


def test_studies_of_one_reference_are_compared_together(tmp_path: Path) -> None:
    other = TEXT.replace("2024", "2025")
    found = compared(studies(tmp_path, TEXT, other, TEXT.replace("\n", "\r\n"), ""))
    assert {known.source[-4:]: names for known, names in found.items()} == {"2024": ["s0", "s2"], "2025": ["s1"]}


def test_a_verdict_says_whose_claim_it_is_and_why(tmp_path: Path) -> None:
    (judged,) = verdicts(studies(tmp_path, TEXT))
    assert judged.reference == "Who & <b>Whom</b> 2024"
    assert judged.claim == "training time falls with batch size, and is nowhere 2% or more above an earlier value"
    assert judged.state == "holds"
    assert judged.why.startswith("least certain from 16 to 32: -28% (95% interval ")


def test_a_claim_that_is_inferred_is_called_so(tmp_path: Path) -> None:
    texts = (TEXT, TEXT.replace("train_time_s}", "train_time_s, inferred: true}"))
    for text, inferred in zip(texts, (False, True), strict=True):
        (judged,) = verdicts(studies(tmp_path, text))
        assert judged.claim.endswith(" (inferred)") == inferred


def test_a_verdict_on_emulated_rows_says_so(tmp_path: Path) -> None:
    (judged,) = verdicts(studies(tmp_path, TEXT, emulated="oversubscribed;logical-devices"))
    assert judged.state is ClaimState.HOLDS
    assert judged.why.startswith("on emulated hardware (logical-devices, oversubscribed): ")


def test_what_is_the_same_of_all_groups_of_runs_is_said_once(tmp_path: Path) -> None:
    rows = [
        row
        for optimizer, sizes in (("sgd", (8, 16, 32)), ("adam", (8, 16, 32)), ("lion", (8,)))
        for size in sizes
        for row in repeats(1, batch_size=size, train_time_s=80.0 / size, optimizer=optimizer)
    ]
    found = report_data(*rows, tmp_path=tmp_path)
    (found.studies[0].path / files.REFERENCE).write_text(TEXT, encoding="utf-8")
    assert {judged.claim.rpartition(" (")[2] for judged in verdicts(found)} == {"adam; sgd)", "lion)"}
    alike = report_data(*[row for row in rows if row["optimizer"] != "lion"], tmp_path=tmp_path)
    (alike.studies[0].path / files.REFERENCE).write_text(TEXT, encoding="utf-8")
    (judged,) = verdicts(alike)
    assert judged.claim.endswith(" (adam; sgd)")


def test_no_reference_no_verdict(tmp_path: Path) -> None:
    assert verdicts(studies(tmp_path, "")) == ()


def test_published_curves_have_values_alone_and_repeats_have_points() -> None:
    found = parse(f"{TEXT}8,1100,\n8,1200,\n", "r.csv")
    (time_s,) = published(found, "train_time_s")
    assert (time_s.label, time_s.role) == ("Who & <b>Whom</b> 2024", Role.PUBLISHED)
    assert time_s.marks[0] == Mark(8.0, (1000.0, 1100.0, 1200.0), median_interval([1000.0, 1100.0, 1200.0]))
    assert time_s.marks[1] == Mark(16.0, (), Interval(600.0, None, None, 1, None))
    (accuracy,) = published(found, "train_accuracy")
    assert [mark.x for mark in accuracy.marks] == [8.0, 16.0]
    assert published(found, "samples_per_s") == ()


def test_each_published_series_is_a_curve() -> None:
    text = "# source: A\n# x: workers\n# series: mode\nmode,workers,train_time_s\nscale-up,1,2\nscale-out,1,3\n"
    assert [one.label for one in published(parse(text, "r.csv"), "train_time_s")] == ["A, scale-up", "A, scale-out"]


def curve(*values: float, role: Role = Role.MEASURED, places: tuple[float, ...] = (8.0, 16.0, 32.0)) -> Series:
    marks = [Mark(x, (y,), median_interval([y])) for x, y in zip(places, values, strict=False)]
    return Series("one", tuple(marks), role)


def test_a_curve_is_divided_by_its_median_at_the_base() -> None:
    marks = (
        Mark(8.0, (4.0, 5.0, 6.0), median_interval([4.0, 5.0, 6.0]), num_failed=1),
        Mark(16.0, (2.0, 2.5, 3.0), median_interval([2.0, 2.5, 3.0]), ended=(4.0,)),
        Mark(32.0, num_failed=2),
    )
    found = relative(Series("a", marks, emulated="oversubscribed"), 8.0)
    assert found is not None
    first, second, third = found.marks
    assert (first.points, first.interval, first.num_failed) == ((0.8, 1.0, 1.2), Interval(1.0, None, None, 3, None), 1)
    assert (second.points, second.ended) == ((0.4, 0.5, 0.6), (0.8,))
    assert second.interval is not None
    assert second.interval.value == 0.5
    assert second.interval.low is not None
    assert second.interval.low < 0.5
    assert (third.points, third.interval, third.num_failed) == ((), None, 2)
    assert found.emulated == "oversubscribed"


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_what_is_not_above_zero_divides_nothing(value: float) -> None:
    assert relative(curve(value, 2.0), 8.0) is None
    assert relative(curve(1.0, 2.0), 64.0) is None
    assert relative(Series("a", (Mark(8.0, num_failed=3),)), 8.0) is None


def published_curve(*values: float, places: tuple[float, ...] = (8.0, 16.0, 32.0)) -> Series:
    return curve(*values, role=Role.PUBLISHED, places=places)


def test_a_relative_panel_names_what_each_line_is_divided_by() -> None:
    lines = (curve(4, 2), curve(1, role=Role.BASE_LINE), published_curve(10, 8, 5))
    found = relative_panel(Panel("cnn", BATCH, TIME, lines), "batch_size")
    assert found is not None
    assert found.title == "cnn: relative to its own at batch size 8"
    assert found.y.label == "training time / the line's own at batch size 8"
    assert [[mark.interval and mark.interval.value for mark in one.marks] for one in found.series] == [
        [1, 0.5], [1, 0.8, 0.5],
    ]  # fmt: skip


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (curve(4, 2),),
        (curve(4, 2), published_curve(10, places=(64.0,))),
        (curve(4), published_curve(10, 8)),  # 1 at the base alone says nothing
    ],
)
def test_without_a_place_that_all_have_nothing_is_relative(lines: tuple[Series, ...]) -> None:
    assert relative_panel(Panel("", BATCH, TIME, lines), "batch_size") is None


@pytest.mark.parametrize(("base", "said"), [(1.0, "at 1 worker"), (4.0, "at 4 workers")])
def test_workers_are_counted(base: float, said: str) -> None:
    places = (base, 8.0)
    lines = (curve(4, 2, places=places), published_curve(4, 2, places=places))
    found = relative_panel(Panel("", Axis("workers"), TIME, lines), "workers")
    assert found is not None
    assert found.title == f"relative to its own {said}"


def test_a_published_curve_has_the_colour_of_its_measured_namesake() -> None:
    text = "# source: A\n# x: workers\n# series: mode\nmode,workers,train_time_s\nscale-up,1,2\nscale-out,1,3\n"
    measured = [replace(curve(1), label="mpi, scale-out")]
    found = published(parse(text, "r.csv"), "train_time_s", measured)
    assert [one.like for one in found] == ["", "mpi, scale-out"]
