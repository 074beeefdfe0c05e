"""Which arms the charts of a large report show: no eye can tell hundreds of them apart, and nobody waits for them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dlbench.analysis.formatting import listed
from dlbench.analysis.groups import is_alone, is_base_line, is_shared, varying
from dlbench.report.data import ReportData
from dlbench.scenario.metrics import BUILT_IN, QUALITY, TRAIN_TIME

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.plugins import Plugin

# Charts of more arms than this are thinned.
MOST_ARMS = 48
# Of more arms than this nothing is summed up, which takes a moment for each.
MOST_SUMMED = 2000
ARM = ["study", "arm"]
# So many values of a setting of numbers still make a curve: of more, as many stay.
FEW = 3


@dataclass(frozen=True)
class Thinned:
    """What charts are made of, and the sentence that says what they leave out; empty where they show all."""

    data: ReportData
    note: str = ""


def thinned(data: ReportData) -> Thinned:
    """Return the arms that charts show: whole grids of them, with fewer values of the settings that have the most.

    Values are chosen evenly, and those of the arms with the least training time and the best scores stay. Base lines
    stay with the arms they belong to.
    """
    every = data.runs
    if (before := _num_arms(every)) <= MOST_ARMS:
        return Thinned(data)
    best, kept, cut = _best(data.completed), every, dict[str, int]()
    while (number := _num_arms(kept)) > MOST_ARMS and (key := _longest(kept)):
        values = _in_order(kept, key)
        cut.setdefault(key, len(values))
        least = FEW if len(values) > FEW else 1
        kept = _having(kept, key, _chosen(values, max(least, len(values) * MOST_ARMS // number), best.get(key, [])))
    if _num_arms(kept) > MOST_ARMS:  # they differ in nothing that is known
        names = kept[ARM].drop_duplicates()
        kept = kept.merge(names.iloc[_evenly(len(names), MOST_ARMS)], on=ARM)
    settings = (f"{key} at {len(_in_order(kept, key))} of {count} values" for key, count in cut.items())
    what = listed(settings) or "evenly chosen"
    note = f"Charts show {_num_arms(kept)} of {before:,} arms ({what}), the best among them; `arms.csv` has all."
    return Thinned(_only(data, kept), note)


def takes_all(plugin: "Plugin", data: ReportData) -> bool:
    """Whether a figure gets all arms: one that says `ALL_ARMS` sums them up, where they are not too many."""
    return bool(plugin.get("ALL_ARMS", False)) and _num_arms(data.runs) <= MOST_SUMMED


def _num_arms(runs: "pd.DataFrame") -> int:
    return int(runs.groupby(ARM, sort=False).ngroups)


def _best(completed: "pd.DataFrame") -> dict[str, list[Any]]:
    """Return the settings of the arms with the best medians."""
    found = []
    quality = [column for column in QUALITY if completed[column].notna().any()][:1]
    for metric in (TRAIN_TIME.column, *quality):
        medians = completed.groupby(ARM, sort=False)[metric].median().dropna()
        if len(medians):
            name = medians.index[int(medians.argmax() if BUILT_IN[metric].is_higher_better else medians.argmin())]
            found.append(completed[(completed[ARM] == list(name)).all(axis=1)].iloc[0])
    return {key: [row[key] for row in found] for key in completed.columns}


def _longest(runs: "pd.DataFrame") -> str:
    """Return the setting with the most values, numbers before words; empty where none has two."""
    import pandas as pd

    counts = {key: len(_in_order(runs, key)) for key in varying(runs)}
    is_long = {key: count > FEW and pd.api.types.is_numeric_dtype(runs[key]) for key, count in counts.items()}
    longest = max(counts, key=lambda key: (is_long[key], counts[key]), default="")
    return longest if counts.get(longest, 0) > 1 else ""


def _is_base(runs: "pd.DataFrame") -> "pd.Series[bool]":
    return is_base_line(runs) | is_alone(runs)


def _in_order(runs: "pd.DataFrame", key: str) -> list[Any]:
    own = ~_is_base(runs)
    values = runs.loc[own if own.any() else ~own, key].drop_duplicates()
    return list(values.sort_values(na_position="first"))


def _chosen(values: Sequence[Any], number: int, best: Sequence[Any]) -> list[Any]:
    """Return so many values, fewer than there are: the best ones, the first and the last, and others evenly chosen."""
    even = [values[place] for place in _evenly(len(values), number)]
    order = dict.fromkeys([*(value for value in best if value in values), even[0], even[-1], *even])
    return list(order)[: min(number, len(values) - 1)]


def _evenly(count: int, number: int) -> list[int]:
    """Return so many places of a list, the first and the last among them."""
    return [0] if number == 1 else sorted({round(place * (count - 1) / (number - 1)) for place in range(number)})


def _having(runs: "pd.DataFrame", key: str, values: Sequence[Any]) -> "pd.DataFrame":
    """Return the runs with one of these values, and base lines that do not share the setting."""
    found = runs[key].isin(values)
    return runs[found if is_shared(key) else found | _is_base(runs)]


def _only(data: ReportData, runs: "pd.DataFrame") -> ReportData:
    """Return the data of these runs alone, with all their attempts."""
    studies = []
    for study in data.studies:
        names = set(runs.loc[runs["study"] == study.name, "run_id"])
        attempts = study.attempts[study.attempts["run_id"].isin(names)].reset_index(drop=True)
        studies.append(replace(study, attempts=attempts))
    return ReportData(tuple(study for study in studies if len(study.attempts)))
