"""Where the time of a step goes."""

from pathlib import Path

from dlbench.report.figures.step_parts import chart
from tests.unit.report.figures.cases import Case, check_cases, drawn, see
from tests.unit.report.figures.makers import base_line, repeats, run

DATA, COMPUTE, EXPOSED, UPDATE, REST = (
    "waiting for data", "forward and backward", "exposed communication", "update", "other",
)  # fmt: skip
ONE_CALL = "whole step in one compiled call"
NOT_OBSERVED = {"communication_time_s": None, "update_time_s": None}
USUAL = {DATA: {0: 1}, COMPUTE: {0: 40}, UPDATE: {0: 4}}
LONG = [run(divide=d, learning_rate_scale=s) for d in ("data", "epochs") for s in ("linear", "none")]
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
        {0: {DATA: {0: 1, 1: 1}, ONE_CALL: {0: 40}, COMPUTE: {1: 40}, EXPOSED: {1: 5}, UPDATE: {1: 4},
             REST: {0: 9, 1: 0}}},
        says=["In 1 run (mirrored) the step is one compiled call"],
    ),
    Case(
        "unknown data belong to the rest", [run(data_wait_s=None)],
        {0: {COMPUTE: {0: 40}, EXPOSED: {0: 5}, UPDATE: {0: 4}, REST: {0: 1}}},
    ),
    Case(
        "rounding makes no negative rest", [run(timed_window_s=4.999999999)],
        {0: USUAL | {EXPOSED: {0: 5}, REST: {0: see(0.0)}}},
    ),
    Case(
        "a bar is an arm with the median of its repeats", [*repeats(3, compute_time_s=[3.0, 4.0, 3.2]), run(workers=2)],
        {0: {DATA: ..., COMPUTE: {0: see(30, 32, 40, value=32, n=3), 1: see(40, low=None)}, EXPOSED: ..., UPDATE: ...,
             REST: ...}},
    ),
    Case(
        "completed runs without a window are counted", [run(workers=2), run(workers=4, timed_window_s=None)],
        says=["Left out: 1 run that completed without a timed window or its parts."], num_runs=1,
    ),
)  # fmt: skip


def test_cases(tmp_path: Path) -> None:
    check_cases(chart, CASES, tmp_path)


def test_bars_are_arms_with_base_lines_first_and_emulated_ones_apart(tmp_path: Path) -> None:
    mixed = [run(workers=2), run(workers=4, emulated="oversubscribed")]
    for rows, title, label, names in (
        ([run(workers=w) for w in (2, 4)] + base_line(), "", "", ("one worker alone", "2 workers", "4 workers")),
        (mixed[:1], "", "", ("mpi",)),
        (mixed[1:], "emulated", "", ("mpi",)),
        ([*LONG, *base_line(divide="data", learning_rate_scale="none")], "", "divide, learning_rate_scale",
         ("one worker alone, data, none", "data, linear", "data, none", "epochs, linear", "epochs, none")),
    ):  # fmt: skip
        (panel,) = drawn(chart, *rows, tmp_path=tmp_path).panels
        assert (panel.form, panel.title, panel.x.label, panel.x.categories) == ("bars", title, label, names)
    found = [(panel.title, panel.x.categories) for panel in drawn(chart, *mixed, tmp_path=tmp_path).panels]
    assert found == [("", ("2 workers",)), ("emulated", ("4 workers",))]
