"""What is recommended, of every kind of study in which advice has been foolish."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dlbench.analysis.answer.answer import Answer, ArmAnswer, Next
from dlbench.analysis.answer.decide import Wanted
from dlbench.analysis.answer.lines import MOST_LINES, heading, lines
from dlbench.analysis.answer.recommend import StudyPlace, recommend
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


SLOW, FAST = trained("slow", 10.0, batch_size=8), trained("fast", 5.0, batch_size=16, seed=3)


def test_the_fastest_arm_that_keeps_quality_is_recommended() -> None:
    found = answer(SLOW, FAST)
    assert used(found).name == "fast"
    assert {one.name: one.word for one in found.arms} == {"slow": "keeps", "fast": "keeps"}


def test_an_arm_that_loses_quality_is_named_with_its_price_and_not_recommended() -> None:
    found = answer(SLOW, trained("fast", 5.0, 0.80, batch_size=16, seed=3))
    assert (used(found).name, found.faster) == ("slow", "mpi, batch 16")
    assert "loses: validation accuracy 15 points lower" in text(found)


def test_not_significant_is_not_equal() -> None:
    """Accuracies of 0.41 beside 0.95 that scatter so much that no test tells them apart."""
    wild = trained("wild", 2.0, batch_size=16, count=3, validation_accuracy=[0.41, 0.2, 0.93])
    found = answer(trained("sure", 10.0, count=3, batch_size=8), wild)
    assert named(found)["wild"].word in ("open", "loses")
    assert found.use is None or found.use.name != "wild"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (trained("bad", 1.0, batch_size=64, validation_accuracy=[0.1, 0.11, 0.09, 0.1, 0.1]), "knowing nothing"),
        (trained("bad", 1.0, batch_size=64, validation_accuracy=[0.95, 0.1, 0.95, 0.95, 0.95]), "in 1 of 5 runs"),
        (trained("bad", 1.0, batch_size=64, validation_loss=[0.1, 52_642.0, 0.1, 0.1, 0.1]), "exploded in 1 of 5 runs"),
        (failed("bad", 3, "diverged", batch_size=64), "3 of 3 runs did not complete: 3 diverged"),
        (trained("bad", 1.0, batch_size=64, status=["completed"] * 4 + ["out-of-memory"]), "1 out-of-memory"),
    ],
)  # fmt: skip
def test_an_arm_that_cannot_be_recommended_is_out_with_its_reason(bad: list[dict[str, Any]], reason: str) -> None:
    found = answer(SLOW, FAST, bad)
    assert (named(found)["bad"].word, reason in named(found)["bad"].reason) == ("out", True), named(found)["bad"].reason
    assert used(found).name == "fast"


@pytest.mark.parametrize(("loss", "change"), [(18.0, "learning_rate=5"), (2.3, "epochs=10")])
def test_nothing_is_recommended_where_nothing_is_learned(loss: float, change: str) -> None:
    """A loss above that of knowing nothing was driven there by the rate; one that is not was left there."""
    common: dict[str, Any] = {"learning_rate_base": 50.0, "epochs": 5, "validation_loss": [loss] * 5}
    found = answer(
        trained("a", 5.0, 0.1, **common), trained("b", 9.0, 0.1, seed=3, **ALONE, **common),
        trained("c", 2.0, 0.1, workers=4, seed=5, **common),
    )  # fmt: skip
    assert found.use is None
    assert {one.word for one in found.arms} == {"out"}
    assert tried(found).command == f"dlbench run studies/made-1/scenario.yaml --set {change}"


def test_an_arm_that_missed_the_target_in_some_run_is_no_advice() -> None:
    two = trained("two", 5.0, 0.75, 3, batch_size=32, time_to_target_s=[2.0, None, None], **TARGET)
    one = trained("one", 9.0, 0.75, 3, batch_size=32, seed=3, time_to_target_s=[4.0, 4.1, 3.9], **ALONE, **TARGET)
    found = answer(two, one)
    assert used(found).name == "one"
    assert named(found)["two"].reason == "1 of 3 runs reached validation accuracy 0.7"


def test_a_target_that_nobody_reached_recommends_nothing_and_says_so_first() -> None:
    found = answer(
        *(trained(f"a{n}", n, 0.5, 5, workers=n, time_to_target_s=[None] * 5, epochs=5, **TARGET) for n in (1, 2, 4))
    )
    assert found.use is None
    assert lines(found)[0] == (
        "none",
        "no arm can be recommended: 0 of 5 runs reached validation accuracy 0.7 (3 arms)",
    )
    assert "--set epochs=10" in tried(found).command


def test_conditions_are_never_advised_and_never_compared() -> None:
    simulated = {"emulated": "simulated", "communicator": "simulated"}
    arms = [
        trained(f"{workers}-{slow}", seconds * (1 + 3 * slow), workers=workers, seed=workers + slow, **simulated,
                **{"communicator.slow_workers": slow, "communicator.bandwidth_bytes_per_s": 1.2e6})
        for workers, seconds in ((2, 5.0), (4, 3.0))
        for slow in (0, 1)
    ]  # fmt: skip
    found = recommend(read(*arms), Wanted(), PLACE)
    assert [(one.condition, one.use and one.use.settings["workers"]) for one in found] == [
        ("no straggler", 4), ("one straggler", 4),
    ]  # fmt: skip
    assert all("slow_workers" not in key for one in found for part in one.arms for key in part.settings)


def test_a_declared_condition_is_one() -> None:
    found = recommend(read(SLOW, FAST), Wanted(), given=("batch_size",))
    assert [one.condition for one in found] == ["batch 8", "batch 16"]


def test_one_worker_of_a_library_is_no_choice_beside_the_base_line() -> None:
    found = answer(
        trained("mpi1", 9.9, workers=1), trained("mpi2", 6.0, workers=2, seed=3),
        trained("alone", 10.0, seed=5, **ALONE),
    )  # fmt: skip
    assert named(found)["mpi1"].reason == "one worker alone does the same without messages"
    assert used(found).name == "mpi2"


def test_workers_that_do_not_pay_are_not_added() -> None:
    found = answer(trained("two", 12.0, workers=2), trained("alone", 10.0, seed=5, **ALONE))
    assert used(found).title == "one worker alone"
    assert "do not add workers" in text(found)


def test_arms_of_about_the_same_time_are_either_and_more_repeats_are_named() -> None:
    a = trained("a", 10.0, batch_size=8, train_time_s=[10.0, 10.3, 9.8, 10.1, 9.9])
    b = trained("b", 10.0, batch_size=16, train_time_s=[10.1, 9.8, 10.2, 9.9, 10.3])
    found = answer(a, b)
    assert found.use is None
    assert set(found.either) == {"mpi, batch 8", "mpi, batch 16"}
    assert tried(found).command.startswith("dlbench run --study studies/made-1 --repeats ")
    assert lines(found)[0][0] == "either"


def test_one_repeat_recommends_nothing_and_names_the_command_that_would_tell() -> None:
    found = answer(trained("a", 10.0, count=1, batch_size=8), trained("b", 5.0, count=1, batch_size=16))
    assert found.use is None
    assert tried(found).command == "dlbench run --study studies/made-1 --repeats 5"
    assert found.next.seconds == pytest.approx(4 * 2 * 8.5)


def test_nothing_is_recommended_while_an_arm_has_no_run() -> None:
    place = {"made-1": StudyPlace(Path("studies/made-1"), missing=3, unmeasured=True)}
    (found,) = recommend(read(SLOW, FAST), Wanted(), place)
    assert (found.use, found.missing) == (None, 3)
    assert lines(found)[0] == ("none", "no answer yet: 3 runs to be made")
    assert tried(found).command == "dlbench run --study studies/made-1"


def test_while_repeats_are_missing_the_others_are_judged() -> None:
    place = {"made-1": StudyPlace(Path("studies/made-1"), missing=3)}
    (found,) = recommend(read(SLOW, FAST), Wanted(), place)
    assert found.use is not None
    assert "3 runs of the study are still to be made" in [doubt.text for doubt in found.doubts]
    assert tried(found).command == "dlbench run --study studies/made-1"


def fresh(name: str, seconds: float, **values: Any) -> list[dict[str, Any]]:
    """Return the runs of an arm on fresh seeds: its label is the measured arm's, its name is its own."""
    rows = trained(f"again-{name}", seconds, seed=40, **values)
    return [{**row, "label": f"label of {name}", "phase": "confirm"} for row in rows]


