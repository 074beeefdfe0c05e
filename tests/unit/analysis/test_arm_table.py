"""The table of arms: its order, rates of short windows, at what arms were measured, and what was not searched for."""

import pytest

from dlbench.analysis.arm_table import arm_table, reading_order, short_rate
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.expand.runs import expand
from dlbench.scenario.read.scenario_file import parse
from tests.unit.analysis import made


def read(text: str) -> list[str]:
    """Return the labels of a scenario's arms in the order a person reads them."""
    base = "strategy: mpi" if "trainer" in text else "trainer: numpy, strategy: mpi"
    scenario = parse(f"name: s\nbase: {{{base}}}\nrepeats: 2\n{text}", "s.yaml")
    runs = expand(scenario, Cluster(hosts=(Host(address="a", slots=8, cores=tuple(range(8))),)))
    labels = {run.run_id.rsplit("-r", 1)[0]: run.label for run in runs}
    return [labels[name] for name in reading_order(scenario, runs)]


AXES = "matrix: {batch_size: [8, 256, 16], workers: [2, 1]}"
SIZES = ("batch_size=8", "batch_size=256", "batch_size=16")


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        # Each base line is the first of its group, and leads where the first axis is not its own.
        (AXES, [label for size in SIZES for label in (f"baseline {size}", f"{size} workers=2", f"{size} workers=1")]),
        ("matrix: {workers: [1, 2], batch_size: [32, 8]}",
         ["baseline batch_size=32", "baseline batch_size=8", "workers=1 batch_size=32", "workers=1 batch_size=8",
          "workers=2 batch_size=32", "workers=2 batch_size=8"]),
        # Linked axes keep their order.
        ("matrix: {momentum: [0, 0.5]}\nzip: {workers: [1, 4, 2], epochs: [9, 3, 3]}\nbaseline: none",
         [f"momentum={momentum} workers={workers} epochs={epochs}"
          for momentum in ("0.0", "0.5") for workers, epochs in ((1, 9), (4, 3), (2, 3))]),
        # Included points follow the matrix.
        ("matrix: {workers: [3, 1]}\ninclude: [{workers: 4}, {workers: 2, algorithm: own-ring}]\nbaseline: none",
         [*(f"workers={n} algorithm=auto" for n in (3, 1, 4)), "workers=2 algorithm=own-ring"]),
        # Names with a hyphen are found.
        ("matrix: {trainer: [numpy, keras-tensorflow]}\nbaseline: none",
         ["trainer=numpy", "trainer=keras_tensorflow"]),
    ],
)  # fmt: skip
def test_arms_stand_in_the_scenarios_order(text: str, labels: list[str]) -> None:
    assert read(text) == labels


def rated(name: str, first: float, **values: object) -> list[dict]:
    return made.arm(name, {"samples_per_s": [first + repeat for repeat in range(5)]}, **values)


@pytest.mark.parametrize(
    ("of_both", "values", "last_cells", "note"),
    [
        ({}, {}, ("75% [73%, 76%]", "152 [150, 154]"), "each worker (weak scaling)"),
        ({"batch_scope": "global"}, {}, ("75% [73%, 76%]", "152 [150, 154]"), "all workers (strong scaling)"),
        ({"imported.counted": "tokens"}, {}, ("75% [73%, 76%]", "152 [150, 154]"), "samples are tokens"),
        ({}, {"rate_drift": 0.2}, ("75% [73%, 76%]", "152 [150, 154] ~"), "~: not steady; "),
        ({}, {"extended_steps": 70}, ("75% [73%, 76%]", "152 [150, 154] *"), "*: steps after training were timed too"),
    ],
)
def test_cells_are_medians_with_intervals_and_marks_that_say_what_a_rate_is(of_both, values, last_cells, note) -> None:
    rows = rated("a", 100.0, **made.ALONE, **of_both), rated("b", 150.0, workers=2, **of_both, **values)
    found = arm_table(made.read(*rows))
    alone, two = found.rows
    assert (alone, two[:2], two[-2:]) == (("one worker alone", "5", "", "102 [100, 104]"), ("mpi", "5"), last_cells)
    assert note in " ".join(found.notes)


