"""The order in which a scenario writes its arms, and rates of short windows with their mark and length."""

import pytest

from dlbench.analysis.arm_table import reading_order, short_rate
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.expand.runs import expand
from dlbench.scenario.read.scenario_file import parse

HEAD = "name: s\nbase: {trainer: numpy, strategy: mpi}\nrepeats: 2\n"


def read(text: str, head: str = HEAD) -> list[str]:
    """Return the labels of a scenario's arms in the order a person reads them."""
    scenario = parse(head + text, "s.yaml")
    runs = expand(scenario, Cluster(hosts=(Host(address="a", slots=8, cores=tuple(range(8))),)))
    labels = {run.run_id.rsplit("-r", 1)[0]: run.label for run in runs}
    return [labels[name] for name in reading_order(scenario, runs)]


def test_axes_in_the_scenario_s_order_with_the_base_line_first_in_its_group():
    assert read("matrix: {batch_size: [8, 256, 16], workers: [2, 1]}") == [
        "baseline batch_size=8", "batch_size=8 workers=2", "batch_size=8 workers=1",
        "baseline batch_size=256", "batch_size=256 workers=2", "batch_size=256 workers=1",
        "baseline batch_size=16", "batch_size=16 workers=2", "batch_size=16 workers=1",
    ]  # fmt: skip


def test_base_lines_lead_where_the_first_axis_is_not_theirs():
    assert read("matrix: {workers: [1, 2], batch_size: [32, 8]}") == [
        "baseline batch_size=32", "baseline batch_size=8", "workers=1 batch_size=32", "workers=1 batch_size=8",
        "workers=2 batch_size=32", "workers=2 batch_size=8",
    ]  # fmt: skip


def test_linked_axes_keep_their_order():
    assert read("matrix: {momentum: [0, 0.5]}\nzip: {workers: [1, 4, 2], epochs: [9, 3, 3]}\nbaseline: none") == [
        f"momentum={momentum} workers={workers} epochs={epochs}"
        for momentum in ("0.0", "0.5") for workers, epochs in ((1, 9), (4, 3), (2, 3))
    ]  # fmt: skip


def test_included_points_follow_the_matrix():
    text = "matrix: {workers: [3, 1]}\ninclude: [{workers: 4}, {workers: 2, algorithm: own-ring}]\nbaseline: none"
    assert [label.split()[0] for label in read(text)] == ["workers=3", "workers=1", "workers=4", "workers=2"]


def test_names_with_a_hyphen_are_found():
    text = "base: {strategy: mpi}\nmatrix: {trainer: [numpy, keras-tensorflow]}\nbaseline: none\n"
    assert read(text, head="name: t\n") == ["trainer=numpy", "trainer=keras_tensorflow"]


def row(samples: int | None, window_s: float | None, steps: int | None = 100, rate: float | None = None) -> dict:
    return {"timed_samples": samples, "timed_window_s": window_s, "timed_steps": steps, "samples_per_s": rate}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row(2_200_000, 1.1)], "~2.0 M/s, 1.1 s window"),
        ([row(1000, 1.0), row(3000, 1.0), row(2000, 2.0)], "~1.0 k/s, 1 s window"),
        ([row(640, 64.0, steps=40)], "~10/s, 40 steps"),
        ([row(640, 1.0), row(9000, 9.0, rate=1000.0)], ""),
        ([row(None, None, None)], ""),
        ([row(0, 0.0, 0)], ""),
        ([], ""),
    ],
)
def test_what_is_shown(rows: list[dict], said: str) -> None:
    assert short_rate(rows) == said