def test_the_arm_to_use_is_confirmed_on_fresh_seeds() -> None:
    again = read(fresh("slow", 10.0, batch_size=8), fresh("fast", 5.0, batch_size=16))
    (found,) = recommend(read(SLOW, FAST), Wanted(), PLACE, confirming=again)
    assert (used(found).name, found.confirmed) == ("fast", 5)
    assert "confirmed on 5 fresh seeds" in dict(lines(found))["use"]
    assert "--confirm" not in tried(found).command


def test_an_arm_that_loses_on_fresh_seeds_is_not_used() -> None:
    again = read(fresh("slow", 4.0, batch_size=8), fresh("fast", 5.0, batch_size=16))
    (found,) = recommend(read(SLOW, FAST), Wanted(), PLACE, confirming=again)
    assert (found.use, found.confirmed) == (None, 0)
    assert found.doubts[0].text == "mpi, batch 16 is not confirmed on fresh seeds: others are better there"


def test_fresh_seeds_that_settle_nothing_are_a_doubt() -> None:
    times = ([5.0, 5.6, 4.5, 5.2, 4.7], [5.1, 4.4, 5.7, 5.0, 5.5])
    slow, fast = (
        fresh(name, 5.0, batch_size=size, train_time_s=own)
        for name, size, own in zip(("slow", "fast"), (8, 16), times, strict=True)
    )
    again = read(slow, fast)
    (found,) = recommend(read(SLOW, FAST), Wanted(), PLACE, confirming=again)
    assert found.use is not None
    assert "on 5 fresh seeds it is open whether mpi, batch 16 keeps" in " ".join(doubt.text for doubt in found.doubts)