def test_emulated_arms_say_so_without_an_efficiency_against_real_ones_and_what_no_arm_has_is_left_out() -> None:
    emulated = rated("c", 150.0, workers=2, emulated="oversubscribed;simulated")
    found = arm_table(made.read(rated("a", 100.0, **made.ALONE), rated("b", 150.0, workers=2), emulated))
    assert found.rows[2][-3:] == ("", "152 [150, 154]", "oversubscribed, simulated")
    lacking = (made.arm(f"b{n}", {"validation_loss": [loss] * 5}, batch_size=n) for n, loss in ((8, 0.3), (16, None)))
    found = arm_table(made.read(*lacking))
    assert list(found.columns) == ["strategy", "batch_size", "n", "validation loss"]
    assert [line[-1] for line in found.rows] == ["0.300 [0.300, 0.300]", ""]


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


def at_rates(*rates: float, tuned: str | None = "learning_rate", edge: str = "") -> list:
    """Return arms of growing batches, each at its rate, of which the last one lies at the edge of what was tried."""
    rows = [
        made.timed(f"a{place}", 5.0, batch_size=8 << place, learning_rate_base=rate, tuned=tuned)
        for place, rate in enumerate(rates)
    ]
    rows[-1] = [{**row, "tuned_at_edge": edge or None} for row in rows[-1]]
    return made.read(*rows)


def test_arms_say_at_what_they_were_measured():
    found = arm_table(at_rates(0.03, 0.3, edge="learning_rate 0.3 is the largest tried"))
    names = list(found.columns)
    assert names.index("learning_rate") == names.index("n") - 1
    assert found.columns["learning_rate"] == ["0.03", "0.3 ^"]
    assert "each arm at the learning_rate that its own search chose: 0.03 to 0.3" in found.notes
    assert "^: the least or greatest value that was tried: others beyond may be better" in found.notes


def test_arms_that_were_not_searched_for_are_marked():
    tuned = made.timed("a", 5.0, batch_size=8, learning_rate_base=0.03, tuned="learning_rate")
    other = made.timed("b", 5.0, batch_size=16, learning_rate_base=0.1, study="made-2")
    found = arm_table(made.read(tuned, other))
    assert found.columns["learning_rate"] == ["0.03", "0.1 !"]
    assert "!: not searched for" in found.notes


def test_one_rate_for_all_is_said_where_each_may_have_its_own():
    found = arm_table(at_rates(0.1, 0.1, tuned=None))
    assert "not tuned: all arms at learning_rate 0.1" in found.notes
    assert "learning_rate" not in found.columns
    by_hand = arm_table(at_rates(0.1, 0.2, tuned=None))
    assert "learning_rate" in by_hand.columns, "an axis is a column of its own"
    assert not any("tuned" in note for note in by_hand.notes)


@pytest.mark.parametrize(
    ("count", "loss", "title"),
    [
        (1, 0.3, "One completed repeat of each arm: nothing is known of chance"),
        (5, 0.3, "Median [interval that covers at least 93%] of n completed repeats"),
        (5, None, "Median of n completed repeats"),
    ],
)
def test_the_title_says_what_the_cells_are_medians_of(count, loss, title):
    rows = made.arm("a", {"validation_loss": [loss] * count}, scenario="s")
    assert arm_table(made.read(rows)).title == title


@pytest.mark.parametrize(("count", "is_narrower"), [(1, False), (2, True), (5, False)])
def test_the_intervals_of_efficiency_cover_more_than_those_of_few_repeats(count, is_narrower):
    arms = made.read(made.timed("a", 5.0, count), made.timed("one", 9.0, count, 3, **made.ALONE))
    assert any("its intervals cover 95%" in note for note in arm_table(arms).notes) == is_narrower


@pytest.mark.parametrize(("validated", "is_shown"), [(None, True), (0.3, False)])
def test_a_score_of_training_is_shown_where_there_is_none_of_validation(validated, is_shown):
    rows = made.arm("a", {"train_loss": [0.5] * 3, "validation_loss": [validated] * 3})
    assert ("train loss" in arm_table(made.read(rows)).columns) == is_shown


def test_a_median_of_fewer_repeats_has_no_interval_and_says_so():
    rates = [100.0, 110.0, None, None, None]
    found = arm_table(made.read(made.arm("a", {"validation_loss": [0.3] * 5, "samples_per_s": rates})))
    assert found.columns["steady samples/s"] == ["105 (2 of 5)"]
    assert "at least 93%" in found.title
