"""The claims of a published study checked on runs: which runs belong together, what they lack, and the verdicts."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dlbench.analysis.arms import Arm
from dlbench.analysis.claims.claim_tests import ClaimVerdict, Curve, decide, examine
from dlbench.analysis.claims.contrast import Evidence
from dlbench.analysis.formatting import joined
from dlbench.analysis.groups import SETTINGS, by_emulation, described, follows, groups, varying, without_base_lines
from dlbench.records.outcome import Status
from dlbench.scenario.claims import Claim
from dlbench.scenario.metrics import SCORE_COLUMNS
from dlbench.scenario.reference import Reference
from dlbench.scenario.settings import Input

# Settings that follow from the strategy: naming it is enough.
_OF_STRATEGY = ("algorithm", "communicator", "collectives")
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


def check_claims(arms: Sequence[Arm], reference: Reference) -> tuple[ClaimCheck, ...]:
    """Return what the runs say of each claim, for each family of arms that differ in nothing but the curves' settings.

    Emulated and real arms are families of their own; base lines that dlbench added belong to none. A family without all
    curves of a claim says nothing of it where another family has them.

    Args:
        arms: All arms, those without a completed run too.
        reference: The claims.
    """
    every = list(families(arms, reference))
    able = [[each for each in every if _has_curves(each[2], claim, reference)] or every for claim in reference.claims]
    asked = [
        (claim, *family)
        for family in every
        for claim, families_asked in zip(reference.claims, able, strict=True)
        if family in families_asked
    ]
    tests = [_test(members, claim, reference) for claim, _, _, members in asked]
    verdicts = decide([test for test, _ in tests])
    return tuple(
        ClaimCheck(claim, family, emulated, replace(verdict, why=joined(verdict.why, note, sep="; ")))
        for (claim, family, emulated, _), (_, note), verdict in zip(asked, tests, verdicts, strict=True)
    )


def families(arms: Sequence[Arm], reference: Reference) -> Iterator[tuple[str, str, list[Arm]]]:
    """Yield what each family has in common, why it is emulated, and its arms."""
    others, curve = without_base_lines(arms), _of_curve(reference)
    varied = [key for key in varying(others, x=reference.x) if key not in curve]
    apart = [key for key in varied if not follows(others, key, curve, dropna=False)]
    for values, alike in groups(others, apart):
        for emulated, members in by_emulation(alike):
            yield described(values), emulated, members


def _test(arms: Sequence[Arm], claim: Claim, reference: Reference) -> tuple[Evidence | str, str]:
    """Return what one family of arms says of a claim, or why it cannot be tested, and a note on these runs."""
    curves: dict[str, Curve] = {}
    for series in _wanted(claim, reference):
        members = _of_series(arms, series, reference)
        if not members:
            return f"there are no runs with {reference.series} {series}", ""
        curve, problem = _curve(members, reference.x, claim.column)
        if problem:
            return f"{series}: {problem}" if reference.series is not None else problem, ""
        curves[series] = {place: values for place, values in curve.items() if claim.covers(place)}
        if not curves[series]:
            return f"there is no completed run{claim.where}", ""
    if claim.than is not None:
        shared = set.intersection(*map(set, curves.values()))
        if not shared:
            return f"both have no completed runs at the same {reference.x}", ""
        curves = {name: {x: values for x, values in curve.items() if x in shared} for name, curve in curves.items()}
    members = [arm for series in _wanted(claim, reference) for arm in _of_series(arms, series, reference)]
    about = [arm for arm in dict.fromkeys(members) if (x := arm.get(reference.x)) is not None and claim.covers(x)]
    return examine(claim, curves), _note(about, claim, reference)


def _wanted(claim: Claim, reference: Reference) -> tuple[str, ...]:
    """Return the series of a claim."""
    if claim.than is not None:
        return claim.series or "", claim.than
    return reference.names if claim.series is None else (claim.series,)


def _of_series(arms: Sequence[Arm], series: str, reference: Reference) -> list[Arm]:
    key = reference.series
    return [arm for arm in arms if key is None or not series or str(arm.get(key)) == series]


def _has_curves(arms: Sequence[Arm], claim: Claim, reference: Reference) -> bool:
    return all(_of_series(arms, series, reference) for series in _wanted(claim, reference))


def _curve(arms: Sequence[Arm], x: str, column: str) -> tuple[Curve, str]:
    """Return the values of a column by rising place, and which place has runs without them, or an empty string.

    Args:
        arms: The arms of the curve.
        x: The column of their places.
        column: The column of their values; scores of random numbers mean nothing.
    """
    is_score = column in SCORE_COLUMNS
    tried: Counter[float] = Counter()
    curve: dict[float, list[float]] = {}
    for row in (row for arm in arms for row in arm.rows if row.get(x) is not None):
        tried[row[x]] += 1
        is_complete = row["status"] == Status.COMPLETED and row.get(column) is not None
        if is_complete and not (is_score and row.get("input") == Input.SYNTHETIC):
            curve.setdefault(float(row[x]), []).append(float(row[column]))
    missing = min(set(tried) - set(curve), default=None)
    if not curve:
        return curve, f"no completed run has {column}"
    problem = "" if missing is None else f"no completed run at {x} {missing:g} has {column} ({tried[missing]} tried)"
    return dict(sorted(curve.items())), problem


def _note(arms: Sequence[Arm], claim: Claim, reference: Reference) -> str:
    """Return what weakens a verdict on some arms: runs that did not complete, other differences, unequal work."""
    total, notes = sum(len(arm.rows) for arm in arms), []
    if failed := total - sum(arm.n for arm in arms):
        notes.append(f"{failed} of {total} runs did not complete")
    if claim.than is not None and reference.series is not None:
        same = (*_of_curve(reference), *_OF_STRATEGY)
        others = [key for key in SETTINGS if key not in same and not follows(arms, key, [reference.x], dropna=False)]
        if others:
            notes.append(f"confounded: {reference.series} is not all that differs ({', '.join(others)})")
    if claim.column in _OF_WORK:
        seen = [number for arm in arms for number in arm.values("samples_seen")]
        if seen and max(seen) > (1 + EQUAL_WORK) * min(seen):
            notes.append(f"of unequal work: {min(seen):,.0f} to {max(seen):,.0f} samples")
    return "; ".join(notes)


def _of_curve(reference: Reference) -> list[str]:
    """Return the settings that make a curve; of a mode its column, too."""
    same = "placement" if reference.series == "mode" else None
    return [key for key in (reference.x, reference.series, same) if key is not None]