def test_what_is_run_next_is_a_search_where_rates_were_not_tuned_and_then_fresh_seeds() -> None:
    untuned = answer(SLOW, FAST)
    assert tried(untuned).command == "dlbench run studies/made-1/scenario.yaml --set tune.learning_rate=auto"
    tuned = [[{**row, "tuned": "learning_rate"} for row in rows] for rows in (SLOW, FAST)]
    found = answer(*tuned)
    assert tried(found).command == "dlbench run --study studies/made-1 --confirm"
    assert "not tuned" not in " ".join(doubt.text for doubt in found.doubts)
    edge = [[{**row, "tuned_at_edge": "learning_rate 0.3 is the largest tried"} for row in rows] for rows in tuned]
    found = answer(*edge)
    assert "learning_rate 0.3 is the largest tried, of 2 arms: others beyond may be better" in [
        doubt.text for doubt in found.doubts
    ]
    assert "tune.learning_rate=auto" in tried(found).command
    scattered = [[{**row, "tuned_scattered": True} for row in rows] for rows in tuned]
    doubts = [doubt.text for doubt in answer(*scattered).doubts]
    assert "the searches of 2 arms did not tell learning rates apart (`tune.repeats`)" in doubts


def test_repeats_until_decided_are_judged_at_a_smaller_level() -> None:
    rule = {"repeats_rule": "until decided: 3 to 20"}
    close = [trained("a", 10.0, 0.95, seed=1, batch_size=8), trained("b", 9.0, 0.9425, seed=9, batch_size=16)]
    fixed = answer(*close)
    until = answer(*([{**row, **rule} for row in rows] for rows in close))
    widths = [one.arms[1].quality.difference.best - one.arms[1].quality.difference.worst for one in (fixed, until)]
    assert widths[1] > 1.4 * widths[0]


def test_a_failed_run_is_repeated_first() -> None:
    found = answer(SLOW, FAST, trained("c", 2.0, batch_size=64, status=["completed"] * 4 + ["failed"]))
    assert tried(found).command == "dlbench run --study studies/made-1"


def test_random_numbers_are_judged_by_throughput_and_not_by_scores() -> None:
    rates = {"a": 1000.0, "b": 2000.0}
    arms = [
        trained(name, 5.0, 0.1, workers=n, input="synthetic", samples_per_s=noisy(rate, 5, n, 0.005))
        for n, (name, rate) in enumerate(rates.items(), 1)
    ]
    found = answer(*arms)
    assert found.goal == "highest throughput"
    assert used(found).name == "b"


