"""What is recommended, of every kind of study in which advice has been foolish."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pytest

from dlbench.analysis.answer.answer import Answer, ArmAnswer, Next
from dlbench.analysis.answer.decide import Wanted, best_first
from dlbench.analysis.answer.lines import MOST_LINES, heading, lines
from dlbench.analysis.answer.recommend import StudyPlace, recommend, retargeted
from dlbench.scenario.cluster import Prices
from dlbench.scenario.goal import Goal
from dlbench.scenario.metrics import BUILT_IN, Metric, MetricDeclaration, declared
from tests.unit.analysis.made import ALONE, arm, failed, noisy, read

TARGET = {"target_metric": "validation_accuracy", "target_value": 0.7}
PLACE = {"made-1": StudyPlace(Path("studies/made-1"))}


def trained(
    name: str, seconds: float, accuracy: float = 0.95, count: int = 5, seed: int = 0, **values: Any
) -> list[dict[str, Any]]:
    """Return an arm with quiet times and accuracies."""
    columns: dict[str, list[Any]] = {
        "train_time_s": noisy(seconds, count, seed, 0.005),
        "validation_accuracy": [min(1.0, value) for value in noisy(accuracy, count, seed + 50, 0.001)],
        "validation_loss": noisy(max(1 - accuracy, 0.01), count, seed + 90, 0.01),
        "wall_time_s": [seconds + 1.0] * count,
    }
    for column in [name for name in values if isinstance(values[name], list)]:
        columns[column] = values.pop(column)
    return arm(name, columns, **values)


def answer(*arms: Iterable[Mapping[str, Any]], wanted: Wanted | None = None, **options: Any) -> Answer:
    found = recommend(read(*arms), wanted or Wanted(), PLACE, **options)
    assert len(found) == 1
    return found[0]


def named(found: Answer) -> dict[str, ArmAnswer]:
    return {one.name: one for one in found.arms}


def used(found: Answer) -> ArmAnswer:
    assert found.use is not None
    return found.use


def tried(found: Answer) -> Next:
    assert found.next is not None
    return found.next


def text(found: Answer, metrics: Mapping[str, Metric] = BUILT_IN) -> str:
    return "\n".join((heading(found), *(f"{label} {line}" for label, line in lines(found, metrics))))


def doubts(found: Answer) -> list[str]:
    return [doubt.text for doubt in found.doubts]


SLOW, FAST = trained("slow", 10.0, batch_size=8), trained("fast", 5.0, batch_size=16, seed=3)


BAD = {"seconds": 1.0, "batch_size": 64}
TABLE: dict[str, Any] = {"command": "imported", "dataset_checksum": None, "stated": "samples_per_s"}
USD = Prices(currency="USD", worker_hour=2.5)
MORE = [trained("four", 3600.0, workers=4), trained("one", 7200.0, seed=3, **ALONE)]
RANDOM = [
    trained(name, seconds, workers=n, input="synthetic", samples_per_s=noisy(rate, 5, n, 0.005))
    for n, (name, seconds, rate) in enumerate((("a", 5.0, 1000.0), ("b", 50.0, 2000.0)), 1)
]
TIMES = [
    arm("four", {"train_time_s": noisy(3600.0, 5, 1, 0.005)}, workers=4),
    arm("one", {"train_time_s": noisy(7200.0, 5, 2, 0.005)}, **ALONE),
]


def rated(name: str, rate: float, *, seed: int = 0, **values: Any) -> list[dict[str, Any]]:
    """Return an arm of a script that states its rate, and no time."""
    return arm(name, {"samples_per_s": noisy(rate, 5, seed, 0.001)}, command="train.py", **values)


HOST = Prices(currency="", host_hour=2.5)
OF_HOSTS = [[row | {"hosts": None} for row in rows] for rows in MORE]
SCORED = [
    rated(name, rate, workers=n, validation_accuracy=score)
    for n, name, rate, score in ((1, "a", 50.0, 0.9), (2, "b", 90.0, 0.9), (4, "c", 160.0, 0.8))
]
EQUAL = [
    rated(name, 90.0, **values) for name, values in (("two", {"workers": 2}), ("mpi1", {"workers": 1}), ("one", ALONE))
]


@pytest.mark.parametrize(
    ("arms", "wanted", "use", "said"),
    [
        ([SLOW, FAST], {}, "fast", []),
        ([SLOW, trained("fast", 5.0, 0.80, batch_size=16, seed=3)], {}, "slow",
         ["faster mpi, batch 16  ", "loses: validation accuracy 15 points lower"]),
        # What costs less is not said to be faster.
        ([trained("two", 8.0, workers=2), trained("one", 10.0, 0.80, seed=3, **ALONE)], {"goal": Goal(least="cost")},
         "two", ["cheaper one worker alone  ", "loses: validation accuracy 15 points lower"]),
        # One unit for all worker-times.
        ([trained("two", 200.0, workers=2), trained("one", 320.0, 0.80, seed=3, **ALONE)],
         {"goal": Goal(least="cost")}, "two", ["use mpi  400 worker-seconds", "  319 worker-seconds"]),
        ([SLOW], {}, "slow", ["only ", "no other arm to compare it with"]),
        ([SLOW, failed("bad", 3, "diverged", batch_size=64)], {}, "slow", ["use mpi, batch 8"]),
        # What is out may score more.
        ([SLOW, trained("fast", 5.0, 0.96, batch_size=16, seed=3), failed("bad", 3, "diverged", batch_size=64)], {},
         "fast", ["keeps: the best score of those compared"]),
        # What cannot be recommended is out, with its reason.
        ([SLOW, FAST, trained("bad", **BAD, validation_accuracy=[0.1, 0.11, 0.09, 0.1, 0.1])], {}, "fast",
         ["bad: no better than knowing nothing"]),
        ([SLOW, FAST, trained("bad", **BAD, validation_accuracy=[0.95, 0.1, 0.95, 0.95, 0.95])], {}, "fast",
         ["bad: ", "in 1 of 5 runs"]),
        ([SLOW, FAST, trained("bad", **BAD, validation_loss=[0.1, 52_642.0, 0.1, 0.1, 0.1])], {}, "fast",
         ["bad: exploded in 1 of 5 runs"]),
        ([SLOW, FAST, failed("bad", 3, "diverged", batch_size=64)], {}, "fast",
         ["bad: 3 of 3 runs did not complete: 3 diverged"]),
        ([SLOW, FAST, trained("bad", **BAD, status=["completed"] * 4 + ["out-of-memory"])], {}, "fast",
         ["bad: ", "1 out-of-memory"]),
        ([trained("two", 5.0, 0.75, 3, batch_size=32, time_to_target_s=[2.0, None, None], **TARGET),
          trained("one", 9.0, 0.75, 3, batch_size=32, seed=3, time_to_target_s=[4.0, 4.1, 3.9], **ALONE, **TARGET)],
         {}, "one", ["two: 1 of 3 runs reached validation accuracy 0.7"]),
        ([trained("mpi1", 9.9, workers=1), trained("mpi2", 6.0, seed=3), trained("a", 10.0, seed=5, **ALONE)],
         {}, "mpi2", ["mpi1: one worker alone does the same without messages"]),
        # Workers that do not pay are not added; of arms that are alike the cheapest is used.
        ([trained("two", 12.0, workers=2), trained("a", 10.0, seed=5, **ALONE)], {}, "a",
         ["use one worker alone", "do not add workers"]),
        ([trained(f"w{n}", seconds, workers=n, seed=n) for n, seconds in {1: 20.0, 2: 10.0, 4: 9.99, 8: 9.98}.items()],
         {}, "w2", ["do not add workers"]),
        # Random numbers are judged by throughput, a deadline is one of training times.
        (RANDOM, {}, "b", ["highest throughput"]),
        (RANDOM, {"goal": Goal(least="throughput"), "deadline_s": 20.0}, "a", ["b: over the deadline: "]),
        (RANDOM, {"goal": Goal()}, "a", ["Answer: least training time"]),
        # Rates decide among arms that keep their score where none has a time.
        *((SCORED, wanted, "b", ["highest throughput with validation accuracy within 1 point of the best", "loses: "])
          for wanted in ({}, {"goal": Goal()}, {"goal": Goal(quality="validation_accuracy")})),
        (SCORED, {"goal": Goal(least="throughput")}, "c", []),
        # Workers that add nothing are not used, in whatever order arms stand.
        *((arms, {}, use, []) for use, arms in (("one", EQUAL), ("one", EQUAL[::-1]), ("one", EQUAL[1:]))),
        *((arms, {}, "mpi1", []) for arms in (EQUAL[:2], EQUAL[1::-1])),
        ([rated("two", 90.5, seed=3, workers=2), EQUAL[2]], {}, "one", ["do not add workers"]),
        # Without scores and rates there are times.
        (TIMES, {}, "four", ["Answer: least training time"]),
        # A time to an accuracy decides beside rates; who has none did not reach it.
        ([arm(name, {"samples_per_s": noisy(rate, 3, n), "train_time_s": times}, workers=n, **TABLE,
              target_metric="validation_accuracy")
          for n, name, rate, times in ((8, "eight", 100.0, [60.0, 61.0, 60.0]), (16, "more", 200.0, [None] * 3))],
         {}, "eight", ["Answer: least training time", "more: no training time"]),
        (TIMES, {"goal": Goal(least="cost")}, "one", ["Answer: least worker-hours"]),
        (TIMES, {"prices": USD, "max_cost": 6.0}, "one", ["four: over the most that it may cost: "]),
        (MORE, {"prices": USD}, "four", [" USD  ", "cheaper one worker alone"]),
        (MORE, {"prices": Prices(currency="", worker_hour=2.5)}, "four", [", cost 10"]),
        (MORE, {"prices": Prices(currency="", worker_hour=2.5), "goal": Goal(least="cost")}, "one", ["  cost 4.99 ["]),
        (MORE, {"prices": USD, "goal": Goal(least="cost")}, "one", []),
        (MORE, {"prices": USD, "deadline_s": 5000.0}, "four",
         ["one: over the deadline: 5 of 5 runs, the slowest 7,"]),
        ([trained("slow", 9.0, train_time_s=[8.0, 8.0, 9.0, 8.0, 8.0]), FAST], {"deadline_s": 8.5}, "fast",
         ["slow: over the deadline: 1 of 5 runs, the slowest 9 s"]),
        (MORE, {"prices": USD, "max_cost": 6.0}, "one", ["four: over the most that it may cost: "]),
        # Four workers of a table may be on any number of hosts.
        (OF_HOSTS, {"prices": HOST}, "four", ["; host-hours need a column of hosts"]),
        (OF_HOSTS, {"prices": HOST, "max_cost": 6.0}, "one", ["four: host-hours need a column of hosts"]),
        ([[row | {"hosts": 2} for row in rows] for rows in OF_HOSTS], {"prices": HOST}, "four", [", cost 5"]),
        # Servers take places.
        ([trained("ps", 3500.0, strategy="parameter_server", servers=2, server_placement="own", workers=2),
          trained("ring", 3600.0, workers=2, seed=3)], {"goal": Goal(least="cost")}, "ring", []),
    ],
)  # fmt: skip
def test_what_is_used_and_why_others_are_out(
    arms: list[list[dict[str, Any]]], wanted: dict[str, Any], use: str, said: list[str]
) -> None:
    found = answer(*arms, wanted=Wanted(**wanted))
    assert used(found).name == use
    words = "\n".join([text(found), *(f"{one.name}: {one.reason}" for one in found.arms if one.word == "out")])
    assert [part for part in said if part not in words] == [], words


@pytest.mark.parametrize(
    ("seconds", "accuracy", "deadline_s", "is_open"),
    [
        (7200.0, 0.95, None, True),
        # On one host it would cost more already, or it is no choice.
        (14500.0, 0.95, None, False),
        (7200.0, 0.8, None, False),
        (7200.0, 0.95, 5000.0, False),
    ],
)
def test_no_arm_is_used_while_one_of_an_unknown_price_may_cost_less(
    seconds: float, accuracy: float, deadline_s: float | None, is_open: bool
) -> None:
    four = [row | {"hosts": 4} for row in MORE[0]]
    two = [row | {"hosts": None} for row in trained("two", seconds, accuracy, seed=3, workers=2)]
    found = answer(four, two, wanted=Wanted(Goal(least="cost"), prices=HOST, deadline_s=deadline_s))
    assert (found.use is None, found.either) == (is_open, ("mpi, 4 workers", "mpi, 2 workers") if is_open else ())
    assert doubts(found)[0].startswith("host-hours need a column of hosts") == is_open


def test_an_arm_without_time_and_price_is_out() -> None:
    wanted = Wanted(Goal(least="cost"), prices=HOST)
    found = answer(OF_HOSTS[1], [row | {"train_time_s": None} for row in OF_HOSTS[0]], wanted=wanted)
    assert (used(found).name, named(found)["four"].word) == ("one", "out")


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"goal": Goal(least="cost")}, "no training time"),
        ({"deadline_s": 9.0}, "no training time"),
        ({"prices": USD, "max_cost": 9.0}, "no training time"),
        ({"goal": Goal(quality="validation_loss")}, "no validation loss"),
        ({"goal": Goal()}, ""),
    ],
)
def test_a_goal_or_limit_that_cannot_be_judged_is_never_left_out(wanted: dict[str, Any], reason: str) -> None:
    rates = (
        arm(name, {"samples_per_s": noisy(rate, 5, n)}, workers=n) for n, name, rate in ((1, "a", 50.0), (2, "b", 90.0))
    )
    assert {one.reason for one in answer(*rates, wanted=Wanted(**wanted)).arms} == {reason}


def test_not_significant_is_not_equal() -> None:
    """Accuracies of 0.41 beside 0.95 that scatter so much that no test tells them apart."""
    wild = trained("wild", 2.0, batch_size=16, count=3, validation_accuracy=[0.41, 0.2, 0.93])
    found = answer(trained("sure", 10.0, count=3, batch_size=8), wild)
    assert named(found)["wild"].word in ("open", "loses")
    assert found.use is None or found.use.name != "wild"


@pytest.mark.parametrize(
    ("loss", "changed", "change"),
    [
        (18.0, {}, "learning_rate=5"),
        (2.3, {}, "tune.learning_rate=auto"),
        (2.3, {"tuned": "learning_rate"}, "epochs=10"),
        (2.3, {"tuned": "learning_rate", "tuned_at_edge": "learning_rate 50"}, "epochs=10"),
        # Where most samples are of one class, an untrained model's loss is far above that, too.
        (1.53, {"knows_nothing_loss": 0.73, "knows_nothing_accuracy": 0.69}, "tune.learning_rate=auto"),
        (18.0, {"knows_nothing_loss": 0.73, "knows_nothing_accuracy": 0.69}, "tune.learning_rate=auto"),
    ],
)
def test_nothing_is_recommended_where_nothing_is_learned(loss: float, changed: dict[str, Any], change: str) -> None:
    """A loss above that of knowing nothing was driven there by the rate; one that is not was left there."""
    common: dict[str, Any] = {"learning_rate_base": 50.0, "epochs": 5, "validation_loss": [loss] * 5, **changed}
    found = answer(
        trained("a", 5.0, 0.1, **common), trained("b", 9.0, 0.1, seed=3, **ALONE, **common),
        trained("c", 2.0, 0.1, workers=4, seed=5, **common),
    )  # fmt: skip
    assert found.use is None
    assert {one.word for one in found.arms} == {"out"}
    assert tried(found).command == f"dlbench run studies/made-1/scenario.yaml --set {change}"
    assert tried(found).seconds == (95.0 if change == "learning_rate=5" else 190.0)


def test_another_study_has_the_same_arms_repeats_and_place_but_for_what_is_changed() -> None:
    asked = (("--output", "my studies"), ("--repeats", "5"), ("--only", "epochs=5"), ("--only", "workers=2"))
    place = {"made-1": StudyPlace(Path("my studies/made-1"), asked=asked)}
    missed = [trained(f"a{n}", n, 0.5, epochs=5, seed=n, time_to_target_s=[None] * 5, **TARGET) for n in (1, 2)]
    (found,) = recommend(read(*missed), Wanted(), place)
    again = "dlbench run 'my studies/made-1/scenario.yaml' --output 'my studies' --repeats 5 --only workers=2"
    assert tried(found).command == f"{again} --set epochs=10"


@pytest.mark.parametrize("given", [[], ["learning_rate"]])
def test_learning_rates_of_an_axis_are_not_set_nor_searched_for(given: list[str]) -> None:
    arms = [trained(str(n), 5.0, 0.1, seed=n, learning_rate_base=0.1 * n, validation_loss=[9.0 / n] * 5, epochs=5)
            for n in (1, 4)]  # fmt: skip
    found = recommend(read(*arms), Wanted(), PLACE, given)
    assert {tried(each).command.partition("--set ")[2] for each in found} == {"epochs=10"}


def test_a_target_that_nobody_reached_recommends_nothing_and_says_so_first() -> None:
    missed = {"time_to_target_s": [None] * 5, "epochs": 5, **TARGET}
    found = answer(*(trained(f"a{n}", n, 0.5, 5, workers=n, **missed) for n in (1, 2, 4)))
    assert found.use is None
    why = "no arm can be recommended: 0 of 5 runs reached validation accuracy 0.7 (each of 3 arms)"
    assert lines(found)[0] == ("none", why)
    assert "--set epochs=10" in tried(found).command


@pytest.mark.parametrize(
    ("note", "why"),
    [
        (None, "no time to validation accuracy 0.7: the script reports no epochs"),
        ("time_to_target_s: nothing that was printed matches", "0 of 5 runs reached validation accuracy 0.7"),
    ],
)
def test_a_script_that_reports_no_epochs_has_not_missed_a_target(note: str | None, why: str) -> None:
    script = {"command": "python train.py", "steps": None, "timed_window_s": None, "stated_note": note}
    rows = trained("a", 1.0, 0.9, 5, time_to_target_s=[None] * 5, **script, **TARGET)
    found = answer(rows, trained("b", 2.0, 0.9, 5, time_to_target_s=[None] * 5, **script, **TARGET))
    assert lines(found)[0] == ("none", f"no arm can be recommended: {why} (each of 2 arms)")


def test_runs_that_their_own_target_ended_train_on_to_a_better_one_and_have_their_scores_doubted() -> None:
    ended = {"target_stop": True, "epochs_completed": 2, "epochs_per_worker": 5, "epochs": 5, **TARGET}
    rows = [
        trained(name, 5.0 * n, workers=n, time_to_target_s=[1.0 + n] * 5, **ended) for n, name in enumerate("ab", 1)
    ]
    epochs = pd.DataFrame({"study": [], "run_id": [], "validation_accuracy": [], "epoch": [], "train_time_s": []})
    arms = retargeted(read(*rows), epochs, ("validation_accuracy", 0.99), BUILT_IN)
    (found,) = recommend(arms, Wanted(goal=Goal(target=("validation_accuracy", 0.99))), PLACE)
    assert found.use is None
    assert "0 of 5 runs reached validation accuracy 0.99: 5 ended before it, at the scenario's own" in text(found)
    assert "--set target.stop=false" in tried(found).command
    doubt = "scores are those at which a target ended 10 of 10 runs (`target.stop`)"
    goals = (Goal(), Goal(target=("validation_accuracy", 0.7)))
    assert [doubt in doubts(answer(*rows, wanted=Wanted(goal=goal))) for goal in goals] == [True, False]


def test_more_epochs_are_no_advice_where_arms_are_over_a_limit_only() -> None:
    target = {"epochs": 5, **TARGET}
    late, missed = ([9.0] * 5, [None] * 5)
    found = answer(
        trained("late", 9.0, time_to_target_s=late, **target),
        trained("missed", 9.0, 0.5, time_to_target_s=missed, workers=4, **target),
        wanted=Wanted(deadline_s=5.0),
    )
    assert found.use is None
    assert tried(found).command == "dlbench report studies/made-1"


def test_conditions_are_never_advised_and_never_compared() -> None:
    simulated = {"emulated": "simulated", "communicator": "simulated", "communicator.bandwidth_bytes_per_s": 1.2e6}
    arms = [
        trained(f"{workers}-{slow}", seconds * (1 + 3 * slow), workers=workers, seed=workers + slow,
                **{"communicator.slow_workers": slow}, **simulated)
        for workers, seconds in ((2, 5.0), (4, 3.0))
        for slow in (0, 1)
    ]  # fmt: skip
    found = recommend(read(*arms), Wanted(), PLACE)
    workers = {one.condition: one.use and one.use.settings["workers"] for one in found}
    assert workers == {"no straggler": 4, "one straggler": 4}
    assert all("slow_workers" not in key for one in found for part in one.arms for key in part.settings)
    declared = recommend(read(SLOW, FAST), Wanted(), given=("batch_size",))
    assert [one.condition for one in declared] == ["batch 8", "batch 16"]
    alone = trained("alone", 1.0, batch_size=32, seed=4, **ALONE)
    declared = recommend(read(SLOW, FAST, alone), Wanted(), given=("workers",))
    assert {one.condition: one.use and one.use.workers for one in declared} == {"2 workers": 2}


def test_arms_of_about_the_same_time_are_either_and_more_repeats_are_named() -> None:
    a = trained("a", 10.0, batch_size=8, train_time_s=[10.0, 10.3, 9.8, 10.1, 9.9])
    b = trained("b", 10.0, batch_size=16, train_time_s=[10.1, 9.8, 10.2, 9.9, 10.3])
    found = answer(a, b)
    assert found.use is None
    assert set(found.either) == {"mpi, batch 8", "mpi, batch 16"}
    assert tried(found).command.startswith("dlbench run --study studies/made-1 --repeats ")
    assert lines(found)[0][0] == "either"
    # Bounds alone: the means differ the other way than the medians beside them.
    assert re.search(r"open mpi, batch \d+  between -[\d.]+% and \+[\d.]+%: ", text(found))


def test_an_arm_of_open_quality_that_is_faster_is_named_beside_those_of_which_one_is_right() -> None:
    times = {8: [94.0, 101.0, 106.0, 98.0, 102.0], 16: [105.0, 95.0, 101.0, 98.0, 100.0], 32: [50.0] * 5}
    scores = {8: [0.9, 0.901, 0.899, 0.9005, 0.9002], 32: [0.8885, 0.8905, 0.8925, 0.8912, 0.8899]}
    found = answer(*(
        trained(str(batch), 9.0, batch_size=batch, train_time_s=times[batch],
                validation_accuracy=scores.get(batch, scores[8]))
        for batch in times
    ))  # fmt: skip
    assert found.either[0] == found.open[0] == "mpi, batch 32"
    assert set(found.either[1:]) == {"mpi, batch 8", "mpi, batch 16"}
    # What is open is not what the arms are ranked by, so that it has its name.
    assert re.search(r"open mpi, batch 32  validation accuracy between -[\d.]+ and [-+]?[\d.]+ points  ", text(found))


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ([[0.9, 0.902, 0.898], [0.9, 0.9, 0.898], [0.89, 0.87, 0.88]], "0.900  keeps: the best score"),
        # Of the others none comes near.
        ([[0.9, 0.902, 0.898], [0.5, 0.501, 0.499]], "0.900  keeps: the best score"),
        # Its mean is the best, its median is not.
        ([[0.9, 0.9, 0.9, 0.904, 0.904], [0.899, 0.9, 0.902, 0.902, 0.902]],
         "0.900  keeps: 0.2 points behind the best, at worst 0.2"),
    ],
)  # fmt: skip
def test_how_far_the_score_is_behind_the_best_one(scores: list[list[float]], said: str) -> None:
    arms = [
        trained(str(place), 4.0 + place, count=len(each), batch_size=8 + place, validation_accuracy=each)
        for place, each in enumerate(scores)
    ]
    found = answer(*arms)
    assert f"validation accuracy {said}" in text(found)
    gap = used(found).quality.difference
    assert gap is None or gap.against != used(found).title


STEPS: dict[str, Any] = {"epochs": None, "batch_size_global": 8, "imported.steps": 1000.0}


def of_times(name: str, seconds: float, **values: Any) -> list[dict[str, Any]]:
    """Return an arm without scores of validation."""
    return arm(name, {"train_time_s": noisy(seconds, 5, int(seconds), 0.005)}, **TABLE, **values)


@pytest.mark.parametrize(
    ("long", "short", "said"),
    [
        ({"epochs": 90}, {"epochs": 10}, "training times are of unequal work, which no score judges: 10 to 90 epochs"),
        (STEPS, STEPS | {"imported.steps": 100.0}, "100 to 1,000 steps"),
        # As many samples in larger batches.
        (STEPS, STEPS | {"imported.steps": 100.0, "batch_size_global": 80}, ""),
        ({"train_loss": 0.3}, {"train_loss": 2.4}, "its training loss is 2.40, of mpi, 4 workers 0.300"),
        ({"train_loss": 0.3}, {"train_loss": 0.31}, ""),
    ],
)  # fmt: skip
def test_a_time_that_no_score_judges_is_doubted_where_less_was_done(
    long: dict[str, Any], short: dict[str, Any], said: str
) -> None:
    found = answer(of_times("long", 100.0, workers=4, **long), of_times("short", 20.0, workers=8, **short))
    assert used(found).name == "short"
    heavy = [doubt.text for doubt in found.doubts if doubt.weight >= 80]
    assert len(heavy) == bool(said)
    assert said in "".join(heavy)


@pytest.mark.parametrize(
    ("goal", "epochs", "is_doubted"),
    [(None, 10, True), (Goal(), 10, True), (Goal(least="throughput"), 10, False), (None, 90, False)],
)
def test_a_rate_that_no_score_judges_is_doubted_where_less_was_learned_unless_it_is_asked_for(
    goal: Goal | None, epochs: int, is_doubted: bool
) -> None:
    slow, fast = (
        arm(name, {"samples_per_s": noisy(rate, 5, int(rate), 0.005)}, **TABLE, epochs=each, train_loss=loss)
        for name, rate, each, loss in (("slow", 100.0, epochs, 0.3), ("fast", 500.0, 10, 2.4))
    )
    found = answer(slow, fast, wanted=Wanted(goal=goal))
    assert (found.goal, used(found).name) == ("highest throughput", "fast")
    assert ("its training loss is 2.40, of" in found.doubts[0].text) == is_doubted


def test_less_of_the_training_is_not_called_cheaper() -> None:
    rates = {"samples_per_s": noisy(1000.0, 5, 1, 0.001)}
    arms = [
        [row | {"samples_per_s": row["samples_per_s"] * share} for row in arm(name, {
            "samples_per_s": rates["samples_per_s"], "train_time_s": noisy(seconds, 5, 2)
        }, **TABLE, epochs=epochs)]
        for name, share, seconds, epochs in (("long", 1.0, 9000.0, 90), ("short", 0.6, 1500.0, 10))
    ]  # fmt: skip
    found = answer(*arms, wanted=Wanted(goal=Goal(least="throughput")))
    assert (used(found).name, found.cheaper) == ("long", None)


@pytest.mark.parametrize(("column", "kinds"), [("imported.system", "AB"), ("cores_per_worker", (1.0, 2.0))])
@pytest.mark.parametrize(
    ("wanted", "doubt"),
    [
        ({}, ""),
        ({"prices": USD}, "one price for unlike machines or cores"),
        ({"goal": Goal(least="cost")}, "worker-hours alone for unlike machines or cores"),
    ],
)
def test_hours_of_unlike_workers_have_no_common_price(
    column: str, kinds: Sequence[Any], wanted: dict[str, Any], doubt: str
) -> None:
    for names, is_unlike in ((kinds[:1] * 2, False), (kinds, True)):
        arms = ([row | {column: name} for row in rows] for name, rows in zip(names, MORE, strict=True))
        advice = answer(*arms, wanted=Wanted(**wanted))
        assert (advice.cheaper is None) == (is_unlike or "goal" in wanted)
        assert [words for words in doubts(advice) if "unlike" in words] == [doubt] * bool(is_unlike and doubt)


def test_the_price_of_a_host_is_that_of_all_its_cores() -> None:
    kinds = ({"hosts": 4, "cores_per_worker": 1.0}, {"cores_per_worker": 2.0})
    found = answer(*([row | kind for row in rows] for kind, rows in zip(kinds, MORE, strict=True)),
                   wanted=Wanted(prices=HOST))  # fmt: skip
    assert found.cheaper == "one worker alone"
    assert not any("unlike" in one for one in doubts(found))


def test_more_workers_are_advised_against_where_they_ran_and_bought_nothing() -> None:
    two, never = trained("two", 55.0, workers=2, batch_size=256), trained("a", 100.0, seed=3, batch_size=256, **ALONE)
    assert "do not add workers" not in text(answer(two, never, trained("four", 90.0, workers=4, batch_size=16, seed=5)))
    assert "do not add workers" in text(answer(two, never, trained("four", 90.0, workers=4, batch_size=256, seed=5)))
    # Twice as fast, and worse by what more tuning may give back.
    worse = trained("four", 27.0, 0.93, workers=4, batch_size=256, seed=5)
    assert "do not add workers" not in text(answer(two, never, worse))


@pytest.mark.parametrize(("share", "rule"), [(0.94, None), (1.0, None), (1.08, "until decided: 3 to 20")])
def test_an_arm_that_may_be_better_is_open_though_its_median_is_behind(share: float, rule: str | None) -> None:
    accuracies, seconds = (0.900, 0.906, 0.893, 0.909, 0.890), (101.0, 94.0, 110.0, 91.0, 108.0)
    quiet = trained("quiet", 100.0, accuracy=0.905)
    wild = arm("wild", {"validation_accuracy": accuracies, "train_time_s": [share * s for s in seconds]}, batch_size=8)
    slow = arm("slow", {"validation_accuracy": accuracies, "train_time_s": [2 * s for s in seconds]}, batch_size=4)
    found = answer(*([row | {"repeats_rule": rule} for row in rows] for rows in (quiet, wild, slow)))
    assert (used(found).name, found.open) == ("quiet", (named(found)["wild"].title,))


def test_a_race_to_a_target_is_of_unequal_work() -> None:
    reached = {**TARGET, "time_to_target_s": 5.0}
    found = answer(
        trained("a", 9.0, samples_seen=900, **reached), trained("b", 5.0, batch_size=8, samples_seen=90, **reached)
    )
    assert found.goal == "least time to validation accuracy 0.7"
    assert not [doubt for doubt in doubts(found) if "unequal" in doubt]


def test_what_is_cheaper_is_the_cheapest_of_the_same_machines() -> None:
    arms = [trained("other", 8000.0, **ALONE), trained("two", 5400.0, workers=2, seed=3), MORE[0]]
    found = answer(*([row | {"imported.system": name} for row in rows] for name, rows in zip("BAA", arms, strict=True)))
    assert (used(found).name, found.cheaper) == ("four", named(found)["two"].title)


SIMULATED = {"communicator": "simulated", "emulated": "simulated"}
WILD = trained("wild", 2.0, batch_size=16, validation_accuracy=[0.95, 0.93, 0.96, 0.91, 0.97])
LONG = trained("long", 1000.0, 0.5, batch_size=4, seed=5)
LONE = [trained("a", 10.0, count=1, batch_size=8), trained("b", 5.0, count=1, batch_size=16)]
# Both faster arms are open: the faster by 20 further repeats, the other by 8.
NEAR = [
    trained(str(batch), seconds, batch_size=batch, validation_accuracy=[accuracy + noise for noise in order])
    for batch, seconds, accuracy, order in (
        (8, 10.0, 0.95, (-0.006, -0.0024, 0.0, 0.0036, 0.0048)),
        (16, 2.0, 0.9455, (0.0036, -0.0024, 0.0048, -0.006, 0.0)),
        (32, 3.0, 0.9475, (0.0, 0.0048, -0.006, -0.0024, 0.0036)),
    )
]
# Of the slowest arm 6 or 10 further repeats tell, of the fastest 16 or none.
ALIKE = {
    scatter: [
        trained(str(batch), 10.0, batch_size=batch, train_time_s=[seconds + scatter * noise for noise in order])
        for batch, seconds, order in (
            (8, 10.0, (-0.3, -0.12, 0.0, 0.18, 0.24)),
            (16, 10.1, (0.18, -0.12, 0.24, -0.3, 0.0)),
            (32, 10.0 + 0.4 * scatter, (0.0, 0.24, -0.3, -0.12, 0.18)),
        )
    ]
    for scatter in (1, 5)
}


@pytest.mark.parametrize(
    ("arms", "command", "why", "seconds"),
    [
        # Until five, repeats are made of all arms, then of those that are open as many as decide.
        (LONE, "run --study studies/made-1 --repeats 5", "5 repeats begin to tell", 4 * 2 * 8.5),
        # An arm of fewer repeats than the others gets as many as tell anything.
        ([LONE[1], SLOW], "run --study studies/made-1 --repeats 5", "5 repeats begin to tell", 4 * 6.0),
        ([SLOW, WILD, LONG], "run --study studies/made-1 --repeats 5..69", "settles what is open", 40 * (11 + 3)),
        # What tells of most arms for its time, not what the first one needs.
        (NEAR, "run --study studies/made-1 --repeats 5..18", "settles 1 of 2 open arms", 8 * (11 + 3 + 4)),
        # Without an arm to use the likeliest is settled, too, where repeats can: not the slowest alone.
        (ALIKE[1], "run --study studies/made-1 --repeats 5..31", "settles 2 of 3 open arms", 16 * 3 * 11),
        (ALIKE[5], "run --study studies/made-1 --repeats 5..21", "settles 1 of 3 open arms", 10 * 3 * 11),
        # A failed run is repeated first, unless all runs of its arm failed.
        ([SLOW, [*FAST[:4], FAST[4] | {"status": "timeout"}]], "run --study studies/made-1",
         "repeats 1 run that failed", 6.0),
        ([SLOW, failed("dead", 3, "out-of-memory", batch_size=64)], "logs dead-r0 --study studies/made-1",
         "why it failed", None),
        # Nor does a second attempt, or a simulator, that failed end otherwise.
        ([SLOW, [*FAST[:4], FAST[4] | {"status": "failed", "attempt": 2}]],
         f"logs {FAST[4]['run_id']} --study studies/made-1", "why it failed", None),
        ([SLOW, failed("dead", 1, batch_size=64, attempt=2)], "logs dead-r0 --study studies/made-1",
         "why it failed", None),
        ([[row | SIMULATED for row in SLOW], failed("dead", 1, batch_size=64, **SIMULATED)],
         "logs dead-r0 --study studies/made-1", "why it failed", None),
    ],
)  # fmt: skip
def test_what_is_run_next_says_its_time_and_what_it_settles(
    arms: list[list[dict[str, Any]]], command: str, why: str, seconds: float | None
) -> None:
    following = tried(answer(*arms))
    assert (following.command, following.why) == (f"dlbench {command}", why)
    assert following.seconds == (seconds if seconds is None else pytest.approx(seconds))


def test_what_a_study_does_not_decide_by_is_asked_of_as_many_repeats_of_all_arms() -> None:
    place = {"made-1": StudyPlace(Path("studies/made-1"), decides=False)}
    for arms, command in (
        ([SLOW, WILD, LONG], "run --study studies/made-1 --repeats 45"),
        (
            [trained("a", 10.0, batch_size=8, tuned="learning_rate"), trained("b", 5.0, batch_size=16)],
            "report studies/made-1",
        ),
    ):
        (found,) = recommend(read(*arms), Wanted(), place)
        assert tried(found).command == f"dlbench {command}"


def test_beyond_what_a_rule_allows_a_plain_number_of_repeats_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dlbench.analysis.answer.recommend.MOST_OF_RULE", 40)
    found = tried(answer(SLOW, WILD, LONG))
    assert found.command == "dlbench run --study studies/made-1 --repeats 45"
    assert found.seconds == pytest.approx(40 * (11 + 3 + 1001))


def test_of_too_few_repeats_no_further_ones_are_promised() -> None:
    found = answer(*LONE)
    assert {judged.quality.difference.further for judged in found.arms} == {None}
    assert "open mpi, batch 16  1 repeat: 5 begin to tell  " in text(found)
    # Two repeats beside five are as few as two.
    assert "open mpi, batch 16  2 repeats: 5 begin to tell  " in text(
        answer(SLOW, trained("b", 5.0, 0.95, 2, batch_size=16))
    )


@pytest.mark.parametrize("unmeasured", [True, False])
def test_while_runs_are_missing_those_are_made_and_nothing_is_recommended_without_an_arm(unmeasured: bool) -> None:
    missing = 3 if unmeasured else 1
    asked = (("--repeats", "5"), ("--only", "strategy=mpi"))
    place = {"made-1": StudyPlace(Path("studies/made-1"), missing=missing, unmeasured=unmeasured, asked=asked)}
    (found,) = recommend(read(SLOW, FAST), Wanted(), place)
    assert tried(found).command == "dlbench run --study studies/made-1 --only strategy=mpi"
    if unmeasured:
        assert (found.use, found.missing) == (None, 3)
        assert lines(found)[0] == ("none", "no answer yet: 3 runs to be made")
    else:
        assert used(found).name == "fast"
        assert "still to be made: 1 run of the study" in doubts(found)


OPEN_TIMES = {"slow": [5.0, 5.6, 4.5, 5.2, 4.7], "fast": [5.1, 4.4, 5.7, 5.0, 5.5]}


@pytest.mark.parametrize(
    ("times", "use", "confirmed", "said"),
    [
        ({"slow": 10.0}, "fast", 5, "confirmed on 5 fresh seeds"),
        ({"slow": 4.0}, None, 0, "none mpi, batch 16, learning_rate=0.02 is not confirmed on fresh seeds: others are"),
        (OPEN_TIMES, "fast", 0, "on 5 fresh seeds it is open whether mpi, batch 16, learning_rate=0.02 keeps"),
        ({"slow": None}, "fast", 0, "on 5 fresh seeds no rival completed"),
    ],
)
def test_the_arm_to_use_has_to_keep_on_fresh_seeds(
    times: dict[str, Any], use: str | None, confirmed: int, said: str
) -> None:
    again = []
    for name, batch in (("slow", 8), ("fast", 16)):
        seconds = times.get(name, 5.0)
        columns = {"train_time_s": seconds} if isinstance(seconds, list) else {}
        columns |= {} if seconds else {"status": "failed"}
        rows = trained(f"again-{name}", 5.0 if columns else seconds, seed=40, batch_size=batch, **columns)
        # Its label is the measured arm's, its name is its own.
        again.append([{**row, "label": f"label of {name}", "phase": "confirm"} for row in rows])
    arms = read(*([{**row, "tuned": "learning_rate"} for row in rows] for rows in (SLOW, FAST)))
    (found,) = recommend(arms, Wanted(), PLACE, confirming=read(*again))
    assert (found.use and found.use.name, found.confirmed) == (use, confirmed)
    assert said in "\n".join([text(found), *doubts(found)])
    assert "--confirm" not in tried(found).command
    # What was interrupted goes on.
    (found,) = recommend(arms, Wanted(), PLACE, confirming=read(*(rows[:4] for rows in again)))
    assert tried(found).command.endswith("--confirm") == bool(use)


def test_no_fresh_seeds_are_advised_where_all_other_arms_are_out() -> None:
    found = answer(failed("bad", 5, "diverged", batch_size=8), [{**row, "tuned": "learning_rate"} for row in FAST])
    assert used(found).name == "fast"
    assert tried(found).command.startswith("dlbench report")


@pytest.mark.parametrize(
    ("changed", "command", "doubt"),
    [
        ({}, "scenario.yaml --set tune.learning_rate=auto", "the learning rate was not tuned for each global batch"),
        ({"tuned": "learning_rate"}, "--confirm", ""),
        ({"tuned": "learning_rate", "tuned_at_edge": "learning_rate 0.3 is the largest tried"},
         "--confirm", "learning_rate 0.3 is the largest tried, of 2 arms: others beyond may be better"),
        ({"tuned": "learning_rate", "tuned_scattered": True}, "--confirm",
         "the searches of 2 arms did not tell learning rates apart (`tune.repeats`)"),
    ],
)  # fmt: skip
def test_what_is_run_next_is_a_search_where_rates_were_not_tuned_and_then_fresh_seeds(
    changed: dict[str, Any], command: str, doubt: str
) -> None:
    found = answer(*([{**row, **changed} for row in rows] for rows in (SLOW, FAST)))
    assert tried(found).command.endswith(command)
    assert doubt in doubts(found) if doubt else not any("tuned" in one or "rate" in one for one in doubts(found))


@pytest.mark.parametrize(("least", "command"), [("time", "tune.learning_rate=auto"), ("throughput", "--confirm")])
def test_no_search_for_rates_is_advised_where_no_score_decides(
    least: Literal["time", "throughput"], command: str
) -> None:
    arms = [[row | {"samples_per_s": 1000.0 * n} for row in rows] for n, rows in enumerate((SLOW, FAST), 1)]
    assert tried(answer(*arms, wanted=Wanted(goal=Goal(least=least)))).command.endswith(command)


@pytest.mark.parametrize(("least", "edges"), [("time", "learning_rate 0.3|buckets 8"), ("throughput", "buckets 8")])
def test_edges_of_rates_are_doubted_only_where_a_score_decides(
    least: Literal["time", "throughput"], edges: str
) -> None:
    searched = {"samples_per_s": 1000.0, "tuned_scattered": True, "tuned_at_edge": "learning_rate 0.3; buckets 8"}
    texts = doubts(answer([row | searched for row in SLOW], FAST, wanted=Wanted(goal=Goal(least=least))))
    assert sorted(re.findall(r"learning_rate 0\.3|buckets 8", " ".join(texts))) == sorted(edges.split("|"))
    assert any("learning rates apart" in one for one in texts) == (least == "time")


def test_repeats_until_decided_are_judged_at_a_smaller_level() -> None:
    rule = {"repeats_rule": "until decided: 3 to 20"}
    close = [trained("a", 10.0, 0.95, seed=1, batch_size=8), trained("b", 9.0, 0.9425, seed=9, batch_size=16)]
    fixed = answer(*close)
    until = answer(*([{**row, **rule} for row in rows] for rows in close))
    widths = [one.arms[1].quality.difference.best - one.arms[1].quality.difference.worst for one in (fixed, until)]
    assert widths[1] > 1.4 * widths[0]


METRICS = declared(
    {"perplexity": MetricDeclaration.model_validate({"better": "lower", "matters": "2%", "knows_nothing": 50.0})}
)


def test_a_metric_of_a_script_decides_like_any_other() -> None:
    arms = [
        arm(name, {"train_time_s": noisy(seconds, 5, seed, 0.005), "perplexity": noisy(score, 5, seed + 9, 0.002)},
            batch_size=batch, command="train.py", model=None, dataset=None)
        for name, seconds, score, batch, seed in (
            ("a", 10.0, 20.0, 8, 0), ("b", 5.0, 25.0, 16, 1), ("c", 7.0, 20.05, 32, 2), ("d", 1.0, 50.0, 64, 3),
        )
    ]  # fmt: skip
    found = answer(*arms, wanted=Wanted(metrics=METRICS))
    assert "perplexity within 2% of the best" in found.goal
    assert found.use is not None
    assert {one.name: one.word for one in found.arms} == {"a": "keeps", "b": "loses", "c": "keeps", "d": "out"}
    assert found.use.name == "c"


@pytest.mark.parametrize(
    ("limit", "why", "unit"),
    [
        ({"max_cost": 1.0}, "most that it may cost (3 arms, the nearest one worker alone: 5 of 5 runs, the dearest",
         "USD"),
        ({"deadline_s": 9.0}, "deadline (3 arms, the nearest mpi, 4 workers: 5 of 5 runs, the slowest", "s"),
    ],
)  # fmt: skip
def test_where_all_are_over_a_limit_the_nearest_is_named(limit: dict[str, float], why: str, unit: str) -> None:
    # What one worker alone does as well is no choice, nor the nearest; of each arm the worst run counts.
    mpi1 = trained("mpi1", 1000.0, workers=1, seed=7)
    two = trained("two", 9.0, workers=2, train_time_s=[3e3] * 4 + [9e3])
    found = answer(*MORE, mpi1, two, wanted=Wanted(prices=USD, goal=Goal(least="cost"), **limit))
    assert lines(found)[0][1].startswith(f"no arm can be recommended: over the {why} ")
    assert lines(found)[0][1].endswith(f" {unit})")


def test_a_price_is_that_of_all_places_and_may_be_nothing() -> None:
    assert used(answer(*MORE, wanted=Wanted(prices=USD))).cost == pytest.approx(10.0, rel=0.02)
    poor = trained("poor", 5.0, 0.8, workers=1, batch_size=8)
    gratis = Wanted(goal=Goal(least="cost"), prices=Prices(currency="USD", worker_hour=0.0))
    free = answer(SLOW, FAST, poor, wanted=gratis)
    assert {one.cost for one in free.arms} == {0.0}
    assert (free.cheaper, free.faster) == (None, None), "what costs nothing is not cheaper"
    servers = trained("ps", 3500.0, strategy="parameter_server", servers=2, server_placement="own", workers=2)
    assert named(answer(servers))["ps"].worker_hours == pytest.approx(4 * 3500 / 3600, rel=0.01)
    # A simulated server has a host, beside those of the workers.
    simulated = [{**row, "communicator": "simulated", "hosts": 2, "workers_per_host": 1} for row in servers]
    by_host = Prices(currency="USD", host_hour=2.5)
    costs = [used(answer(simulated, wanted=Wanted(prices=prices))).cost for prices in (USD, by_host)]
    assert costs == [pytest.approx(10.0 * 3500 / 3600, rel=0.01)] * 2


@pytest.mark.parametrize("has_failed", [False, True])
def test_one_worker_alone_is_one_arm_however_the_others_divide_unless_it_failed(has_failed: bool) -> None:
    scopes = ("per-worker", "global")
    first, second = (trained(f"alone-{scope}", 10.0, batch_scope=scope, **ALONE) for scope in scopes)
    first[0] |= {"status": "failed", "reason": "no"} if has_failed else {}
    others = [trained(scope, 6.0, batch_scope=scope, workers=2, seed=3) for scope in scopes]
    found = answer(first, second, *others)
    words = {name: one.word == "out" for name, one in named(found).items() if "alone" in name}
    assert words == {"alone-per-worker": has_failed, "alone-global": not has_failed}
    said = "left out: 1 arm of the same training as another of one worker alone"
    assert (said in doubts(found)) == (not has_failed)


def test_arms_of_one_worker_in_a_table_may_differ_in_what_no_setting_says() -> None:
    hosts = (arm(f"h{n}", {"samples_per_s": [90.0 * n] * 3}, **ALONE | TABLE, hosts=n) for n in (1, 2))
    assert {one.word for one in answer(*hosts).arms} == {"keeps", "loses"}


@pytest.mark.parametrize("goal", [Goal(), Goal(least="cost")])
def test_of_candidates_without_scores_the_one_of_the_least_time_is_first(goal: Goal) -> None:
    arms = read(*(arm(name, {"train_time_s": [seconds] * 2}) for name, seconds in (("slow", 9.0), ("fast", 5.0))))
    ranked, _ = best_first(arms, Wanted(goal=goal), is_time_choice=True)
    assert [each.name for each in ranked] == ["fast", "slow"]


@pytest.mark.parametrize(("rate", "first"), [(91.0, "good"), (99.0, "fast")])
def test_of_candidates_without_times_the_faster_is_first_if_that_matters(rate: float, first: str) -> None:
    scores = (("good", 90.0, 0.9), ("fast", rate, 0.899))
    arms = read(*(rated(name, rate, validation_accuracy=score) for name, rate, score in scores))
    assert best_first(arms, Wanted(), is_time_choice=True)[0][0].name == first


def test_a_target_after_the_fact_has_its_own_epochs() -> None:
    arms = read([row | {"epochs_to_target": 9} for row in HALF[1]])
    scores = {"study": "made-1", "run_id": "b-r0", "validation_accuracy": [0.3, 0.5, 0.6]}
    epochs = pd.DataFrame(scores | {"epoch": [1, 2, 3], "train_time_s": [1.0, 2.0, 3.0]})
    first, *others = retargeted(arms, epochs, ("validation_accuracy", 0.5), BUILT_IN)[0].rows
    assert (first["time_to_target_s"], first["epochs_to_target"]) == (2.0, 2)
    assert {row["epochs_to_target"] for row in others} == {None}


def test_what_the_goal_does_not_ask_for_is_a_doubt_where_it_is_far_behind() -> None:
    texts = doubts(answer(SLOW, trained("lossy", 5.0, batch_size=16, seed=3, validation_loss=[1.9] * 5)))
    assert any(one.startswith("its validation loss is 1.90, of mpi, batch 8 0.0") for one in texts), texts


RATES = [
    arm("one", {"samples_per_s": [219.0, 220.0, 221.0]}, **ALONE, **TABLE),
    arm("eight", {"samples_per_s": [1734.0, None, 1730.0]}, workers=8, **TABLE),
]


def test_a_declared_metric_that_no_run_has_is_the_first_doubt() -> None:
    metrics = declared({"bleu": MetricDeclaration(better="higher", matters=1)})
    note = "validation_loss: the last value that was printed is 'nan'"
    arms = [
        arm(name, {"samples_per_s": noisy(rate, 5, int(rate), 0.005)}, stated_note=note, workers=n, command="a")
        for n, (name, rate) in enumerate((("a", 100.0), ("b", 500.0)), 1)
    ]
    place = {"made-1": StudyPlace(Path("s"), metrics=("samples_per_s", "validation_loss", "bleu"))}
    (found,) = recommend(read(*arms), Wanted(metrics=metrics), place)
    assert doubts(found)[:2] == [
        f"no run has validation loss, which the scenario declares: {note}",
        "no run has bleu, which the scenario declares",
    ]
    assert not any("bleu" in doubt for doubt in doubts(answer(*arms, wanted=Wanted(metrics=metrics))))


AIMED = trained("sure", 4.0, time_to_target_s=noisy(4.0, 5, 1), **ALONE, **TARGET)


@pytest.mark.parametrize(
    ("arms", "wanted", "said"),
    [
        ([SLOW, [*trained("bad", **BAD)[:4], trained("bad", **BAD)[4] | {"status": "failed", "reason": "no"}]], {},
         "mpi, batch 64 came to 1.00 s, but 1 of 5 runs did not complete: 1 failed"),
        ([SLOW, trained("bad", 1.0, batch_size=64, train_time_s=[1.0, 1.0, None, 1.0, None])], {},
         "mpi, batch 64 came to 1 s, but 2 of 5 runs have no training time"),
        ([SLOW, trained("bad", **BAD, validation_accuracy=[0.95, None, 0.95, 0.95, 0.95])], {},
         "mpi, batch 64 came to 1.00 s, but 1 of 5 runs has no validation accuracy"),
        (RATES, {}, "mpi came to 1,732 samples/s, but 1 of 3 runs has no steady throughput"),
        ([AIMED, trained("some", **BAD, time_to_target_s=[1.0, 1.0, None, 1.0, 1.0], **TARGET)], {},
         "mpi came to 1 s, but 4 of 5 runs reached validation accuracy 0.7"),
        ([SLOW, arm("bare", {"validation_accuracy": [0.95] * 5}, batch_size=64)], {},
         "not compared: mpi, batch 64: no training time"),
        ([arm("one", {"samples_per_s": [219.0, 220.0, 221.0]}, **ALONE),
          arm("bare", {"stated_note": ["samples_per_s: nothing matches"] * 3}, workers=8)], {},
         "not compared: mpi: no steady throughput: samples_per_s: nothing matches"),
        ([SLOW, trained("bad", **BAD, validation_loss=[0.1, 52_642.0, 0.1, 0.1, 0.1])], {},
         "mpi, batch 64 came to 1.00 s, but exploded in 1 of 5 runs: validation loss 0.100"),
        ([AIMED, trained("bare", 1.0, batch_size=64)], {},
         'not compared: mpi: its scenario has no target (`--goal "time to ..."` looks one up in the epochs)'),
        # What is worse, learns less or never came to the target is no loss.
        ([SLOW, trained("bad", 11.0, batch_size=64, validation_accuracy=[0.95, None, 0.95, 0.95, 0.95])], {}, ""),
        ([SLOW, trained("bad", **BAD, validation_accuracy=[0.85, None, 0.85, 0.85, 0.85])], {}, ""),
        ([AIMED, failed("bad", 3, "diverged", batch_size=64, **TARGET)], {}, ""),
        # Nor is what is over a limit.
        (MORE, {"prices": USD, "max_cost": 6.0}, ""),
        # A limit leaves out what scores more.
        ([SLOW, trained("hasty", 1.0, 0.93, batch_size=64)], {"deadline_s": 5.0},
         "mpi, batch 8 has validation accuracy 0.950, but is over the deadline: 5 of 5 runs, the slowest 10.0 s"),
        ([SLOW, trained("hasty", 1.0, 0.945, batch_size=64)], {"deadline_s": 5.0}, ""),
        # So do runs that failed or have no score, though the arm is slower; one that learned nothing does not.
        ([trained("hasty", 1.0, 0.93, batch_size=64), [SLOW[0] | {"status": "failed", "reason": "no"}, *SLOW[1:]]], {},
         "mpi, batch 8 has validation accuracy 0.950, but 1 of 5 runs did not complete: 1 failed"),
        ([trained("hasty", 1.0, 0.93, batch_size=64), [SLOW[0] | {"validation_accuracy": None}, *SLOW[1:]]], {},
         "mpi, batch 8 has validation accuracy 0.950, but 1 of 5 runs has no validation accuracy"),
        ([trained("hasty", 1.0, 0.93, batch_size=64), [row | {"validation_loss": 52_642.0} for row in SLOW]], {}, ""),
        # Of two that score about as much the faster is named.
        ([trained("far", 90.0, 0.951, batch_size=4), SLOW, trained("hasty", 1.0, 0.93, batch_size=64)],
         {"deadline_s": 5.0},
         "mpi, batch 8 has validation accuracy 0.950, but is over the deadline: 5 of 5 runs, the slowest 10.0 s"),
    ],
)  # fmt: skip
def test_an_arm_that_would_be_the_better_one_is_not_out_in_silence(
    arms: list[list[dict[str, Any]]], wanted: dict[str, Any], said: str
) -> None:
    texts = [
        one
        for one in doubts(answer(*arms, wanted=Wanted(**wanted)))
        if re.search(" came to | has .*, but |^not c", one)
    ]
    assert texts == [said] * bool(said)


def test_what_is_over_a_limit_is_named_beside_what_failed_and_scores_still_more() -> None:
    lucky = trained("lucky", 2.0, 0.97, batch_size=16)
    lucky = [lucky[0], *(row | {"status": "failed", "reason": "no"} for row in lucky[1:])]
    arms = [trained("hasty", 1.0, 0.93, batch_size=64), SLOW, lucky]
    texts = [text for text in doubts(answer(*arms, wanted=Wanted(deadline_s=5.0))) if " has validation" in text]
    assert texts == [
        "mpi, batch 8 has validation accuracy 0.950, but is over the deadline: 5 of 5 runs, the slowest 10.0 s",
        "mpi, batch 16 has validation accuracy 0.970, but 4 of 5 runs did not complete: 4 failed",
    ]


@pytest.mark.parametrize(
    ("goal", "scores", "said"),
    [
        ("validation_loss", (0.3, 0.5), "loses: validation loss 67% higher"),
        # No share of a loss that is not above 0.
        ("validation_loss", (-1.98, 2.0), "loses: validation loss 3.98 higher"),
        ("validation_loss", (0.0, 0.3), "loses: validation loss 0.3 higher"),
        ("bleu", (30.0, 26.0), "loses: bleu 4 points lower"),
        ("score", (30.0, 26.0), "loses: score 4 % lower"),
    ],
)
def test_differences_are_in_the_metrics_own_unit_and_direction(
    goal: str, scores: tuple[float, float], said: str
) -> None:
    units = {"bleu": "points", "score": "%"}
    metrics = declared({
        name: MetricDeclaration.model_validate({"better": "higher", "matters": 0.5, "unit": unit})
        for name, unit in units.items()
    })  # fmt: skip
    arms = [
        trained(name, seconds, batch_size=batch, seed=batch, **{goal: [score] * 5})
        for name, seconds, batch, score in (("slow", 10.0, 8, scores[0]), ("fast", 2.0, 16, scores[1]))
    ]
    assert said in text(answer(*arms, wanted=Wanted(goal=Goal(quality=goal), metrics=metrics)), metrics)


FEW = "little|chance"
COPIES: dict[str, Any] = {"seconds": 5.0, "train_time_s": [5.0] * 3, "validation_accuracy": [0.95] * 3, "count": 3}
OF_TABLE = TABLE | {"stated": "validation_accuracy;train_time_s"}
REPEATS = [row | {"samples_seen": 3200 >> (row["repeat"] > 2), "command": "train.py"} for row in SLOW]
WHY = "if one goes on from another's checkpoint, no median of theirs is a result"
CONTINUED = "continued from a checkpoint: the first step of each attempt counts"
HALF = [trained(name, 9.0 / n, 0.75, time_to_target_s=noisy(8.0 / n, 5, n), workers=n, **TARGET)
        for n, name in enumerate("ab", 1)]  # fmt: skip
AXIS = [trained(str(n), 9.0, 0.9 + n / 50, seed=n, learning_rate_base=0.01 * 2**n) for n in range(3)]
TABLE_OF_LINES = [arm(name, {"samples_per_s": [rate]}, batch_size=n, **TABLE)
                  for n, (name, rate) in enumerate((("a", 5.0), ("b", 6.0)), 1)]  # fmt: skip
STEEP = [trained("two", 5.0, samples_per_s=noisy(500.0, 5, 1, 0.001)),
         trained("one", 10.0, samples_per_s=noisy(200.0, 5, 1, 0.001), **ALONE)]  # fmt: skip


@pytest.mark.parametrize(
    ("arms", "part", "said"),
    [
        (LONE, FEW, "one run of each arm says nothing of chance"),
        (TABLE_OF_LINES, "line", "each arm is one line, read without its scatter"),
        ([LONE[0], FAST], FEW, "an arm has as few as 1 run, which shows little (`repeats: 5`)"),
        ([SLOW, trained("b", 5.0, count=4, batch_size=16)], FEW,
         "an arm has as few as 4 runs, which shows little (`repeats: 5`)"),
        ([SLOW, [*FAST[:2], FAST[2] | {"status": "failed", "reason": "no"}]], FEW, ""),
        ([SLOW, FAST], FEW, ""),
        # What failed before a run completed is not forgotten; what was interrupted says nothing.
        ([SLOW, [row | {"attempt": n, "status": status} for row in FAST[:4]
                 for n, status in enumerate(("interrupted", "failed", "completed"), 1)] + FAST[4:]], "attempts",
         "4 of 9 attempts of mpi, batch 16 failed"),
        ([SLOW, [row | {"attempt": n, "status": status} for row in FAST
                 for n, status in enumerate(("interrupted", "completed"), 1)]], "attempts", ""),
        # What dlbench has not measured, and what repeats no run here can change.
        (RATES, "stated", "throughput was not measured by dlbench, but stated, in 6 of 6 runs"),
        ([[row | {"imported.counted": "tokens"} for row in rows] for rows in RATES], "stated",
         "tokens/s was not measured by dlbench, but stated, in 6 of 6 runs"),
        ([trained(name, 5.0, count=3, seed=n, batch_size=n, **OF_TABLE) for n, name in ((8, "a"), (16, "b"))], "stated",
         "validation accuracy and training time were not measured by dlbench, but stated, in 6 of 6 runs"),
        ([trained("a", 5.0, count=3, **OF_TABLE), trained("b", 7.0, count=3, seed=1, batch_size=16, **OF_TABLE)], FEW,
         "3 runs of each arm show little"),
        ([trained("a", 5.0, **OF_TABLE), trained("b", 7.0, seed=1, batch_size=16, **OF_TABLE)], "throughput", ""),
        ([trained("a", **COPIES, **OF_TABLE), trained("b", 7.0, count=3, batch_size=16, **OF_TABLE)], "copies",
         "repeats of 1 arm are equal to the digit: are they copies of one run?"),
        ([trained("a", **COPIES), trained("b", 7.0, count=3, batch_size=16)], "copies", ""),
        ([SLOW, [row | {"dataset_doubt": "5 of 9 also"} for row in FAST]], "also", "5 of 9 also"),
        # A script that was edited, and two strategies of which each has its own code.
        ([[row | {"command": "python a.py", "code_checksum": str(row["repeat"] > 1)} for row in rows]
          for rows in (SLOW, FAST)], "code_checksum",
         "python a.py was edited between runs (`code_checksum`): begin a new study"),
        ([[row | {"strategy": f"own:{n}", "code_checksum": str(n)} for row in rows]
          for n, rows in enumerate((SLOW, FAST))], "code_checksum", ""),
        ([[row | {"study": f"made-{n}", "command": "python a.py", "code_checksum": str(n)} for row in rows]
          for n, rows in enumerate((SLOW, FAST))], "code_checksum",
         "studies executed different versions of python a.py (`code_checksum`)"),
        # Repeats of a script that did unequal work, which a target may explain.
        ([REPEATS], "checkpoint", f"repeats of mpi were trained on 1,600 to 3,200 samples: {WHY}"),
        ([[row | {"samples_seen": 3200} for row in REPEATS]], "checkpoint", ""),
        ([[row | TARGET for row in REPEATS]], "checkpoint", ""),
        # The best rate of an axis may have a better one beyond it, unless one between is as good.
        (AXIS, "tried", "learning_rate 0.04 is the largest tried, of 1 arm: others beyond may be better"),
        ([*AXIS[:2], [row | {"validation_accuracy": 0.9} for row in AXIS[2]]], "tried", ""),
        # Two that are as good are no edge; a rate that is out was tried, and is not the best.
        ([[row | {"validation_accuracy": 0.9} for row in rows] for rows in AXIS[:2]], "tried", ""),
        ([*AXIS[:2], [row | {"status": "failed"} if row["repeat"] else row for row in AXIS[2]]], "tried", ""),
        ([[row | {"validation_accuracy": 0.03 * n} for row in rows] for n, rows in enumerate(AXIS, 1)], "tried", ""),
        (AXIS[2:], "tried", ""),
        ([[row | {"learning_rate_base": None} for row in rows] for rows in AXIS], "tried", ""),
        ([[row | {"input": "synthetic"} for row in rows] for rows in AXIS], "tried", ""),
        # Of two attempts each had a first step.
        ([SLOW, [row | {"first_step_s": 1.2, "resumed_from_epoch": 3} for row in FAST[:2]] + FAST[2:]], "continued",
         f"2 of 10 runs {CONTINUED}, up to 24% of the training time"),
        ([SLOW, [row | {"resumed_from_epoch": 3} for row in FAST]], "continued", ""),
        # A target that tells little.
        ([[row | {"epochs_to_target": 2, "evaluate_every": 2} for row in rows] for rows in HALF], "first evaluation",
         "all runs reached the target at their first evaluation: a higher one, or evaluating sooner, tells more"),
        ([[row | {"epochs_to_target": 2 + row["repeat"], "evaluate_every": 2} for row in rows] for rows in HALF],
         "first evaluation", ""),
        (STEEP, "efficiency",
         "the efficiency of mpi is 125%, more than linear: is it the same work, and are workers counted right?"),
        ([[row | {"samples_per_s_per_worker": 200.0} for row in rows] for rows in STEEP], "efficiency", ""),
    ],
)  # fmt: skip
def test_a_doubt_is_said_where_it_is_one_and_only_there(arms: list[list[dict[str, Any]]], part: str, said: str) -> None:
    assert [one for one in doubts(answer(*arms)) if re.search(part, one)] == [said] * bool(said)


def test_a_study_of_edited_code_is_made_anew() -> None:
    rows = [
        [row | {"command": "python a.py", "code_checksum": str(row["repeat"])} for row in rows] for rows in (SLOW, FAST)
    ]
    place = StudyPlace(Path("studies/made-1"), asked=(("--set", "epochs=2"),))
    step = recommend(read(*rows), Wanted(), {"made-1": place})[0].next
    assert step is not None
    assert step.command == "dlbench run studies/made-1/scenario.yaml --set epochs=2"
    assert step.seconds == pytest.approx(85, rel=0.05)


HELD = {"device_throttled": 0.62, "device_throttled_power_cap": 0.6, "device_throttled_heat": 0.05}
FREE = dict.fromkeys(HELD, 0.0)
CLOCKS = (
    "clocks of GPUs were held back by power cap and heat in 62% of the window in mpi, batch 8, "
    "and not held back in mpi, batch 16"
)
BUSY = {"other_cpu_cores": 4.6, "steal_fraction": 0.05, "cores_enforced": "none", "hosts": 2, "machines": 1}
OWN_BATCHES = {
    "command": "train.py", "batch_size_per_worker": 16, "batch_size_global": 32, "samples_seen": 3200, "steps": 50,
}  # fmt: skip


@pytest.mark.parametrize(
    ("slow", "fast", "said"),
    [
        (OWN_BATCHES, OWN_BATCHES, ["steps have other batches than `batch_size` says"]),
        (OWN_BATCHES | {"steps": 400}, OWN_BATCHES | {"steps": 200},
         ["steps have other batches than `batch_size` says"]),
        (OWN_BATCHES | {"workers": 4, "steps": 100}, OWN_BATCHES | {"steps": 100},
         ["10 of 10 runs have no steady throughput"]),
        (OWN_BATCHES | {"samples_seen": 0}, OWN_BATCHES | {"steps": 200},
         ["the samples of a step are unknown in 5 of 10 runs"]),
        ({"command": "train.py", "steps": 0}, {"command": "train.py", "script_note": "it began late"},
         ["5 of 10 runs made no step", "it began late (5 of 10 runs)"]),
        ({"other_cpu_cores": 4.6, "warmup_detected": False}, {"steal_fraction": 0.05},
         ["the learning rate was not tuned for each global batch", "other programs kept 4.6 cores busy in 5 of 10 runs",
          "the hypervisor took up to 5.0% of the CPU time, in 5 of 10 runs",
          "throughput was not steady in 5 of 10 runs"]),
        (HELD, FREE | {"device_rejected": "energy_j 6 of 10; utilization 2 of 6"},
         ["the learning rate was not tuned", CLOCKS,
          "readings of GPUs cannot be true and were left out (energy_j, utilization) in 5 of 10 runs"]),
        (HELD, HELD, ["the learning rate was not tuned"]),
        # What the machine did is in no time of a simulator, which needs no 5 s.
        (SIMULATED | BUSY, SIMULATED | BUSY,
         ["not representative hardware (simulated)", "the learning rate was not tuned",
          "10 of 10 runs have no steady throughput (it needs 50 steps: `extend_window: true`)"]),
        (FREE, FREE, ["the learning rate was not tuned"]),
    ],
)  # fmt: skip
def test_doubts_are_sorted_by_how_much_they_could_change_the_answer(
    slow: dict[str, Any], fast: dict[str, Any], said: list[str]
) -> None:
    found = answer([row | slow for row in SLOW], [row | fast for row in FAST])
    assert len(doubts(found)) >= len(said)
    assert all(doubt.startswith(words) for doubt, words in zip(doubts(found), said, strict=False)), doubts(found)
    assert [doubt.weight for doubt in found.doubts] == sorted((doubt.weight for doubt in found.doubts), reverse=True)
    assert any("GPUs" in doubt for doubt in doubts(found)) == any("GPUs" in words for words in said)


@pytest.mark.parametrize("width", [60, 90, None])
def test_no_more_than_five_lines_and_no_wider_than_the_terminal(width: int | None) -> None:
    long = {"model": "a_model_with_a_long_name", "momentum": 0.9}
    arms = [
        trained(f"a{n}", 10.0 - n, 0.95 - 0.02 * (n % 3), batch_size=2**n, workers=n, seed=n,
                learning_rate_base=0.1 * n, epochs=5 + n,
                optimizer=f"optimizer{n}", **long)
        for n in range(1, 8)
    ]  # fmt: skip
    found = lines(answer(*arms), width=width)
    assert len(found) <= MOST_LINES
    assert width is None or all(len(line) <= width for _, line in found)


def test_an_answer_is_json_with_a_schema() -> None:
    found = answer(SLOW, FAST)
    assert Answer.model_validate_json(found.model_dump_json()) == found
    assert "use" in Answer.model_json_schema()["properties"]
