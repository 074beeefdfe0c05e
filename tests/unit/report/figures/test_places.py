"""What stands on x: batch size and workers, other numbers that make a curve, and whatever varies alone."""

import math
from pathlib import Path
from typing import Any

from dlbench.analysis.groups import condition_text, setting_name
from dlbench.report.chart import Axis, Series
from dlbench.report.figures._places import spread
from dlbench.report.figures._table import TABLE
from tests.unit.report.charts import mark
from tests.unit.report.figures.makers import report_data, run

RATES = (0.001, 0.01, 0.1)


# Rows, the chart's title, and for each panel: label and scale of x, categories, places, and labels of its lines.
Panels = list[tuple[str, str, tuple[str, ...], list[float], list[str]]]
CASES: tuple[tuple[str, list[dict[str, Any]], str, Panels], ...] = (
    (
        "a learning rate alone, with its base lines",
        [*({"workers": 2, "learning_rate_base": rate} for rate in RATES),
         *({"strategy": "single", "baseline": True, "learning_rate_base": rate} for rate in RATES)],
        "Training time by learning rate",
        [("learning rate", "log10", (), [0.001, 0.01, 0.1], ["mpi", "one worker alone"])],
    ),
    ("two epochs, and strategies as lines",
     [{"strategy": name, "epochs": epochs} for name in ("mpi", "horovod") for epochs in (2, 4)],
     "Training time by epochs", [("epochs", "linear", (), [2, 4], ["horovod", "mpi"])]),
    ("an option with lists of one number", [{"model.hidden": f"[{size}]"} for size in (16, 32, 512)],
     "Training time by hidden", [("hidden", "log10", (), [16, 32, 512], ["mpi"])]),
    ("words are categories", [{"optimizer": name} for name in ("sgd", "adam")], "Training time by optimizer",
     [("optimizer", "linear", ("adam", "sgd"), [0, 1], ["mpi"])]),
    (
        "beside workers a curve has a panel of its own",
        [{"workers": w, "learning_rate_base": rate} for w in (1, 2) for rate in RATES],
        "Training time by workers and by learning rate",
        [("workers", "log2", (), [1, 2], [f"mpi, learning_rate={rate:g}" for rate in RATES]),
         ("learning rate", "log10", (), [*RATES], ["mpi, 1 worker", "mpi, 2 workers"])],
    ),
    (
        "two values and words stay lines beside batch sizes",
        [{"batch_size": b, "momentum": m, "optimizer": o}
         for b in (8, 16) for m in (0.0, 0.9) for o in ("sgd", "adam")],
        "Training time by batch size",
        [("batch size of one worker (samples)", "log2", (), [8, 16],
          [f"mpi, {o}, momentum={m:g}" for o in ("adam", "sgd") for m in (0, 0.9)])],
    ),
    ("what follows from the batch size has no panel",
     [{"batch_size": b, "learning_rate_base": rate} for b, rate in zip((8, 16, 32), RATES, strict=True)],
     "Training time by batch size", [("batch size of one worker (samples)", "log2", (), [8, 16, 32], ["mpi"])]),
    ("but words are lines",
     [{"batch_size": b, "optimizer": o, "learning_rate_base": b / 100}
      for b, o in ((8, "sgd"), (16, "sgd"), (32, "adam"))],
     "Training time by batch size",
     [("batch size of one worker (samples)", "log2", (), [8, 16, 32],
       ["mpi, adam", "mpi, sgd"])]),
)  # fmt: skip


def test_every_axis_that_varies_has_a_panel(tmp_path: Path) -> None:
    for name, rows, title, panels in CASES:
        rows = [run(**row | {"samples_seen": 9}) for row in rows]
        chart = TABLE["training_time"].chart(report_data(*rows, tmp_path=tmp_path))
        assert chart.title == title
        assert {one.title for one in chart.panels} == {""}
        assert [
            (one.x.label, one.x.scale, one.x.categories, one.places, [line.label for line in one.series])
            for one in chart.panels
        ] == panels, name


def test_an_axis_is_logarithmic_where_medians_or_ends_of_runs_lie_far_apart() -> None:
    time, loss, accuracy = Axis("time (s)", low=0.0), Axis("loss (nats)"), Axis("accuracy", most=1.0)
    for axis, marks, scale in (
        (time, (mark(1, 1.0), mark(2, 3.0)), "linear"),
        (time, (mark(1, 1.0), mark(2, 5.0)), "log10"),
        (time, (mark(1, 1.0), mark(2, ended=(5.0,))), "log10"),
        (time, (mark(1, 1.0), mark(2, ended=(math.inf,))), "linear"),
        (time, (mark(1, 0.0), mark(2, 5.0)), "linear"),
        (loss, (mark(1, 0.1), mark(2, 0.9)), "linear"),
        (loss, (mark(1, 0.1), mark(2, 650.0)), "log10"),
        (accuracy, (mark(1, 0.01), mark(2, 0.99)), "linear"),
    ):
        assert spread(axis, [Series("mpi", marks)]).scale == scale, (axis, marks)


def test_many_lines_over_a_further_axis_are_split_by_another_setting(tmp_path: Path) -> None:
    rows = [
        run(workers=w, batch_size=b, learning_rate_base=rate, samples_seen=9)
        for w in (1, 2, 4, 8)
        for b in (8, 16)
        for rate in RATES
    ]
    every = TABLE["training_time"].chart(report_data(*rows, tmp_path=tmp_path)).panels
    panels = [one for one in every if one.x.label == "learning rate"]
    assert [one.title for one in panels] == ["1 worker", "2 workers", "4 workers", "8 workers"]
    assert all([line.label for line in one.series] == ["mpi, batch 8", "mpi, batch 16"] for one in panels)


def test_conditions_are_said_in_words(tmp_path: Path) -> None:
    arms = report_data(*({"communicator.bandwidth_bytes_per_s": size} for size in (1e5, 1e6)), tmp_path=tmp_path).arms
    for values, expected in (
        ({"communicator.bandwidth_bytes_per_s": 1e5, "communicator.slow_workers": 1}, "slow network, one straggler"),
        ({"communicator.bandwidth_bytes_per_s": 1e6, "communicator.slow_workers": 0}, "fast network, no straggler"),
        ({"communicator.slow_workers": 3, "batch_size": 8}, "3 stragglers, batch 8"),
        ({"learning_rate_base": 0.1, "communicator.latency_s": 0.002}, "learning rate 0.1, latency 0.002 s"),
    ):
        assert condition_text(values, arms) == expected
    assert condition_text({"communicator.bandwidth_bytes_per_s": 1e5}, arms[:1]) == "bandwidth 100,000 bytes/s"
    assert setting_name("communicator.bandwidth_bytes_per_s") == "bandwidth (bytes/s)"