def test_a_deadline_is_one_of_training_times_where_throughput_decides() -> None:
    arms = [
        trained(name, seconds, workers=n, samples_per_s=noisy(rate, 5, n, 0.005))
        for n, (name, seconds, rate) in enumerate((("a", 5.0, 1000.0), ("b", 50.0, 2000.0)), 1)
    ]
    found = answer(*arms, wanted=Wanted(goal=Goal(least="throughput"), deadline_s=20.0))
    assert named(found)["b"].reason.startswith("over the deadline: ")
    assert used(found).name == "a"


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


def test_prices_deadline_and_most_cost() -> None:
    arms = (trained("four", 3600.0, workers=4), trained("one", 7200.0, seed=3, **ALONE))
    prices = Prices(currency="USD", worker_hour=2.5)
    found = answer(*arms, wanted=Wanted(prices=prices))
    assert (used(found).name, found.cheaper) == ("four", "one worker alone")
    assert found.use.cost == pytest.approx(10.0, rel=0.02)
    cheapest = answer(*arms, wanted=Wanted(goal=Goal(least="cost"), prices=prices))
    assert used(cheapest).name == "one"
    late = answer(*arms, wanted=Wanted(prices=prices, deadline_s=5000.0))
    assert named(late)["one"].reason.startswith("over the deadline: 7,")
    dear = answer(*arms, wanted=Wanted(prices=prices, max_cost=6.0))
    assert used(dear).name == "one"


def test_of_arms_that_are_alike_the_cheapest_is_used() -> None:
    times = {1: 20.0, 2: 10.0, 4: 9.99, 8: 9.98}
    arms = [trained(f"w{n}", seconds, workers=n, seed=n) for n, seconds in times.items()]
    found = answer(*arms)
    assert used(found).name == "w2"
    assert "do not add workers" in text(found)


def test_a_price_of_nothing_is_a_price_and_servers_take_places() -> None:
    free = answer(SLOW, FAST, wanted=Wanted(goal=Goal(least="cost"), prices=Prices(currency="USD", worker_hour=0.0)))
    assert {one.cost for one in free.arms} == {0.0}
    servers = trained("ps", 3500.0, strategy="parameter_server", servers=2, server_placement="own", workers=2)
    cheap = answer(servers, trained("ring", 3600.0, workers=2, seed=3), wanted=Wanted(goal=Goal(least="cost")))
    assert (used(cheap).name, named(cheap)["ps"].worker_hours) == ("ring", pytest.approx(4 * 3500 / 3600, rel=0.01))


def test_one_worker_alone_is_one_arm_however_the_others_divide() -> None:
    alone = [trained(f"alone-{scope}", 10.0, batch_scope=scope, **ALONE) for scope in ("per-worker", "global")]
    others = [trained(scope, 6.0, batch_scope=scope, workers=2, seed=3) for scope in ("per-worker", "global")]
    found = named(answer(*alone, *others))
    assert [found[name].word == "out" for name in ("alone-per-worker", "alone-global")] == [False, True]


def test_one_worker_alone_that_failed_stands_for_no_other() -> None:
    first, second = (trained(f"alone-{scope}", 10.0, batch_scope=scope, **ALONE) for scope in ("per-worker", "global"))
    first[0] |= {"status": "failed", "reason": "no"}
    found = named(answer(first, second, trained("two", 6.0, batch_scope="global", workers=2, seed=3)))
    assert [found[name].word == "out" for name in ("alone-per-worker", "alone-global")] == [True, False]


def test_what_the_goal_does_not_ask_for_is_a_doubt_where_it_is_far_behind() -> None:
    lossy = trained("lossy", 5.0, batch_size=16, seed=3, validation_loss=[1.9] * 5)
    broken = trained("broken", 2.0, batch_size=32, seed=4)
    broken[0] |= {"status": "failed", "reason": "no"}
    texts = [doubt.text for doubt in answer(SLOW, lossy, broken).doubts]
    assert any(one.startswith("its validation loss is 1.90, of mpi, batch 8 0.0") for one in texts), texts
    assert any(one.startswith("mpi, batch 32 came to 2.0") and "1 of 5 runs did not" in one for one in texts), texts


