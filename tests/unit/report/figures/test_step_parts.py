"""Where the time of a step goes."""

from pathlib import Path

from dlbench.report.figures.step_parts import WHOLE, chart
from tests.unit.report.figures.cases import Case, check_cases, drawn, see
from tests.unit.report.figures.makers import base_line, repeats, run

DATA, COMPUTE, EXPOSED, UPDATE, REST = (
    "waiting for data", "forward and backward", "exposed communication", "update", "other",
)  # fmt: skip
ONE_CALL = "whole step in one compiled call"
NOT_OBSERVED = {"communication_time_s": None, "update_time_s": None}
USUAL = {WHOLE: ..., DATA: {0: 1}, COMPUTE: {0: 40}, UPDATE: {0: 4}}
CASES = (
    Case("in milliseconds", [run(timed_window_s=6.0)], {0: USUAL | {EXPOSED: {0: 5}, REST: {0: 10}}}),
    Case(
        "marked steps split waiting from the all-reduce", [run(peer_wait_s=0.001, wire_time_s=0.003)],
        {0: USUAL | {"waiting for slower workers": {0: 1.25}, "all-reduce": {0: 3.75}, REST: {0: 0}}},
        says=["as in the marked steps"],
    ),
    *(
        Case(
            "marked steps without an all-reduce split nothing", [run(peer_wait_s=waited, wire_time_s=moved)],
            {0: USUAL | {EXPOSED: {0: 5}, REST: {0: 0}}}, silent=["marked steps"],
        )
        for waited, moved in ((0.0, 0.0), (0.1, None))
    ),
    Case(
        "what cannot be observed is no zero", [run(strategy="mirrored", **NOT_OBSERVED), run(strategy="mpi")],
        {0: {WHOLE: ..., DATA: {0: 1, 1: 1}, ONE_CALL: {0: 40}, COMPUTE: {1: 40}, EXPOSED: {1: 5}, UPDATE: {1: 4},
             REST: {0: 9, 1: 0}}},
        says=["In 1 run (mirrored) the step is one compiled call"],
    ),
    Case(
        "unknown data belong to the rest", [run(data_wait_s=None)],
        {0: {WHOLE: ..., COMPUTE: {0: 40}, EXPOSED: {0: 5}, UPDATE: {0: 4}, REST: {0: 1}}},
    ),
    Case(
        "rounding makes no negative rest", [run(timed_window_s=4.999999999)],
        {0: USUAL | {EXPOSED: {0: 5}, REST: {0: 0}}},
    ),
    Case(
        "a bar has the parts of the run with the median step: they sum to it",
        [*repeats(3, compute_time_s=[3.0, 4.0, 3.2], timed_window_s=[5.5, 5.0, 6.0]), run(workers=2)],
        {0: {DATA: ..., COMPUTE: {0: 30, 1: 40}, EXPOSED: {0: 5, 1: 5}, UPDATE: {0: 4, 1: 4}, REST: {0: 15, 1: 0},
             WHOLE: {0: see(50, 55, 60, value=55, low=50, high=60, n=3), 1: see(50, low=None)}}},
    ),
    Case(
        "of two runs the parts sum to the mean of both steps, whatever each of them has",
        repeats(2, peer_wait_s=[None, 0.001], wire_time_s=[None, 0.003], data_wait_s=[0.1, None]),
        {0: {WHOLE: {0: 50}, DATA: {0: 0.5}, COMPUTE: {0: 40}, UPDATE: {0: 4}, EXPOSED: {0: 2.5},
             "waiting for slower workers": {0: 0.625}, "all-reduce": {0: 1.875}, REST: {0: 0.5}}},
    ),
    Case(
        "where batch sizes vary each way has a panel with a bar for each", num_runs=4,
        rows=[run(workers=w, batch_size=b) for w in (1, 2) for b in (8, 16)],
        titles=["mpi, 1 worker", "mpi, 2 workers"],
        shows={"mpi, 2 workers": USUAL | {DATA: {0: 1, 1: 1}, COMPUTE: ..., EXPOSED: ..., UPDATE: ..., REST: ...}},
    ),
    Case(
        "bookkeeping and closing barriers are parts",
        [run(bookkeeping_time_s=0.3, closing_wait_s=0.2, timed_window_s=6.0)],
        {0: USUAL | {EXPOSED: {0: 5}, "bookkeeping between steps": {0: 3}, "waiting at closing barriers": {0: 2},
                     REST: {0: 5}}},
    ),
    Case(
        "completed runs without a window are counted", [run(workers=2), run(workers=4, timed_window_s=None)],
        says=["Left out: 1 run that completed without a timed window or its parts."], num_runs=1,
    ),
)  # fmt: skip


def test_cases(tmp_path: Path) -> None:
    check_cases(chart, CASES, tmp_path)


def test_bars_are_arms_with_base_lines_first_and_emulated_ones_beside_real_ones(tmp_path: Path) -> None:
    mixed = [run(workers=2), run(workers=4, emulated="oversubscribed")]
    rates = [run(divide=d, learning_rate_scale=s) for d in ("data", "epochs") for s in ("linear", "none")]
    for rows, label, names in (
        ([run(workers=w) for w in (2, 4)] + base_line(), "strategy, workers",
         ("one worker alone", "mpi, 2 workers", "mpi, 4 workers")),
        (mixed[:1], "strategy", ("mpi",)),
        ([run(workers=w) for w in (2, 4)] + [run(strategy="single")], "strategy, workers",
         ("one worker alone", "mpi, 2 workers", "mpi, 4 workers")),
        (mixed, "strategy, workers", ("mpi, 2 workers", "mpi, 4 workers")),
        ([*rates, *base_line(divide="data", learning_rate_scale="none")], "strategy, divide, learning_rate_scale",
         ("one worker alone", "mpi, data, linear", "mpi, data, none", "mpi, epochs, linear", "mpi, epochs, none")),
    ):  # fmt: skip
        (panel,) = drawn(chart, *rows, tmp_path=tmp_path).panels
        assert (panel.form, panel.x.label, panel.x.categories) == ("bars", label, names)
    (panel,) = drawn(chart, *mixed, tmp_path=tmp_path).panels
    assert {(one.emulated, one.marks[0].x) for one in panel.series} == {("", 0.0), ("oversubscribed", 1.0)}
