"""The claims of a published study checked on runs: which runs belong together, what they lack, and the verdicts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dlbench.analysis.claims.claim_tests import ClaimState, ClaimTest, ClaimVerdict, Curve, decide, examine
from dlbench.analysis.groups import SETTINGS, by_emulation, described, follows, groups, is_base_line, varying
from dlbench.records.outcome import Status
from dlbench.scenario.claims import COMPARING, Claim, Shape
from dlbench.scenario.reference import Reference, mirrored
from dlbench.scenario.settings import Input

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["EQUAL_WORK", "ClaimCheck", "ClaimState", "check_claims", "families"]

# Settings that say the same as the column `mode`.
_SAME_AS_MODE = ("placement",)
# Settings that follow from the strategy: naming it is enough.
_OF_STRATEGY = ("algorithm", "communicator", "collectives")
# Columns that mean nothing where a run trained on random numbers.
_SCORES = ("loss", "accuracy")
# Columns that grow with the samples that a run trains on.
_OF_WORK = ("train_time_s", "wall_time_s", "energy_j", "messages", "bytes_sent")
# Arms whose samples differ by less than this share did equal work.
EQUAL_WORK = 0.001


@dataclass(frozen=True)
class ClaimCheck:
    """One claim on one family of runs.

    Attributes:
        claim: The claim.
        family: What these runs have in common and others of the report have not; empty where there are no others.
        emulated: Reasons why they were not on representative hardware, joined by `;`.
        verdict: What is said of it.
    """

    claim: Claim
    family: str
    emulated: str
    verdict: ClaimVerdict


def check_claims(runs: "pd.DataFrame", reference: Reference) -> tuple[ClaimCheck, ...]:
    """Return what the runs say of each claim, for each family of runs that differ in nothing but the curves' settings.

    Emulated and real runs are families of their own; base lines that dlbench added belong to none.

    Args:
        runs: The last attempts of runs, failed ones too, with the columns of `runs.csv` and `placement`.
        reference: The claims.
    """
    claims, found = reference.claims, list(families(runs, reference))
    tests = [_test(rows, claim, reference) for _, _, rows in found for claim in claims]
    asked = [(claim, family, emulated) for family, emulated, _ in found for claim in claims]
    return tuple(ClaimCheck(*one, verdict) for one, verdict in zip(asked, decide(tests), strict=True))


def families(runs: "pd.DataFrame", reference: Reference) -> "Iterator[tuple[str, str, pd.DataFrame]]":
    """Yield what each family has in common, why it is emulated, and its runs."""
    own = runs[~is_base_line(runs)]
    if own.empty:
        return
    for values, rows in groups(own, _apart(own, reference)):
        for emulated, alike in by_emulation(rows):
            yield described(values), emulated, alike


def _apart(runs: "pd.DataFrame", reference: Reference) -> list[str]:
    """Return the settings that make families: those that vary and follow from no place and series."""
    curve = [reference.x, *([reference.series] if reference.series else [])]
    own = _own(reference)
    return [
        key for key in varying(runs, x=reference.x) if key not in own and not follows(runs, key, curve, dropna=False)
    ]


def _test(rows: "pd.DataFrame", claim: Claim, reference: Reference) -> ClaimTest:
    """Return the test of a claim on one family of runs."""
    curves: dict[str, Curve] = {}
    for name, column, series in _wanted(claim, reference):
        own = _of_series(rows, series, reference)
        if own.empty:
            return ClaimTest(claim, problem=f"there are no runs with {reference.series} {series}")
        # Of a mirror image both columns, so that it is the same runs' values.
        needed = [column] if claim.of is None else [claim.column, claim.of]
        known = _known(own, reference.x, needed)
        if problem := _gap(own, known, reference.x, needed):
            is_series = reference.series is not None and claim.claim is not Shape.MIRRORS
            return ClaimTest(claim, problem=f"{name}: {problem}" if is_series else problem)
        curves[name] = _curve(known, reference.x, column)
    if claim.claim in COMPARING:
        shared = set.intersection(*map(set, curves.values()))
        if not shared:
            return ClaimTest(claim, problem=f"both have no completed runs at the same {reference.x}")
        curves = {name: {x: values for x, values in own.items() if x in shared} for name, own in curves.items()}
    return replace(examine(claim, curves, mirrored(claim, reference.claims)), note=_note(rows, claim, reference))


def _wanted(claim: Claim, reference: Reference) -> list[tuple[str, str, str]]:
    """Return name, column and series of each curve of a claim."""
    if claim.claim is Shape.MIRRORS:
        return [(column, column, claim.series or "") for column in (claim.column, claim.of or "")]
    if claim.claim in COMPARING:
        return [(series or "", claim.column, series or "") for series in (claim.series, claim.than)]
    series_of = reference.names if claim.series is None else (claim.series,)
    return [(series, claim.column, series) for series in series_of]


def _of_series(rows: "pd.DataFrame", series: str, reference: Reference) -> "pd.DataFrame":
    if reference.series is None or not series:
        return rows
    return rows[rows[reference.series].astype("string") == series]


def _known(rows: "pd.DataFrame", x: str, columns: Sequence[str]) -> "pd.DataFrame":
    """Return the completed runs that have a place and the columns; scores of random numbers mean nothing."""
    completed = rows[rows["status"] == Status.COMPLETED]
    if any(column.endswith(_SCORES) for column in columns):
        completed = completed[(completed["input"] != Input.SYNTHETIC).fillna(True).astype(bool)]
    return completed.dropna(subset=[x, *columns])


def _gap(rows: "pd.DataFrame", known: "pd.DataFrame", x: str, columns: Sequence[str]) -> str:
    """Return which place has runs and no value, or an empty string."""
    if known.empty:
        return f"no completed run has {' and '.join(columns)}"
    tried = rows[x].dropna().astype("float64")
    missing = sorted(set(tried) - set(known[x].astype("float64")))
    if not missing:
        return ""
    number = int((tried == missing[0]).sum())
    return f"no completed run at {x} {missing[0]:g} has {' and '.join(columns)} ({number} tried)"


def _curve(known: "pd.DataFrame", x: str, column: str) -> Curve:
    """Return the values of a column by rising place."""
    places, values = known[x].astype("float64"), known[column].astype("float64")
    return {place: own.tolist() for place, own in values.groupby(places)}


def _note(rows: "pd.DataFrame", claim: Claim, reference: Reference) -> str:
    """Return what weakens a verdict: runs that did not complete, other differences than the series, unequal work."""
    failed = int((rows["status"] != Status.COMPLETED).sum())
    notes = [f"{failed} of {len(rows)} runs did not complete"] if failed else []
    if claim.claim in COMPARING and reference.series is not None:
        others = _confounded(rows, reference)
        notes += [f"confounded: {reference.series} is not all that differs ({', '.join(others)})"] if others else []
    if claim.column in _OF_WORK and claim.claim is not Shape.MIRRORS:
        own = rows if claim.claim in COMPARING else _of_series(rows, claim.series or "", reference)
        seen = own.loc[own["status"] == Status.COMPLETED, "samples_seen"].dropna()
        if len(seen) and seen.max() > (1 + EQUAL_WORK) * seen.min():
            notes.append(f"of unequal work: {seen.min():,.0f} to {seen.max():,.0f} samples")
    return "; ".join(notes)


def _confounded(rows: "pd.DataFrame", reference: Reference) -> list[str]:
    """Return the settings besides the series in which runs at the same place differ."""
    known = [key for key in SETTINGS if key in rows.columns and key not in (*_own(reference), *_OF_STRATEGY)]
    return [
        key
        for key in known
        if rows[key].nunique(dropna=False) > 1 and not follows(rows, key, [reference.x], dropna=False)
    ]


def _own(reference: Reference) -> tuple[str, ...]:
    """Return the settings that make a curve, and what says the same."""
    series = () if reference.series is None else (reference.series,)
    return (reference.x, *series, *(_SAME_AS_MODE if reference.series == "mode" else ()))