def test_what_is_run_next_says_its_time_and_what_it_settles() -> None:
    wild = trained("wild", 2.0, batch_size=16, validation_accuracy=[0.95, 0.93, 0.96, 0.91, 0.97])
    long = trained("long", 1000.0, 0.5, batch_size=4, seed=5)
    found = answer(SLOW, wild, long)
    assert found.next is not None
    further = int(found.next.command.rpartition(" ")[2]) - 5
    assert found.next.why == "settles 1 of 2 open arms"
    assert found.next.seconds == pytest.approx(further * (11 + 3 + 1001))
    dead = answer(SLOW, failed("dead", 3, "out-of-memory", batch_size=64))
    assert tried(dead).command == "dlbench logs dead-r0 --study studies/made-1"
    once = answer(SLOW, [*FAST[:4], FAST[4] | {"status": "timeout"}])
    assert once.next is not None
    assert (once.next.why, once.next.seconds) == ("repeats 1 run that failed", pytest.approx(6.0))


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        ("validation_loss", "loses: validation loss 67% higher"),
        ("bleu", "loses: bleu 4 points lower"),
        ("score", "loses: score 4 % lower"),
    ],
)
def test_differences_are_in_the_metrics_own_unit_and_direction(goal: str, said: str) -> None:
    units = {"bleu": "points", "score": "%"}
    metrics = declared({
        name: MetricDeclaration.model_validate({"better": "higher", "matters": 0.5, "unit": unit})
        for name, unit in units.items()
    })  # fmt: skip
    scores = {"validation_loss": (0.3, 0.5), "bleu": (30.0, 26.0), "score": (30.0, 26.0)}[goal]
    arms = [
        trained(name, seconds, batch_size=batch, seed=batch, **{goal: [score] * 5})
        for name, seconds, batch, score in (("slow", 10.0, 8, scores[0]), ("fast", 2.0, 16, scores[1]))
    ]
    assert said in text(answer(*arms, wanted=Wanted(goal=Goal(quality=goal), metrics=metrics)), metrics)


def test_a_script_with_batches_of_its_own_is_the_first_doubt() -> None:
    own = {"command": "train.py", "batch_size_per_worker": 16, "samples_seen": [3200] * 5, "steps": [50] * 5}
    found = answer(
        trained("a", 10.0, batch_size=16, workers=1, **own), trained("b", 5.0, batch_size=16, workers=2, seed=3, **own)
    )
    assert found.doubts[0].text.startswith("steps have other batches than `batch_size` says")


def test_doubts_are_sorted_by_how_much_they_could_change_the_answer() -> None:
    found = answer(
        [row | {"other_cpu_cores": 4.6, "warmup_detected": False} for row in SLOW],
        [row | {"steal_fraction": 0.05} for row in FAST],
    )  # fmt: skip
    texts = [doubt.text for doubt in found.doubts]
    assert texts[:2] == [
        "the learning rate was not tuned for each global batch",
        "other programs kept 4.6 cores busy in 5 of 10 runs",
    ]
    assert [doubt.weight for doubt in found.doubts] == sorted((doubt.weight for doubt in found.doubts), reverse=True)
    assert any("hypervisor" in one for one in texts)
    assert any(one.startswith("throughput was not steady in 5 of 10 runs") for one in texts)


def test_gpus_that_were_held_back_differently_or_reported_nonsense_are_doubts() -> None:
    held = {"device_throttled": 0.62, "device_throttled_power_cap": 0.6, "device_throttled_heat": 0.05}
    free = {"device_throttled": 0.0, "device_throttled_power_cap": 0.0, "device_throttled_heat": 0.0}
    odd = {"device_rejected": "energy_j 6 of 10; utilization 2 of 6"}
    texts = [doubt.text for doubt in answer([row | held for row in SLOW], [row | free | odd for row in FAST]).doubts]
    (clocks,) = (one for one in texts if one.startswith("clocks of GPUs"))
    assert "were held back by power cap and heat in 62% of the window in " in clocks
    assert ", and not held back in " in clocks
    assert "readings of GPUs cannot be true and were left out (energy_j, utilization) in 5 of 10 runs" in texts
    for alike in (held, free):
        found = answer(*([row | alike for row in rows] for rows in (SLOW, FAST)))
        assert not any("GPUs" in doubt.text for doubt in found.doubts)


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
