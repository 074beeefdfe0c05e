"""Where the time of several workers goes: parts sum to the whole; each cause is named with what takes less of it."""

import re
from typing import Any

import pytest

from dlbench.analysis.arms import Arm
from dlbench.analysis.metrics.lost_time import lost_time, sentence
from tests.unit.analysis.made import ALONE, arm, read

# Seconds of a run of 10,000 samples by one worker alone.
CLOCKS = {"startup_time_s": 2.0, "first_step_s": 1.0, "evaluation_time_s": 3.0}


def run(
    name: str, workers: int, steps: dict[str, float], clocks: dict[str, float] | None = None, **values: Any
) -> list[dict[str, Any]]:
    """Return two runs whose training after the first step is shared out as said, in s."""
    clocks = CLOCKS | (clocks or {})
    train = clocks["first_step_s"] + sum(steps.values())
    window = sum(steps.values()) / 2
    columns = {
        "train_time_s": train, "samples_seen": 10_000, "timed_window_s": window, "timed_steps": 100,
        "samples_per_s": 5_000 / window, **clocks,
        **{column: time / 2 for column, time in steps.items()},
    }  # fmt: skip
    return arm(name, {column: [value] * 2 for column, value in columns.items()}, workers=workers, **values)


ONE = {"data_wait_s": 1.0, "compute_time_s": 20.0, "communication_time_s": 0.0, "update_time_s": 2.0}
# Two workers at their best: half of the time of each part.
TWO = {column: time / 2 for column, time in ONE.items()}
BOTH = {"peer_wait_s": 0.001, "wire_time_s": 0.003}


def of_two(steps: dict[str, float], clocks: dict[str, float] | None = None, **values: Any) -> Arm:
    rows = run("two", 2, TWO | steps, clocks, **BOTH | values)
    return next(
        one
        for one in read(run("one", 1, ONE, **{name: value for name, value in ALONE.items() if name != "workers"}), rows)
        if one.workers == 2
    )


@pytest.mark.parametrize(
    ("steps", "values", "name", "remedy"),
    [
        ({"communication_time_s": 8.0}, {}, "messages", "beyond that: a faster link"),
        ({"communication_time_s": 8.0}, {"servers": 1}, "messages", "more servers (the time in which they apply"),
        ({"communication_time_s": 8.0}, {"peer_wait_s": 0.03}, "waiting for the slowest", "free the slowest worker"),
        ({"data_wait_s": 9.0}, {}, "input", "reads faster"),
        ({"encoding_time_s": 8.0}, {}, "encoding", "the link may be fast enough for whole gradients"),
        ({"decoding_time_s": 8.0}, {}, "decoding", "each worker adds up what all have sent"),
        ({"update_time_s": 9.0}, {}, "update", "larger batches"),
        ({"compute_time_s": 19.0}, {}, "computing", "they share its memory and clock"),
        ({"compute_time_s": 19.0}, {"intra_op_threads": 8}, "computing", "8 threads of a worker share 1 of its cores"),
        ({"compute_time_s": 19.0}, {"batch_scope": "global"}, "computing", "a worker's part of one is small"),
    ],
)
def test_a_cause_in_the_steps_is_named(steps: dict[str, float], values: dict[str, Any], name: str, remedy: str) -> None:
    slow = of_two(steps, **values)
    lost = lost_time(slow)
    assert lost is not None
    # A sample takes one worker 1 s + 23 s + 3 s of 10,000; the start-up of either is no need of a sample.
    together = 2 * (sum(CLOCKS.values()) + sum((TWO | steps).values()))
    assert 1 - sum(lost.values()) == pytest.approx(27.0 / together)
    text = sentence(slow, lost)
    assert f"{name.capitalize()} take" in text
    assert remedy in text


