"""The search for what each arm is measured at: its candidates as runs, and how long each is trained."""

import math
from collections.abc import Sequence

from dlbench.grouping import by_key
from dlbench.scenario.expand.arms import in_words
from dlbench.scenario.expand.resolve import PlannedArm
from dlbench.scenario.run_spec import Phase, RunSpec, Tuned
from dlbench.scenario.scenario import Scenario
from dlbench.scenario.settings import Divide

# A search that finds its own values tries about this many: three, up to two beyond, and two between.
USUAL_CANDIDATES = 7


def with_search(arms: Sequence[PlannedArm], scenario: Scenario) -> tuple[PlannedArm, ...]:
    """Return the arms, those of which several values are tried as the first runs of a search."""
    if scenario.tune is None:
        return tuple(arms)
    candidates, planned = by_key((arm.run.label, arm.run) for arm in arms), []
    for arm in arms:
        run, keys = arm.run, (key for key in scenario.tune.candidates if key in arm.point.tuned)
        values = {key: value for key in keys if (value := arm.value(key)) is not None}
        if not values:
            planned.append(arm)
            continue
        settings = run.settings
        tuned = Tuned(arm=run.label, values=values, epochs=settings.epochs, extend_window=settings.extend_window)
        if len(candidates[run.label]) == 1:
            planned.append(arm.with_run(tuned=tuned))
            continue
        epochs = rungs(candidates[run.label], scenario)[0][1]
        label = f"tune {run.label} {in_words(values)}"
        extends = settings.extend_window and scenario.goal == "throughput"
        shortened = settings.model_copy(update={"epochs": epochs, "extend_window": extends})
        planned.append(arm.with_run(phase=Phase.TUNE, tuned=tuned, label=label, settings=shortened))
    return tuple(planned)


def search_repeats(count: int, scenario: Scenario) -> int:
    """Return how many runs there are of each of this many candidates of an arm."""
    tune = scenario.tune
    if tune is not None and tune.repeats is not None:
        return tune.repeats
    return 2 if 2 * _expected(count, scenario) <= scenario.least_repeats else 1


def _expected(count: int, scenario: Scenario) -> int:
    """Return how many candidates there will probably be where the search has this many at first."""
    is_open = scenario.tune is not None and not all(scenario.tune.candidates.values())
    return max(count, USUAL_CANDIDATES) if is_open else count


def rungs(candidates: Sequence[RunSpec], scenario: Scenario) -> list[tuple[int, int]]:
    """Return how many of an arm's candidates are trained for how many epochs, one rung after the other.

    All of them get all epochs where that costs no more than the arm's measurement. Else each rung costs the same part
    of it, and the better half goes on to the next one: successive halving (Jamieson and Talwalkar 2016, AISTATS).

    Args:
        candidates: One run of each.
        scenario: With `tune`.
    """
    tune, count, first = scenario.tune, len(candidates), candidates[0]
    assert tune is not None
    whole = first.tuned.epochs if first.tuned else first.settings.epochs
    if tune.epochs is not None:
        return [(count, tune.epochs)]
    share = first.settings.workers if first.settings.divide is Divide.EPOCHS else 1
    # All are trained equally long, until the longest warm-up has ended.
    warmup = max(run.settings.warmup_epochs for run in candidates)
    least = min(max(1, math.ceil(warmup)) * share, whole)
    allowed, expected = whole * scenario.least_repeats / search_repeats(count, scenario), _expected(count, scenario)
    if expected * whole <= allowed:
        return [(count, whole)]
    counts = [expected]
    # Values that are found one after the other are not thinned out.
    while counts[-1] > 2 and expected == count:
        counts.append(math.ceil(counts[-1] / 2))
    halvings: list[tuple[int, int]] = []
    for number in counts:
        epochs = min(max(int(allowed / len(counts) / number), least), whole)
        number = min(number, count)
        if not halvings or epochs > halvings[-1][1]:
            halvings.append((number, epochs))
    return halvings
