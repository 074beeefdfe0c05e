"""The map of strategies and workers: a row for each way of synchronising, medians in its cells."""

from pathlib import Path

import pytest

from dlbench.report.chart import Lacking, Role
from dlbench.report.evidence import read
from dlbench.report.figures.strategies import chart
from dlbench.report.lines import ALONE
from tests.unit.report.figures.makers import base_line, evidence, line, medians, repeats, run


def ways(**values) -> list[dict]:
    mpi = repeats(3, workers=2, strategy="mpi", samples_per_s=[150.0, 170.0, 160.0], **values)
    horovod = repeats(3, workers=4, strategy="horovod", samples_per_s=[290.0, 310.0, 300.0], **values)
    return mpi + horovod


def test_rows_are_strategies_and_columns_are_workers(tmp_path):
    found = evidence(*ways(), *base_line(3, samples_per_s=[90.0, 100.0, 110.0]), tmp_path=tmp_path)
    made = chart(found)
    (panel,) = made.panels
    assert (panel.form, panel.x.categories, panel.title) == ("cells", ("1", "2", "4"), "weak scaling")
    assert [(one.label, one.role) for one in panel.series] == [
        (ALONE, Role.BASE_LINE), ("horovod", Role.MEASURED), ("mpi", Role.MEASURED),
    ]  # fmt: skip
    # The x of a cell is the number of its column.
    assert [medians(one) for one in panel.series] == [{0: 100.0}, {2: 300.0}, {1: 160.0}]
    assert line(panel, "mpi").marks[0].points == (150.0, 170.0, 160.0)
    assert made.runs == set(zip(found.runs["study"], found.runs["run_id"], strict=True))


def test_algorithms_and_options_of_one_strategy_are_rows_too(tmp_path):
    rows = [run(workers=2, algorithm=name) for name in ("auto", "own-ring")]
    assert [one.label for one in chart(evidence(*rows, tmp_path=tmp_path)).panels[0].series] == ["auto", "own-ring"]
    rows = [run(workers=2, **{"strategy.chunk_bytes": size}) for size in (4, 8)]
    labels = [one.label for one in chart(evidence(*rows, tmp_path=tmp_path)).panels[0].series]
    assert labels == ["strategy.chunk_bytes=4", "strategy.chunk_bytes=8"]


def test_many_ways_share_one_map(tmp_path):
    rows = [run(workers=2, algorithm=f"ring-{number}") for number in range(12)]
    (panel,) = chart(evidence(*rows, tmp_path=tmp_path)).panels
    assert len(panel.series) == 12


def test_models_batch_sizes_and_scopes_have_maps_apart_each_with_its_base_line(tmp_path):
    rows = [row for size, rate in ((16, 10.0), (64, 20.0)) for row in (*ways(batch_size=size),
            *base_line(1, batch_size=size, samples_per_s=rate))]  # fmt: skip
    made = chart(
        evidence(*rows, *ways(batch_size=16, batch_scope="global"), run(model="cnn", batch_size=16), tmp_path=tmp_path)
    )
    titles = ["strong scaling, mlp, batch 16", "weak scaling, mlp, batch 16", "weak scaling, mlp, batch 64"]
    assert [one.title for one in made.panels] == titles
    assert [medians(one.series[0]) for one in made.panels[1:]] == [{0: 10.0}, {0: 20.0}]
    assert "Left out, with one strategy only: weak scaling, cnn, batch 16." in made.notes


def test_emulated_runs_have_a_row_of_their_own(tmp_path):
    rows = [*ways(), *repeats(3, workers=2, strategy="mpi", samples_per_s=50.0, emulated="oversubscribed")]
    (panel,) = chart(evidence(*rows, tmp_path=tmp_path)).panels
    assert [(one.label, one.emulated) for one in panel.series] == [
        ("horovod", ""), ("mpi", ""), ("mpi", "oversubscribed"),
    ]  # fmt: skip
    assert medians(line(panel, "mpi", emulated="oversubscribed")) == {0: 50.0}


def test_failed_runs_are_counted_and_one_repeat_has_no_interval(tmp_path):
    rows = [run(workers=2), run(workers=2, strategy="horovod"), run(workers=2, repeat=1, status="failed"),
            run(workers=4, status="stalled"), run(workers=1, samples_per_s=None)]  # fmt: skip
    made = chart(evidence(*rows, tmp_path=tmp_path))
    found = line(made.panels[0], "mpi")
    assert [(mark.x, len(mark.points), mark.num_failed) for mark in found.marks] == [(0, 0, 0), (1, 1, 1), (2, 0, 1)]
    assert found.marks[1].interval.low is None
    assert any(note.startswith("1 of 3 runs that completed without samples/s") for note in made.notes)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([run(workers=2), *base_line()], "two or more strategies; there is mpi only"),
        ([run(workers=2), run(workers=1, strategy="single")], "there is mpi only"),
        ([run(workers=2), run(workers=2, strategy="horovod", status="failed")], "there is mpi only"),
        (
            [run(workers=2, batch_size=16), run(workers=2, strategy="horovod", batch_size=64)],
            "but other settings differ",
        ),
        (base_line(2), "there is single only"),
        ([run(status="failed")], "no run is completed"),
        ([run(samples_per_s=None)], "at least 50 steps and 5 s"),
    ],
)
def test_what_is_lacking_is_said(tmp_path, rows, message):
    with pytest.raises(Lacking, match=message):
        chart(evidence(*rows, tmp_path=tmp_path))


@pytest.mark.parametrize("study", ["cifar10-resnet20", "digits-batch-workers", "dividing"])
def test_real_studies_of_one_strategy_say_so(root: Path, study):
    with pytest.raises(Lacking, match="there is mpi only"):
        chart(read([root / "results" / study]))


def test_a_real_study_without_rates_says_so(root: Path):
    with pytest.raises(Lacking, match="samples/s"):
        chart(read([root / "tests" / "fixtures" / "study-v1"]))