@pytest.mark.parametrize(
    ("clocks", "name"),
    [({"startup_time_s": 20.0}, "start-up"), ({"first_step_s": 20.0}, "first step"),
     ({"evaluation_time_s": 20.0}, "evaluation")],
)  # fmt: skip
def test_a_cause_outside_the_steps_is_named(clocks: dict[str, float], name: str) -> None:
    slow = of_two({}, clocks)
    lost = lost_time(slow)
    assert lost is not None
    assert next(iter(lost)) == name
    said = sentence(slow, lost).lower()
    assert ("start-up, which is not in this" if name == "start-up" else name) in said


def test_the_most_that_a_change_can_gain_is_the_time_without_the_part() -> None:
    slow = of_two({"communication_time_s": 8.0}, peer_wait_s=0.0)
    lost = lost_time(slow)
    assert lost is not None
    share = lost["messages"]
    assert share == pytest.approx(8.0 / (2 + 1 + 0.5 + 10 + 8 + 1 + 3), rel=1e-6)
    share /= 1 - lost["start-up"]
    assert f"(at most {100 * share / (1 - share):.2g}% faster)" in sentence(slow, lost)


def test_what_takes_less_is_taken_off_the_others() -> None:
    """The parts are then the whole with what one worker needs, and none gains more than all of them."""
    slow = of_two({"communication_time_s": 30.0, "compute_time_s": 4.0}, peer_wait_s=0.0)
    text = sentence(slow, lost_time(slow) or {})
    needed, messages, gain, evaluation = map(float, re.findall(r"([\d.]+)%", text))
    # 27 s of one worker, and 2 x (1 + 0.5 + 4 + 30 + 1 + 3) s of two, start-up left out.
    assert needed == pytest.approx(100 * 27 / 79, abs=0.5)
    assert needed + messages + evaluation == pytest.approx(100, abs=1.5)
    assert gain < 100 * (79 / 27 - 1)


def test_a_first_step_is_named_last_since_a_longer_training_pays_no_more_of_it() -> None:
    slow = of_two({"communication_time_s": 8.0}, {"first_step_s": 40.0})
    assert "Messages take" in sentence(slow, lost_time(slow) or {})


def test_a_base_line_that_starts_slowly_makes_no_sample_cheaper() -> None:
    quick, slow = of_two({}), of_two({})
    late = tuple({**row, "startup_time_s": 60.0} for row in slow.base_line)
    assert lost_time(Arm("two", slow.rows, late)) == lost_time(quick)


def test_one_call_is_compared_with_computing() -> None:
    both = of_two({"compute_time_s": 18.0, "communication_time_s": 0.0})
    rows = [{name: value for name, value in row.items() if name != "communication_time_s"} for row in both.rows]
    lost = lost_time(Arm("two", tuple(rows), both.base_line))
    assert lost is not None
    assert next(iter(lost)) == "computing and messages in one call"


def test_an_update_of_its_own_is_compared_with_one_inside_the_step() -> None:
    apart = of_two({})
    alone = [{**row, "compute_time_s": row["compute_time_s"] + row["update_time_s"]} for row in apart.base_line]
    inside = tuple({name: value for name, value in row.items() if name != "update_time_s"} for row in alone)
    lost = lost_time(Arm("two", apart.rows, inside))
    assert lost is not None
    assert "update" not in lost
    assert lost["computing"] == pytest.approx(0.0, abs=1e-12)
    assert sum(lost.values()) == pytest.approx(sum((lost_time(apart) or {}).values()))


def test_workers_that_need_less_than_one_alone_are_said_to_take_less_time() -> None:
    quick = of_two({"compute_time_s": 2.0}, {"first_step_s": 0.5, "evaluation_time_s": 0.0})
    # 27 s of one worker, 2 x (0.5 + 0.5 + 2 + 1) s of two, start-up left out.
    assert "take 70% less time for a sample than one worker alone" in sentence(quick, lost_time(quick) or {})


def test_without_a_base_line_or_times_nothing_is_said() -> None:
    (alone,) = read(run("two", 2, TWO))
    assert lost_time(alone) is None
    both = of_two({})
    for column in ("compute_time_s", "samples_per_s"):
        without = tuple({**row, column: None} for row in both.rows)
        assert lost_time(Arm("two", without, both.base_line)) is None, column
