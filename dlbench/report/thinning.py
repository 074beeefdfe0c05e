"""Which arms the charts of a large report show: hundreds of them cannot be told apart, and take long to draw."""

from collections.abc import Iterable, Sequence
from typing import Any

from dlbench.analysis.arms import METRICS, Arm
from dlbench.analysis.formatting import listed
from dlbench.analysis.groups import is_shared, place_of, varying, ways
from dlbench.report.data import ReportData
from dlbench.scenario.metrics import BUILT_IN

# Charts of more arms than this are thinned.
MOST_ARMS = 48
# This many values of a setting still make a curve: of more, as many stay.
FEW = 3


def thinned(data: ReportData) -> tuple[ReportData, str]:
    """Return the arms that charts show, and the sentence that says what they leave out; empty where they show all.

    Of large grids they show whole ones with fewer values of the settings that have the most: evenly chosen, those of
    the best arms among them. Base lines stay with the arms they belong to.
    """
    kept: Sequence[Arm] = data.arms
    if len(kept) <= MOST_ARMS:
        return data, ""
    best, cut = _best(data.arms), dict[str, int]()
    while len(kept) > MOST_ARMS and (key := _longest(kept)):
        values = _in_order(kept, key)
        cut.setdefault(key, len(values))
        number = max(FEW if len(values) > FEW else 1, len(values) * MOST_ARMS // len(kept))
        chosen = _chosen(values, number, [arm.get(key) for arm in best])
        spared = set(kept) - set(ways(kept) or kept) if not is_shared(key) else set()
        kept = [arm for arm in kept if arm.get(key) in chosen or arm in spared]
    if len(kept) > MOST_ARMS:  # they differ in nothing that is known
        kept = [kept[place] for place in _evenly(len(kept), MOST_ARMS)]
    settings = (f"{key} at {len(_in_order(kept, key))} of {count} values" for key, count in cut.items())
    what = listed(settings) or "evenly chosen"
    note = f"Charts show {len(kept)} of {len(data.arms):,} arms ({what}), the best among them; `arms.csv` has all."
    return data.of(kept), note


def _best(arms: Iterable[Arm]) -> list[Arm]:
    """Return the best arm by each metric that any has."""
    kept = []
    for metric in METRICS:
        sign = -1 if BUILT_IN[metric].is_higher_better else 1
        if values := {arm: sign * spread.value for arm in arms if (spread := arm.metrics[metric])}:
            kept.append(min(values, key=values.__getitem__))
    return kept


def _longest(arms: Sequence[Arm]) -> str:
    """Return the setting with the most values, of equals that which readers ask for last; empty where none has two."""
    numbers = {key: number for key in reversed(varying(arms)) if (number := len(_in_order(arms, key))) > 1}
    return max(numbers, key=numbers.__getitem__, default="")


def _in_order(arms: Sequence[Arm], key: str) -> list[Any]:
    return sorted({arm.get(key) for arm in ways(arms) or arms}, key=place_of)


def _chosen(values: Sequence[Any], number: int, best: Sequence[Any]) -> list[Any]:
    """Return this many values, fewer than there are: the best ones, first and last, and others evenly chosen."""
    even = [values[place] for place in _evenly(len(values), number)]
    order = dict.fromkeys([*(value for value in best if value in values), even[0], even[-1], *even])
    return list(order)[: min(number, len(values) - 1)]


def _evenly(count: int, number: int) -> list[int]:
    """Return this many places of a list, the first and the last among them."""
    return [0] if number == 1 else sorted({round(place * (count - 1) / (number - 1)) for place in range(number)})
