"""The answers of studies on disk, and their verdicts on the claims of published studies.

Goals, conditions and prices come from the studies' own files, or as they are asked for.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from pydantic import ValidationError

from dlbench.analysis.answer.answer import Answers
from dlbench.analysis.answer.comparison_group import NUMBERS
from dlbench.analysis.answer.decide import Wanted
from dlbench.analysis.answer.doubts import of_nothing
from dlbench.analysis.answer.recommend import StudyPlace, doubted, recommend, retargeted
from dlbench.analysis.arms import Arm, columns_of, option_columns
from dlbench.analysis.arms import arms as arms_of
from dlbench.analysis.claims.claim_check import check_claims
from dlbench.analysis.claims.claim_tests import ClaimState
from dlbench.analysis.formatting import counted, listed, quantity
from dlbench.analysis.groups import SETTINGS, written_name
from dlbench.errors import UserError, nearest
from dlbench.grouping import by_key
from dlbench.records import files
from dlbench.records.machine import found_in
from dlbench.records.outcome import Status
from dlbench.regular_file import read_json
from dlbench.report.data import ReportData, StudyData, has_ended
from dlbench.report.page.machines import unsteady
from dlbench.scenario.cluster import Prices
from dlbench.scenario.expand.points import axis_keys
from dlbench.scenario.goal import Goal, read_goal
from dlbench.scenario.metrics import RATE, TIME_TO_TARGET, TRAIN_TIME
from dlbench.scenario.read.document import inline
from dlbench.scenario.run_spec import Phase, arm_name
from dlbench.study.folder import DEFAULT_PARENT


@dataclass(frozen=True)
class ClaimResult:
    """What is said of one claim of a published study.

    Attributes:
        reference: Whose claim it is.
        claim: The claim, whether it is inferred, and of which runs, as a sentence without a full stop.
        state: holds, does not hold, or cannot be told.
        why: The reason, as a sentence without a full stop; says so where the runs are emulated.
    """

    reference: str
    claim: str
    state: ClaimState
    why: str


NO_CANDIDATE = "not measured, since no candidate completed"
# Of what was seen of a machine before and after a study alone.
DISTURBED = 40


def answers_of(data: ReportData, goal: str = "", given: Sequence[str] = (), wanted: Wanted | None = None) -> Answers:
    """Return the answers of the studies of a report.

    Args:
        data: The studies.
        goal: One of the forms of `dlbench.scenario.goal`; empty: the scenarios'.
        given: Settings that are conditions, beside the scenarios'.
        wanted: Prices, where not those of the cluster file count, deadline and most cost.

    Raises:
        UserError: The goal or a condition is none, the studies have different goals, or nothing says what is asked for.
    """
    asked, metrics = wanted or Wanted(), data.metrics
    scenarios = [study.scenario for study in data.studies if study.scenario is not None]
    goals = dict.fromkeys([goal] if goal else [scenario.goal for scenario in scenarios if scenario.goal])
    if len(goals) > 1:
        raise UserError("the studies have different goals", hint=f"--goal {next(iter(goals))!r}")
    decisive = read_goal(next(iter(goals)), metrics) if goals else None
    target = decisive.target if decisive else None
    arms: Sequence[Arm] = data.judged_arms
    if goal and target:
        score, aim = metrics[target[0]], target[1]
        nothing = [level for arm in arms if (level := of_nothing(arm, score)) is not None]
        if reached := [value for value in nothing if score.is_reached(value, aim)]:
            at_chance = f"a model that knows nothing already has {quantity(score, reached[0])}"
            raise UserError(f"--goal {goal!r} compares nothing: {at_chance}", hint="ask for a better score")
    others = [row for study in data.studies for row in study.others if row["phase"] == Phase.CONFIRM]
    # Fresh seeds were run of the arms that the scenario's goal chose.
    own_goals = [read_goal(scenario.goal, metrics) if scenario.goal else Goal() for scenario in scenarios]
    is_own_goal = not goal or decisive in own_goals
    fresh = list(filter(has_ended, others)) if is_own_goal else []
    if target and {(arm.get("target_metric"), arm.get("target_value")) for arm in arms} != {target}:
        if data.epochs.empty:
            raise UserError("a target after the fact needs the scores of the epochs, which no study here has")
        arms, fresh = retargeted(arms, data.epochs, target, metrics), []
    records = {study.name: _record(study) for study in data.studies}
    prices = asked.prices or next(filter(None, map(_prices, records.values())), None)
    if asked.max_cost is not None and prices is None:
        raise UserError("--max-cost needs a price", hint="--price 2.5USD/worker-hour, or `prices` in the cluster file")
    needs_times = goal.startswith("cost") or asked.deadline_s is not None or asked.max_cost is not None
    times = (TRAIN_TIME, TIME_TO_TARGET) if decisive is None or target else (TRAIN_TIME,)
    is_timed = any(arm.values(time.column) for arm in arms for time in times)
    if needs_times and any(arm.n for arm in arms) and not is_timed:
        hint = "--goal throughput" if any(arm.values(RATE.column) for arm in arms) else ""
        raise UserError("costs and deadlines are of training times, which no run here has", hint=hint)
    keys = {*SETTINGS, *map(written_name, SETTINGS), *option_columns(columns_of(arms)), "device_name", *NUMBERS}
    if unknown := [key for key in given if key not in keys]:
        raise UserError(f"--given {unknown[0]}: no setting is called so", hint=nearest(unknown[0], keys))
    conditions = dict.fromkeys((*given, *(key for scenario in scenarios for key in scenario.given)))
    decides = is_own_goal and not given and wanted in (None, Wanted())
    places = {study.name: _place(study, records[study.name], decides=decides) for study in data.studies}
    asked = replace(asked, goal=decisive, metrics=metrics, prices=prices)
    disturbed = [(DISTURBED, text) for text in unsteady(data)]
    # Of a study that can go on its missing runs are counted.
    left_out = [row for study in data.studies if not records[study.name] for row in study.runs if not has_ended(row)]
    disturbed += [(65, f"left out: {counted(len(left_out), 'run')} interrupted")] * bool(left_out)
    answers = recommend(arms, asked, places, tuple(conditions), arms_of(fresh))
    return Answers(answers=tuple(doubted(answer, *disturbed) for answer in answers))


def verdicts(data: ReportData) -> tuple[ClaimResult, ...]:
    """Return what the report's runs say of each claim of each reference, in the references' order.

    Studies that name the same reference are judged together: a claim may be about two of them.

    Raises:
        UserError: A `reference.csv` is not of the form.
    """
    results = []
    for reference, studies in data.references.items():
        # Where groups of runs get the same words on a claim, that is said once.
        families: dict[ClaimResult, list[str]] = {}
        for check in check_claims([arm for arm in data.arms if arm.study in studies], reference):
            emulated = f"on emulated hardware ({check.emulated.replace(';', ', ')}): " if check.emulated else ""
            claim, why = check.claim.said(reference.x), f"{emulated}{check.verdict.why}"
            families.setdefault(ClaimResult(reference.source, claim, check.verdict.state, why), []).append(check.family)
        for words, names in families.items():
            of = listed(filter(None, names), separator="; ")
            results.append(replace(words, claim=f"{words.claim} ({of})") if of else words)
    return tuple(results)


def _place(study: StudyData, record: Any, *, decides: bool) -> StudyPlace:
    """Return where a study is; one without `study.json` was published, and cannot go on."""
    runs = planned if isinstance(planned := found_in(record, "runs"), list) else []
    run_ids = {row["run_id"] for row in filter(has_ended, study.runs)}
    repeats = Counter(run.get("label") for run in runs if run.get("phase", Phase.MEASURE) == Phase.MEASURE)
    missing = max(0, repeats.total() - len(run_ids))
    # How the candidates ended of each arm that is not measured yet; what has no row was not begun.
    ends = {(row["label"], row["repeat"]): row["status"] for row in study.others if row["phase"] == Phase.TUNE}
    searches = by_key(
        (str(arm), ends.get((run["label"], run["repeat"]), Status.INTERRUPTED))
        for run in runs
        if run.get("phase") == Phase.TUNE and (arm := found_in(run, "tuned", "arm")) not in repeats
    )
    unsearched = sorted(arm for arm, ended in searches.items() if {Status.INTERRUPTED, Status.COMPLETED} & {*ended})
    missing += sum(searches[arm].count(Status.INTERRUPTED) + min(repeats.values(), default=1) for arm in unsearched)
    unmeasured = missing > 0 and len({*repeats, *unsearched}) > len({*map(arm_name, run_ids)})
    without = {"not searched yet": unsearched, NO_CANDIDATE: sorted(searches.keys() - unsearched)}
    doubts = tuple(f"{why}: {listed(arms, 3, '; ')}" for why, arms in without.items() if arms)
    if any(host.get("is_shared") for host in found_in(record, "cluster", "hosts") or ()):
        doubts += ("other jobs shared the hosts, and may have computed on the workers' cores (`--exclusive`)",)
    asked = tuple(_asked(study, runs, max(repeats.values(), default=0)))
    match found_in(record, "where"):
        case ["--cluster", str(path)] if path.isprintable():  # also one that is gone: without it, it would run here
            asked = (("--cluster", path), *asked)
        case ["--hosts" | "--hostfile", _]:
            hosts = found_in(record, "cluster", "hosts") or ()
            asked = (("--hosts", ",".join(f"{host.get('address')}:{host.get('slots')}" for host in hosts)), *asked)
    metrics = tuple(study.scenario.metrics) if study.scenario else () if record else None
    return StudyPlace(study.path, bool(record), missing, unmeasured, doubts, asked, decides, metrics)


def _asked(study: StudyData, runs: Sequence[Any], repeats: int) -> Iterator[tuple[str, str]]:
    """Yield the options with which a study was begun, as its runs say them: its folder, its repeats and its arms."""
    if runs and study.path.parent.resolve() != DEFAULT_PARENT.resolve():
        yield "--output", str(study.path.parent)
    if not (runs and (scenario := study.scenario)):
        return
    # Under a rule, such as that of a budget, the number of runs is none that was asked for.
    is_number = isinstance(scenario.repeats, int) and not any(run.get("repeats_rule") for run in runs)
    if repeats and is_number and repeats != scenario.repeats:
        yield "--repeats", str(repeats)
    values_of: dict[str, set[str]] = {}
    for key, run in product(axis_keys(scenario), (run for run in runs if not run.get("baseline"))):
        values = (found_in(run, place, key) for place in ("axes", "settings", "options"))
        values_of.setdefault(key, set()).add(inline(next((value for value in values if value is not None), None)))
    plain = {key: {value.replace("-", "_") for value in values} for key, values in values_of.items()}
    written = [(key, value) for _, axes in scenario.axes() for key, values in axes.items() for value in values]
    written += [choice for point in scenario.include for choice in point.items()]
    if any(inline(value).replace("-", "_") not in plain.get(key, ()) for key, value in written):
        yield from (("--only", f"{key}={min(values)}") for key, values in values_of.items() if len(values) == 1)


def _prices(record: Any) -> Prices | None:
    with suppress(ValidationError):
        return Prices.model_validate(found_in(record, "cluster", "prices"))
    return None


def _record(study: StudyData) -> Any:
    with suppress(OSError, ValueError):
        return read_json(study.path / files.STUDY)
    return None
