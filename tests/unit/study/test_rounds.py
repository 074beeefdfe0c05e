"""Which runs come next: searches, their choices, and what is measured at them, whatever was interrupted."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dlbench.scenario.expand.runs import expand
from dlbench.scenario.read.scenario_file import parse
from dlbench.scenario.run_spec import Phase, RunSpec
from dlbench.study.folder import StudyPlan
from dlbench.study.rounds import announced, next_round
from tests.unit.study.makers import MACHINE, planned

BASE = "name: s\nbase: {trainer: numpy, model: mlp, dataset: digits, epochs: 8, strategy: mpi}\nrepeats: 4\n"
AXES = "matrix: {workers: [1, 2], batch_size: [8, 64]}\n"
Rows = list[dict[str, Any]]
Score = Callable[[RunSpec], dict[str, Any]]


def plan(text: str, repeats: int | None = None) -> StudyPlan:
    scenario, cluster = parse(text, "s.yaml"), planned().cluster
    return StudyPlan(scenario, text, expand(scenario, cluster), cluster, MACHINE, repeats=repeats)


def row(run: RunSpec, accuracy: float, status: str = "completed", **values: Any) -> dict[str, Any]:
    settings = run.settings
    return {
        "run_id": run.run_id, "attempt": 1, "status": status, "label": run.label,
        "repeat": run.repeat, "seed": run.seed,
        "phase": str(run.phase), "validation_accuracy": accuracy, "validation_loss": 1.5 - accuracy,
        "train_time_s": 1.0 * settings.epochs, "workers": settings.workers, "strategy": settings.strategy,
        "batch_size_global": run.global_batch_size, "input": "mapped", "num_classes": 10, **values,
    }  # fmt: skip


def of_rate(run: RunSpec) -> dict[str, Any]:
    """Score the better, the nearer the rate is to one that grows with the batch; a rate of 5 and more diverges."""
    best = 0.002 * run.global_batch_size
    rate = run.settings.learning_rate
    status = "diverged" if rate >= 5 else "completed"
    return row(run, 0.9 / (1 + abs(rate - best)) + 0.001 * run.repeat, status)


def made(plan: StudyPlan, score: Score = of_rate, stop_after: int = 10**6, rows: Rows | None = None) -> Rows:
    """Make rounds, after rows of earlier ones, until nothing is left, or so many runs are made."""
    rows = list(rows or [])
    while todo := [run for run in next_round(plan, rows) if run.run_id not in ended(rows)]:
        for run in todo:
            if len(rows) == stop_after:
                return rows
            rows.append(score(run))
    return rows


def ended(rows: Rows) -> set[str]:
    return {row["run_id"] for row in rows if row["status"] != "interrupted"}


def chosen(plan: StudyPlan, rows: Rows) -> dict[str, float]:
    found = next_round(plan, rows)
    assert {run.phase for run in found} == {Phase.MEASURE}
    return {run.label: run.settings.learning_rate for run in found}


def rates_of(text: str, score: Score = of_rate) -> set[float]:
    """Return the learning rates at which arms are measured that have no base line."""
    asked = plan(f"{BASE}baseline: none\n{text}\n")
    return set(chosen(asked, made(asked, score)).values())


def test_without_a_search_the_plan_is_what_is_made_whatever_is_decided() -> None:
    asked = plan(BASE + AXES)
    assert next_round(asked, []) == asked.runs
    assert announced(asked.runs) == []
    fixed = plan(UNTIL + "matrix: {batch_size: [8, 32]}\nbaseline: none\n", repeats=5)
    repeated = tuple(run.model_copy(update={"repeat": repeat}) for run in fixed.runs[:2] for repeat in range(5))
    assert next_round(replace(fixed, runs=repeated), []) == repeated


def test_each_arm_is_measured_at_its_own_best_rate_which_is_announced() -> None:
    asked = plan(BASE + AXES + "tune: {learning_rate: [0.01, 0.1, 0.3]}\n")
    assert announced(next_round(asked, [])) == ["search for learning_rate: 18 runs of 6 arms, 8 epochs"]
    rows = made(asked)
    assert chosen(asked, rows) == {
        "baseline batch_size=8": 0.01,
        "baseline batch_size=64": 0.1,
        "workers=1 batch_size=8": 0.01,
        "workers=1 batch_size=64": 0.1,
        "workers=2 batch_size=8": 0.01,
        "workers=2 batch_size=64": 0.3,
    }
    measured = next_round(asked, rows)
    assert len(measured) == 6 * 4
    assert {run.settings.epochs for run in measured} == {8}
    assert {run.seed for run in measured} == {0, 1, 2, 3}
    # Block by block, as without a search.
    assert [run.repeat for run in measured] == [repeat for repeat in range(4) for _ in range(6)]
    assert {run.arm for run in asked.runs} == {run.label for run in measured}
    # What lies at the edge of its values says so.
    edges = {run.label: run.tuned.at_edge for run in measured if run.tuned}
    assert edges["workers=2 batch_size=64"] == "learning_rate 0.3 is the largest tried"
    assert edges["workers=1 batch_size=8"] == "learning_rate 0.01 is the smallest tried"
    assert edges["workers=1 batch_size=64"] == ""
    lines = announced(measured)
    assert "workers=2 batch_size=64: learning_rate=0.3 (learning_rate 0.3 is the largest tried)" in lines
    assert len(lines) == 6


def test_nothing_lies_beyond_zero_or_below_one_of_a_count() -> None:
    asked = plan(BASE + "tune: {momentum: [0.0, 0.9], gradient_accumulation_steps: [1, 2], nesterov: [false]}\n")
    rows = made(asked, lambda run: row(run, 0.9 - run.settings.momentum / 10))
    assert {run.tuned.at_edge for run in next_round(asked, rows) if run.tuned} == {""}


def test_an_interrupted_search_goes_on_to_the_same_choice() -> None:
    asked = plan(BASE + AXES + "tune: {learning_rate: [0.003, 0.01, 0.03, 0.1, 0.3, 1], repeats: 2}\n")
    whole = made(asked)
    for stop_after in (0, 5, 18, 30):
        begun = whole[:stop_after] or [{**of_rate(next_round(asked, [])[0]), "status": "interrupted"}]
        again = made(asked, lambda run: {**of_rate(run), "attempt": 2}, rows=begun)
        assert chosen(asked, again) == chosen(asked, whole), stop_after
        assert ended(again) == ended(whole), stop_after


def test_the_better_half_goes_on_with_more_epochs() -> None:
    asked = plan(BASE + "baseline: none\ntune: {learning_rate: [0.003, 0.01, 0.03, 0.1, 0.3, 1, 2, 4]}\n")
    rows = made(asked, lambda run: of_rate(run) | {"epochs": run.settings.epochs})
    assert Counter(one["epochs"] for one in rows if one["phase"] == "tune" and one["repeat"] == 0) == {1: 8, 2: 4, 5: 2}
    assert set(chosen(asked, rows).values()) == {0.03}
    assert {run.tuned.scattered for run in next_round(asked, rows) if run.tuned} == {None}, "halving has left two"


def test_auto_goes_on_beyond_its_first_values_until_the_best_is_inside_and_then_between() -> None:
    asked = plan(BASE + "tune: {learning_rate: auto}\n")  # begins at 0.01, and the best is at 0.064
    rows = made(asked)
    assert set(chosen(asked, rows).values()) == {0.052}
    tried = [one["label"].partition("learning_rate=")[2] for one in rows if one["phase"] == "tune"]
    # Of the arm and its base line: no further than 0.27, and near 0.09 no finer.
    assert Counter(tried) == dict.fromkeys(["0.0033", "0.01", "0.03", "0.09", "0.27", "0.052", "0.16"], 2)
    assert {run.tuned.at_edge for run in next_round(asked, rows) if run.tuned} == {""}


def test_auto_ends_somewhere() -> None:
    asked = plan(BASE + "baseline: none\ntune: {learning_rate: auto}\n")
    rows = made(asked, lambda run: row(run, 1 - 1 / (1 + run.settings.learning_rate)))
    assert len([one for one in rows if one["phase"] == "tune"]) == 9
    (edge,) = {run.tuned.at_edge for run in next_round(asked, rows) if run.tuned}
    assert "is the largest tried" in edge


def test_auto_goes_on_to_where_most_was_learned_where_no_first_value_learns_anything() -> None:
    def explodes(run: RunSpec) -> dict[str, Any]:
        rate = run.settings.learning_rate
        # Larger rates all end at chance, some of them a little above it; the least of them had learned something.
        end, best = (0.9 - rate, 0.95) if rate < 0.002 else (0.1 + min(rate, 0.03) / 10, 0.1 + 0.001 / rate)
        return row(run, end, best_validation_accuracy=best, knows_nothing_accuracy=0.1)

    assert max(rates_of("tune: {learning_rate: auto}", explodes)) < 0.002

    def crawls(run: RunSpec) -> dict[str, Any]:
        # Of rates that are all too small the larger has the smaller loss.
        rate = run.settings.learning_rate
        end = 0.9 if rate > 0.5 else 0.1
        best = {"best_validation_accuracy": end, "knows_nothing_accuracy": 0.1}
        return row(run, end, **best, validation_loss=2.3 - min(rate, 1))

    assert min(rates_of("tune: {learning_rate: auto}", crawls)) > 0.5


def test_a_candidate_that_fails_or_comes_to_nothing_at_one_of_two_seeds_is_not_chosen() -> None:
    def wild(run: RunSpec) -> dict[str, Any]:
        is_bad = run.settings.learning_rate == 0.3 and run.seed % 2
        return row(run, 0.1 if is_bad else 0.9 + run.settings.learning_rate / 10)

    assert rates_of("tune: {learning_rate: [0.1, 5, 6]}") == {0.1}
    assert rates_of("tune: {learning_rate: [0.1, 0.3], repeats: 2}", wild) == {0.1}
    asked = plan(BASE + AXES + "baseline: none\ntune: {learning_rate: [6, 7]}\n")
    assert {one["phase"] for one in made(asked)} == {"tune"}, "an arm whose candidates all diverged is not measured"
    assert next_round(asked, made(asked)) == ()


def test_an_arm_of_which_no_candidate_completes_is_not_measured_and_tried_again_later() -> None:
    asked = plan(BASE + AXES + "baseline: none\ntune: {learning_rate: [0.01, 0.1]}\n")
    rows: Rows = []
    while todo := [run for run in next_round(asked, rows, ended(rows)) if run.run_id not in ended(rows)]:
        rows += [of_rate(run) | {"status": "failed" if run.settings.workers == 2 else "completed"} for run in todo]
    assert {one["workers"] for one in rows if one["phase"] == "measure"} == {1}
    again = next_round(asked, rows)
    assert {(run.phase, run.settings.workers) for run in again} == {(Phase.TUNE, 2)}


def test_of_a_target_the_soonest_counts_and_before_any_run_reaches_it_the_score() -> None:
    tune = "target: {metric: validation_accuracy, value: 0.8}\ntune: {learning_rate: [0.01, 0.1, 1]}"
    scores, times = {0.01: 0.7, 0.1: 0.95, 1.0: 0.85}, {0.1: 4.0, 1.0: 2.0}

    def to_target(run: RunSpec, times: dict[float, float] = times) -> dict[str, Any]:
        rate = run.settings.learning_rate
        values = {"target_metric": "validation_accuracy", "target_value": 0.8, "epochs_to_target": times.get(rate)}
        return row(run, scores[rate], time_to_target_s=times.get(rate), **values)

    assert rates_of(tune, to_target) == {1.0}
    assert rates_of(tune, lambda run: to_target(run, {})) == {0.1}


def test_what_changes_the_time_of_a_step_is_chosen_for_it_among_equal_scores() -> None:
    asked = plan(BASE + "baseline: none\ntune: {batch_size: [8, 16, 32]}\n")
    rows = made(asked, lambda run: row(run, 0.9, train_time_s=100.0 / run.settings.batch_size))
    assert {run.settings.batch_size for run in next_round(asked, rows)} == {32}
    rows = made(asked, lambda run: row(run, 0.9 - run.settings.batch_size / 500, train_time_s=1.0))
    assert {run.settings.batch_size for run in next_round(asked, rows)} == {8}


def test_the_size_of_a_search_is_that_of_the_file_whatever_repeats_are_asked_for() -> None:
    text = BASE.replace("repeats: 4", "repeats: 1") + "baseline: none\ntune: {learning_rate: [0.01, 0.1, 1]}\n"
    few, scenario = plan(text), parse(text, "s.yaml")
    many = replace(plan(text, repeats=8), runs=expand(scenario, few.cluster, repeats=8))
    assert [run.run_id for run in few.runs] == [run.run_id for run in many.runs]
    assert [run.phase for run in next_round(many, made(few))] == [Phase.MEASURE] * 8


def test_arms_of_equal_candidates_have_runs_that_differ() -> None:
    asked = plan(BASE.replace("epochs: 8, ", "") + "matrix: {epochs: [4, 8]}\nbaseline: none\n"
                 "tune: {learning_rate: [0.01, 0.1], epochs: 2, repeats: 1}\n")  # fmt: skip
    assert len({run.run_id for run in asked.runs}) == 4


def test_auto_widens_rates_beside_another_value() -> None:
    tune = "tune: {learning_rate: auto, momentum: [0.0, 0.5, 0.9]}\n"
    asked = plan(BASE.replace("epochs: 8", "epochs: 8, learning_rate: 0.0001") + "baseline: none\n" + tune)
    rows = made(asked, lambda run: row(run, 0.9 / (1 + abs(math.log(run.settings.learning_rate / 0.09)))))
    assert all(0.03 < rate < 0.3 for rate in chosen(asked, rows).values())
    assert len(ended(rows)) == len(rows), "no candidate is tried twice"


def test_a_candidate_that_failed_is_tried_again_until_its_arm_is_measured() -> None:
    asked = plan(BASE + "baseline: none\ntune: {learning_rate: [0.01, 0.1], repeats: 1}\n")
    first, second = map(of_rate, next_round(asked, []))
    assert second["label"].endswith("learning_rate=0.1")
    rows = [first, second | {"status": "failed"}]
    again = next_round(asked, rows)
    assert [(run.phase, run.settings.learning_rate) for run in again] == [(Phase.TUNE, 0.1)]
    (first, *_) = next_round(asked, rows, ended(rows))
    assert (first.phase, first.settings.learning_rate) == (Phase.MEASURE, 0.01)
    rows.append(of_rate(first))
    assert {run.phase for run in next_round(asked, rows)} == {Phase.MEASURE}, "the choice stays"


def test_a_budget_searches_for_as_many_arms_as_can_be_measured() -> None:
    asked = plan(BASE + "baseline: none\nmatrix: {batch_size: [8, 64, 256]}\ntune: {learning_rate: [0.01, 0.1, 0.3]}\n")
    rows: Rows = []

    def has_room(runs: Sequence[RunSpec]) -> bool:
        return len(rows) + len(runs) <= 16  # two arms: three candidates and four repeats of each

    def todo(has_room: Callable[[Sequence[RunSpec]], bool] | None) -> list[RunSpec]:
        return [run for run in next_round(asked, rows, ended(rows), has_room) if run.run_id not in ended(rows)]

    seen = []
    while found := todo(has_room):
        seen.append([(run.phase, run.settings.batch_size) for run in found])
        rows += map(of_rate, found)
    first, second, measured = seen
    searched = [batch for ((_, batch),) in map(set, (first, second))]
    assert first + second == [(Phase.TUNE, batch) for batch in searched for _ in range(3)]
    assert Counter(measured) == {(Phase.MEASURE, batch): 4 for batch in searched}
    (other,) = {8, 64, 256} - {*searched}
    assert {(run.phase, run.settings.batch_size) for run in todo(None)} == {(Phase.TUNE, other)}, "another call goes on"


UNTIL = BASE.replace("repeats: 4", "repeats: {min: 3, max: 9, until: decided}")


def of_batch(run: RunSpec, times: dict[int, float], scatter: float = 0.01) -> dict[str, Any]:
    """Return a run of a time that its batch has, with a scatter that its repeat and batch alone decide."""
    noise = np.random.default_rng([run.seed, run.settings.batch_size]).standard_normal()
    seconds = times[run.settings.batch_size] * math.exp(scatter * noise)
    return row(run, 0.9, train_time_s=seconds, repeats_rule=run.repeats_rule, batch_size=run.settings.batch_size)


def counts(rows: Rows) -> dict[int, int]:
    return Counter(one["batch_size"] for one in rows)


def test_arms_that_are_decided_are_measured_no_more() -> None:
    asked = plan(UNTIL + "matrix: {batch_size: [8, 16, 32]}\nbaseline: none\n")
    # One that is far behind, and two that no number of repeats tells apart.
    rows = made(asked, lambda run: of_batch(run, {8: 1.0, 16: 1.0, 32: 2.0}, 0.05))
    found = counts(rows)
    assert found[32] == 3
    assert found[8] == found[16] == 9
    quiet = made(asked, lambda run: of_batch(run, {8: 1.0, 16: 1.0, 32: 2.0}, 0.001))
    assert set(counts(quiet).values()) == {3}, "arms that are alike by less than what matters are equal enough"
    assert {one["repeats_rule"] for one in quiet} == {"until decided: 3 to 9"}

    def knows_nothing(run: RunSpec) -> dict[str, Any]:
        found = of_batch(run, {8: 1.0, 16: 1.0, 32: 1.0}, 0.2)
        return found | {"validation_accuracy": 0.1} if run.settings.batch_size == 32 else found

    assert counts(made(asked, knows_nothing)) == {8: 9, 16: 9, 32: 3}, "an arm that is out is measured no more"


def test_rounds_are_interleaved_and_go_on_where_they_were_interrupted() -> None:
    asked = plan(UNTIL + "matrix: {batch_size: [8, 16, 32]}\nbaseline: none\n")
    score = lambda run: of_batch(run, {8: 1.0, 16: 1.03, 32: 1.5}, 0.03)  # noqa: E731
    whole = made(asked, score)
    repeats = [one["repeat"] for one in whole]
    assert repeats == sorted(repeats)
    for stop_after in (0, 4, 9, 10, len(whole) - 1):
        again = made(asked, score, rows=whole[:stop_after])
        assert ended(again) >= {one["run_id"] for one in whole if one["repeat"] < 3}


def test_a_search_comes_before_repeats_until_decided() -> None:
    asked = plan(UNTIL + "matrix: {batch_size: [8, 16]}\nbaseline: none\ntune: {learning_rate: [0.1, 0.01]}\n")
    rows = made(asked, lambda run: of_batch(run, {8: 1.0, 16: 2.0}) | {"phase": str(run.phase)})
    assert {one["phase"] for one in rows[:4]} == {"tune"}
    assert {one["phase"] for one in rows[4:]} == {"measure"}
    assert len(rows) == 4 + 6


def test_a_base_line_of_two_conditions_is_repeated_once_in_a_round() -> None:
    asked = plan(UNTIL + "matrix: {workers: [1, 2], batch_size: [8, 16]}\nbaseline: none\n")

    def score(run: RunSpec) -> dict[str, Any]:
        alone, latency = {"strategy": "single"}, {"communicator.latency_ms": run.settings.batch_size}
        return of_batch(run, {8: 1.0, 16: 1.0}, 0.2) | (alone if run.settings.workers == 1 else latency)

    rows = made(asked, score, stop_after=12)
    further = next_round(asked, rows)
    assert any(run.settings.workers == 1 for run in further if run.repeat == 3)
    assert {run.repeat for run in further} <= {0, 1, 2, 3}


def test_the_arm_to_use_and_its_rivals_run_on_fresh_seeds_once_all_else_is_made() -> None:
    asked = replace(plan(BASE + "matrix: {batch_size: [8, 16, 32]}\nbaseline: none\n"), confirms=True)
    rows = [of_batch(run, {8: 1.0, 16: 1.5, 32: 2.0}) for run in asked.runs]
    assert next_round(asked, [*rows[:-1], rows[-1] | {"status": "interrupted"}]) == asked.runs
    fresh = next_round(asked, rows)[len(asked.runs) :]
    assert {run.phase for run in fresh} == {Phase.CONFIRM}
    assert Counter(run.settings.batch_size for run in fresh) == {8: 5, 16: 5, 32: 5}
    assert not {run.seed for run in fresh} & {run.seed for run in asked.runs}


def test_of_rivals_that_lose_those_that_miss_least_run_on_fresh_seeds() -> None:
    asked = replace(plan(BASE + "matrix: {batch_size: [8, 16, 32, 64, 128]}\nbaseline: none\n"), confirms=True)
    scores = {8: 0.935, 16: 0.934, 32: 0.919, 64: 0.878, 128: 0.6}

    def score(run: RunSpec) -> dict[str, Any]:
        times = {8: 1.3, 16: 4.0, 32: 0.7, 64: 0.6, 128: 0.5}
        accuracy = scores[run.settings.batch_size] + 0.002 * (run.repeat % 3 - 1)
        return of_batch(run, times) | {"validation_accuracy": accuracy}

    fresh = next_round(asked, [score(run) for run in asked.runs])[len(asked.runs) :]
    assert {run.settings.batch_size for run in fresh} == {8, 32, 64}


RATES = [0.01, 0.02, 0.04, 0.08, 0.16]
# The second of RATES is the scenario's own.
OWN_RATE = BASE.replace("epochs: 8", f"epochs: 8, learning_rate: {RATES[1]}") + "baseline: none\n"


def scored(scores: list[float], losses: list[float] | None = None, **values: Any) -> Score:
    """Score each of RATES."""

    def score(run: RunSpec) -> dict[str, Any]:
        place = RATES.index(run.settings.learning_rate)
        loss = {} if losses is None else {"validation_loss": losses[place]}
        return row(run, scores[place], knows_nothing_accuracy=0.1, **loss, **values)

    return score


def searched(more: str = "") -> StudyPlan:
    return plan(OWN_RATE + f"tune: {{learning_rate: {RATES}, epochs: 8{more}}}\n")


SCATTERED = [0.7, 0.8, 0.3, 0.9, 0.6]


@pytest.mark.parametrize(
    ("scores", "losses", "rate", "is_scattered"),
    [
        # Told apart: the best counts, wherever it lies; at the edge too few lie near it to tell.
        ([0.4, 0.6, 0.7, 0.8, 0.5], None, 0.08, False),
        ([0.4, 0.5, 0.6, 0.7, 0.8], None, 0.16, None),
        # Not told apart: the own rate stays, where it is one of the better half.
        (SCATTERED, None, 0.02, True),
        ([0.7, 0.65, 0.2, 0.9, 0.8], None, 0.08, True),
        # What came to nothing is no part of it: in its order there is only chance.
        ([0.1, 0.05, 0.9, 0.8, 0.5], None, 0.04, None),
        ([0.7, 0.8, 0.9, 0.05, 0.1], None, 0.04, None),
        # Alike, and told apart by their losses.
        ([0.9, 0.945, 0.952, 0.95, 0.948], [0.5, 0.4, 0.3, 0.2, 0.1], 0.16, None),
    ],
)
def test_where_rates_are_not_told_apart_the_own_one_stays(
    scores: list[float], losses: list[float] | None, rate: float, is_scattered: bool | None
) -> None:
    todo = next_round(searched(), made(searched(), scored(scores, losses)))
    assert {(run.settings.learning_rate, run.tuned.scattered) for run in todo if run.tuned} == {(rate, is_scattered)}
    assert ("rates were not told apart" in announced(todo)[0]) == bool(is_scattered)


def test_accuracies_of_few_samples_and_misses_of_a_target_are_told_apart_by_their_losses() -> None:
    tune = f"tune: {{learning_rate: {RATES}, epochs: 8}}\n"
    scores, losses = [0.85, 0.925, 0.911, 0.908, 0.7], [0.9, 0.45, 0.35, 0.3, 1.2]
    for text in (tune, tune + "target: {metric: validation_accuracy, value: 0.95}\n"):
        for samples, rate in ((359, 0.08), (100_000, 0.02)):
            assert rates_of(text, scored(scores, losses, validation_samples=samples)) == {rate}, (text, samples)


def test_nothing_is_known_of_scatter_where_what_is_tried_changes_the_time_of_a_step() -> None:
    asked = searched(", momentum: [0.0]")
    assert {run.tuned.scattered for run in next_round(asked, made(asked, scored(SCATTERED))) if run.tuned} == {None}


def test_what_was_measured_before_stays_whatever_would_be_chosen_now() -> None:
    asked = searched()
    rows = made(asked, scored([0.4, 0.6, 0.7, 0.8, 0.5]), stop_after=5)
    (other,) = [run for run in asked.runs if run.settings.learning_rate == 0.04]
    rows.append(row(other.as_measured, 0.7))
    assert {run.settings.learning_rate for run in next_round(asked, rows)} == {0.04}
