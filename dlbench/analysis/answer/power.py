"""What repeats will be able to tell, known before the first run."""

import math
from collections.abc import Collection, Iterable

from dlbench.analysis.answer.comparison_group import comparison_groups
from dlbench.analysis.arms import arms as arms_of
from dlbench.analysis.formatting import counted, percent
from dlbench.analysis.judge import LEAST_REPEATS, POWER
from dlbench.analysis.metrics.row import specification
from dlbench.analysis.statistics.sequential import SIGNIFICANCE, nominal_level
from dlbench.scenario.metrics import TRAIN_TIME
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.scenario import Repeats

# Of times on a quiet machine.
USUAL_SCATTER = 0.02


def detectable(repeats: int, arms: int, significance: float = SIGNIFICANCE, margin: float = 0.0) -> float:
    """Return the difference that is found between two arms with power 0.8, in standard deviations of one run.

    Of arms of equal scatter, in a family of k - 1 comparisons with the best arm; infinite with less than three repeats,
    which judge nothing.

    Args:
        repeats: Of each arm.
        arms: Their number; of more than two the scatter is known better.
        significance: Of the family.
        margin: The smallest difference that matters, in standard deviations of one run: less is no loss.
    """
    from scipy.special import stdtrit

    if repeats < LEAST_REPEATS:
        return math.inf
    # Welch's degrees of freedom of two short arms are hardly more than those of one.
    freedom = min(arms - 1, 2) * (repeats - 1)
    error, level = math.sqrt(2 / repeats), significance / (2 * max(arms - 1, 1))
    found = stdtrit(freedom, POWER) * error
    return float(found + max(stdtrit(freedom, 1 - level) * error, margin))


def compared(runs: Iterable[RunSpec], given: Collection[str] = ()) -> tuple[int, int]:
    """Return how many arms of planned runs are compared with each other at most, and in how many groups they are."""
    one_of_each = {run.arm: run for run in runs}.values()
    rows = ({"attempt": 0, "status": ""} | specification(run) | run.options for run in one_of_each)
    groups = comparison_groups(arms_of(rows), given)
    return max((len(group.arms) for group in groups), default=0), len(groups)


def power_text(repeats: int | Repeats, arms: int, groups: int = 1) -> str:
    """Say what these repeats of this many arms of a group will tell; empty where there is nothing to compare."""
    if arms < 2:
        apart = "no two arms are compared: each has another task (`model`, `dataset`, `command`) or other conditions"
        return apart if groups > 1 else ""
    most, least = (repeats.max, f"{repeats.min} to ") if isinstance(repeats, Repeats) else (repeats, "")
    if most < LEAST_REPEATS:
        return f"{counted(most, 'repeat')} of {arms} arms will decide nothing: it takes {LEAST_REPEATS} (`repeats: 5`)"
    level = nominal_level(repeats.min, repeats.max) if isinstance(repeats, Repeats) else SIGNIFICANCE
    size = USUAL_SCATTER * detectable(most, arms, level, TRAIN_TIME.margin / USUAL_SCATTER)
    return (
        f"{least}{counted(most, 'repeat')} of {arms} arms will tell times that differ by {percent(size)} where repeats "
        f"scatter by {percent(USUAL_SCATTER)}"
    )
