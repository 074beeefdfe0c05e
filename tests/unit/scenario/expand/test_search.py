"""The candidates of a search, how long each is trained, and what cannot be searched for."""

import itertools

import pytest

from dlbench.scenario.expand.search import rungs, search_repeats
from dlbench.scenario.read.scenario_file import parse
from dlbench.scenario.run_spec import Phase, RunSpec, Tuned
from dlbench.scenario.settings import Settings

BASE = "base: {trainer: numpy, strategy: mpi, epochs: 10}\nmatrix: {workers: [1, 2]}\nrepeats: 5\n"


def test_each_arm_and_base_line_has_its_own_candidates(runs) -> None:
    found = runs(BASE + "tune: {learning_rate: [0.01, 0.1, 1], repeats: 2}\n")
    assert {run.phase for run in found} == {Phase.TUNE}
    arms = {run.tuned.arm for run in found}
    assert arms == {"baseline", "workers=1", "workers=2"}
    for arm in arms:
        own = [run for run in found if run.tuned.arm == arm]
        assert sorted(run.settings.learning_rate for run in own) == [0.01, 0.01, 0.1, 0.1, 1.0, 1.0]
        assert {run.tuned.epochs for run in own} == {10}
        assert len({run.label for run in own}) == 3
    assert {run.seed for run in found} == {1_000_000, 1_000_001}


def test_a_run_of_a_search_is_another_run_than_the_measured_one(runs) -> None:
    (searched, *_) = runs(BASE + "tune: {learning_rate: [0.01, 0.1]}\n")
    measured = searched.model_copy(update={"phase": Phase.MEASURE})
    assert measured.run_id != searched.run_id
    plain = next(run for run in runs(BASE) if run.label == measured.tuned.arm)
    same = measured.model_copy(update={"settings": plain.settings})
    assert same.fingerprint == plain.fingerprint  # a rate that was searched for is the same rate


def test_an_option_is_searched_for_where_there_is_one(runs) -> None:
    text = "base: {trainer: numpy, epochs: 2}\nmatrix: {strategy: [mpi, replicas], workers: [2]}\nbaseline: none\n"
    found = runs(text + "tune: {strategy.chunk_bytes: [1024, 2048]}\n")
    kinds = {(run.settings.strategy, run.phase, run.options.get("strategy.chunk_bytes")) for run in found}
    assert kinds == {("mpi", Phase.TUNE, 1024), ("mpi", Phase.TUNE, 2048), ("replicas", Phase.MEASURE, None)}
    assert next(run for run in found if run.settings.strategy == "replicas").tuned is None


def test_one_value_needs_no_search(runs) -> None:
    found = runs(BASE + "tune: {learning_rate: [0.3]}\n")
    assert {run.phase for run in found} == {Phase.MEASURE}
    assert {run.settings.learning_rate for run in found} == {0.3}
    assert {run.tuned.values["learning_rate"] for run in found} == {0.3}


def test_auto_begins_around_the_rate_of_base(runs) -> None:
    # No run has a rate above 1e6.
    for rate, rates in ((0.2, [0.067, 0.2, 0.6]), (1e6, [330_000, 1e6])):
        planned = runs(
            f"base: {{trainer: numpy, learning_rate: {rate}}}\nbaseline: none\ntune: {{learning_rate: auto}}\n"
        )
        assert sorted({run.settings.learning_rate for run in planned}) == rates


def test_only_leaves_candidates_alone(runs, refusal) -> None:
    text = BASE + "tune: {learning_rate: [0.01, 0.1, 1, 3, 5, 7, 9]}\n"
    whole, part = runs(text), runs(text, only={"workers": "2", "epochs": "10"})
    assert set(map(str, part)) == {str(run) for run in whole if run.settings.workers == 2}
    assert "learning_rate is searched for" in refusal(text, only={"learning_rate": "0.1"})


def _rungs(count: int, epochs: int, repeats: int, tune: str = "learning_rate: [1, 2]", **values) -> list:
    scenario = parse(f"base: {{trainer: numpy}}\nrepeats: {repeats}\ntune: {{{tune}}}\n", "s.yaml")
    settings = Settings(trainer="numpy", epochs=epochs, **values)
    run = RunSpec(scenario="s", label="x", repeat=0, settings=settings, tuned=Tuned(arm="x", values={}, epochs=epochs))
    return rungs([run] * count, scenario)


