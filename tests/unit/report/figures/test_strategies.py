"""The map of strategies and workers: a row for each way of synchronising, medians in its cells."""

from dlbench.report.chart import Role
from dlbench.report.figures.strategies import chart
from dlbench.report.lines import ALONE
from tests.unit.report.figures.makers import base_line, line, medians, repeats, report_data, run


def ways(**values) -> list[dict]:
    mpi = repeats(3, workers=2, strategy="mpi", samples_per_s=[150.0, 170.0, 160.0], **values)
    horovod = repeats(3, workers=4, strategy="horovod", samples_per_s=[290.0, 310.0, 300.0], **values)
    return mpi + horovod


def test_rows_are_strategies_and_columns_are_workers(tmp_path):
    found = report_data(*ways(), *base_line(3, samples_per_s=[90.0, 100.0, 110.0]), tmp_path=tmp_path)
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
    assert [one.label for one in chart(report_data(*rows, tmp_path=tmp_path)).panels[0].series] == ["auto", "own-ring"]
    rows = [run(workers=2, **{"strategy.chunk_bytes": size}) for size in (4, 8)]
    labels = [one.label for one in chart(report_data(*rows, tmp_path=tmp_path)).panels[0].series]
    assert labels == ["strategy.chunk_bytes=4", "strategy.chunk_bytes=8"]


def test_models_batch_sizes_and_scopes_have_maps_apart_each_with_its_base_line(tmp_path):
    rows = [row for size, rate in ((16, 10.0), (64, 20.0)) for row in (*ways(batch_size=size),
            *base_line(1, batch_size=size, samples_per_s=rate))]  # fmt: skip
    made = chart(
        report_data(
            *rows, *ways(batch_size=16, batch_scope="global"), run(model="cnn", batch_size=16), tmp_path=tmp_path
        )
    )
    titles = ["strong scaling, mlp, batch 16", "weak scaling, mlp, batch 16", "weak scaling, mlp, batch 64"]
    assert [one.title for one in made.panels] == titles
    assert [medians(one.series[0]) for one in made.panels[1:]] == [{0: 10.0}, {0: 20.0}]
    assert "Left out, with one strategy only: weak scaling, cnn, batch 16." in made.notes