def test_all_candidates_are_trained_until_the_longest_warm_up_has_ended(runs) -> None:
    text = "base: {trainer: numpy, epochs: 4}\nbaseline: none\nrepeats: 3\n"
    for warm_ups in ("0, 3", "3, 0"):
        found = runs(f"{text}tune: {{warmup_epochs: [{warm_ups}], learning_rate: [0.03, 0.1, 0.3]}}\n")
        assert [run.settings.epochs for run in found] == [3] * 6
        scenario = parse(f"{text}tune: {{warmup_epochs: [{warm_ups}]}}\n", "s.yaml")
        assert rungs(found, scenario) == [(6, 3)]


def test_a_search_costs_no_more_than_the_measurement() -> None:
    for count, epochs, repeats in itertools.product((2, 3, 5, 16), (5, 10, 40), (3, 5, 10)):
        found = _rungs(count, epochs, repeats)
        scenario = parse(f"repeats: {repeats}\ntune: {{learning_rate: [1, 2]}}\n", "s.yaml")
        runs_of_each = search_repeats(count, scenario)
        cost = runs_of_each * sum(number * trained for number, trained in found)
        assert cost <= max(epochs * repeats, runs_of_each * count), found
        assert found == sorted(found, key=lambda rung: (-rung[0], rung[1])), found
        assert len({trained for _, trained in found}) == len(found), found


def test_few_candidates_are_trained_as_long_as_the_arm() -> None:
    assert _rungs(2, 10, 5) == [(2, 10)]
    assert _rungs(5, 10, 5) == [(5, 10)]
    assert _rungs(8, 20, 5) == [(8, 4), (4, 8), (2, 16)]
    assert _rungs(2, 10, 4) == [(2, 10)], "each on two seeds"
    assert _rungs(8, 20, 5, "learning_rate: [1, 2], epochs: 7") == [(8, 7)]
    assert _rungs(3, 10, 1, warmup_epochs=4.5) == [(3, 5)], "a rate that never comes to its value is not tried"
    assert _rungs(3, 12, 7, "learning_rate: auto") == [(3, 12)]
    assert _rungs(3, 12, 5, "learning_rate: auto") == [(3, 8)], "as if seven were tried"


@pytest.mark.parametrize(
    ("tune", "message"),
    [
        ("{}", "tune names nothing to search for"),
        ("{workers: [1, 2]}", "workers is an axis: it cannot be searched for, too"),
        ("{seed: [1, 2]}", "seed cannot be searched for: it changes what is compared"),
        ("{dataset.noise: [0, 1]}", "dataset.noise cannot be searched for"),
        ("{momentum: auto}", "values of momentum cannot be found by themselves"),
        ("{learning_rate: 0.1}", "tune.learning_rate must be a list of values, or `auto`"),
        ("{learningrate: [0.1]}", "unknown key 'learningrate'"),
        ("{strategy.chunks: [1]}", "mpi has no option 'chunks'"),
    ],
)
def test_what_cannot_be_searched_for(refusal, tune: str, message: str) -> None:
    assert message in refusal(f"{BASE}tune: {tune}\n")


def test_a_candidate_that_cannot_run_is_refused_with_its_line(refusal) -> None:
    said = refusal("base: {trainer: numpy}\ntune:\n  momentum: [0.1, 0.9]\n  optimizer: [sgd, adam]\n")
    assert "momentum belongs to the optimizer sgd, not to adam" in said
    assert "s.yaml:4" in said


def test_a_search_does_not_lengthen_its_window(runs) -> None:
    found = runs("base: {trainer: numpy, extend_window: true}\ntune: {learning_rate: [0.1, 0.2]}\n")
    assert {(run.settings.extend_window, run.tuned.extend_window) for run in found} == {(False, True)}


def test_a_target_of_the_goal_alone_is_refused(refusal) -> None:
    for more in ("tune: {learning_rate: auto}\n", "repeats: {min: 3, max: 4}\n"):
        said = refusal("base: {trainer: numpy}\ngoal: time to validation_accuracy>=0.9\n" + more)
        assert "need the goal's target as `target`" in said
