"""A committed study as the template of its README sees it: every number in the text is the value of a function here."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from statistics import median
from typing import Any

import dlbench
from dlbench import plugins
from dlbench.analysis.answer.answer import Answers
from dlbench.analysis.answer.comparison_group import comparison_groups
from dlbench.analysis.answer.decide import Wanted, families
from dlbench.analysis.answer.doubts import MUCH_STEAL
from dlbench.analysis.answer.lines import heading, lines
from dlbench.analysis.answer.recommend import retargeted
from dlbench.analysis.arm_table import NOTES, marks
from dlbench.analysis.arms import Arm, is_unsteady
from dlbench.analysis.claims.claim_check import EQUAL_WORK
from dlbench.analysis.claims.claim_tests import ClaimState
from dlbench.analysis.formatting import counted, listed, number
from dlbench.analysis.groups import described
from dlbench.analysis.judge import Family
from dlbench.records import files
from dlbench.report.answers import answers_of, verdicts
from dlbench.report.chart import Chart, chart_rows
from dlbench.report.data import ReportData
from dlbench.report.markdown import escaped
from dlbench.report.markdown import table as markdown_table
from dlbench.report.page.machines import machines
from dlbench.scenario.goal import read_goal
from dlbench.scenario.read.scenario_file import read
from tests.results import comparisons
from tests.results.cells import MEASURED, counts, items, order, plain
from tests.results.comparisons import Comparison, samples

# Settings that may be alike in all arms, in the order of reading.
SETTINGS = (
    "model", "dataset", "train_samples", "validation_samples", "strategy", "workers", "mode", "cores_per_worker",
    "cores_enforced", "batch_size", "batch_scope", "divide", "epochs", "remainder", "optimizer", "momentum",
    "learning_rate_base", "learning_rate_base_batch", "learning_rate_scale", "warmup_epochs",
)  # fmt: skip
FACTS = (
    "GPUs", "Processor", "Cores", "Memory", "Virtual", "Operating system", "Versions in the runs",
    "Slowest link of a run",
)  # fmt: skip
WHOLE = 100_000


@lru_cache(maxsize=100)
def loaded(path: Path, written_at_ns: int) -> ReportData:
    """Return a study, read once for all pages that show it."""
    return dlbench.load_study(path).report_data


class StudyText:
    """One study of results/; the public functions are the names that its template knows.

    Args:
        path: Its folder.
        goal: What decides in place of the scenario's goal, such as a target after the fact; empty: that.
    """

    def __init__(self, path: Path, goal: str = "") -> None:
        self.path = path
        self.data = loaded(path, (path / files.table("runs")).stat().st_mtime_ns)
        metrics = self.data.metrics
        self._goal, self._wanted = goal, Wanted(goal=read_goal(goal, metrics) if goal else None, metrics=metrics)
        self._all_arms: Sequence[Arm] = self.data.arms
        if self._wanted.goal and self._wanted.goal.target:
            self._all_arms = retargeted(self.data.arms, self.data.epochs, self._wanted.goal.target, metrics)
        self._arms = [arm for arm in self._all_arms if arm.completed]
        self._charts: dict[str, Chart] = {}

    @property
    def figures(self) -> list[str]:
        """The figures that its page shows, once it was made."""
        return list(self._charts)

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.path.name

    @property
    def description(self) -> str:
        """What the scenario says that it is for."""
        scenario = self.data.studies[0].scenario
        return scenario.description if scenario else ""

    @property
    def day(self) -> str:
        """When it began (UTC)."""
        return f"{min(row['started_at'] for row in self.data.attempts):%Y-%m-%d}"

    @property
    def schema(self) -> str:
        """Version of its columns."""
        return self.known("schema_version")

    def beside(self, name: str) -> "StudyText":
        """Return another committed study, for a page that shows both."""
        return StudyText(self.path.parent / name)

    def aimed(self, goal: str) -> "StudyText":
        """Return the same study, judged by another goal than its scenario's."""
        return StudyText(self.path, goal)

    def best(self, column: str, **settings: Any) -> float:
        """Return the best of the medians that the arms with these settings have in a column."""
        medians = [median(arm.values(column)) for arm in self.arms(**settings) if arm.values(column)]
        return max(medians) if comparisons.metric_of(column).is_higher_better else min(medians)

    def links(self) -> str:
        """Say how hosts were linked, where there are several."""
        link = next((text for name, text in next(iter(machines(self.data))) if name == "Slowest link of a run"), "")
        return f" (links: {link})" if link else ""

    def known(self, column: str) -> str:
        """Return the values that occur in a column, in words."""
        return listed([plain(value) for value in self.values(column)], comparisons.ALL)

    def values(self, column: str, **settings: Any) -> list[Any]:
        """Return the values that occur in a column of the arms with these settings, in their order."""
        found = {arm.first.get(column) for arm in self.arms(**settings)} - {None}
        return sorted(found, key=lambda value: (isinstance(value, str), value))

    def arms(self, **settings: Any) -> list[Arm]:
        """Return the arms with these settings; a list of values matches each of them."""
        wanted = {key: value if isinstance(value, list) else [value] for key, value in settings.items()}
        return [arm for arm in self._arms if all(arm.first.get(key) in value for key, value in wanted.items())]

    def arm(self, **settings: Any) -> Arm:
        """Return the one arm with these settings."""
        found = self.arms(**settings)
        if len(found) != 1:
            raise LookupError(f"{self.name}: {len(found)} arms have {settings}: {[arm.label for arm in found]}")
        return found[0]

    def command(self, cluster: str = "") -> str:
        """Return the commands that measure it again and draw its report; say so where the scenario has changed."""
        where = f" --cluster scenarios/clusters/{cluster}.yaml" if cluster else ""
        path = self.path.parents[1] / f"scenarios/{self.data.runs[0]['scenario']}.yaml"
        lines = f"    dlbench run scenarios/{path.name}{where}\n    dlbench report results/{self.name} --output report"
        then = self.data.studies[0].scenario
        if then is not None and then.model_dump() == read(path).model_dump():
            return lines
        return f"{lines}\n\nThe scenario has changed since; [scenario.yaml](scenario.yaml) is what was run here."

    def ran(self) -> str:
        """Say when and on what it was measured, from `machine.json` and the rows."""
        (every,) = machines(self.data)
        facts = [
            f"{name.lower().replace('gpu', 'GPU')}: {text}"
            for name, text in every
            if name in FACTS and text != "none found"
        ]
        return f"Measured on {self.day} (UTC). {'; '.join(facts)}."

    @property
    def num_runs(self) -> int:
        """Number of runs."""
        return len(self.data.runs)

    def runs(self) -> str:
        """Say how many runs there are, how they ended, how long they took together, whether workers agreed."""
        runs, attempts = self.data.runs, self.data.attempts
        minutes = sum(row.get("wall_time_s") or 0 for row in attempts) / 60
        arms = [arm.n for arm in self.data.arms]
        each = " to ".join(dict.fromkeys(f"{count}" for count in (min(arms), max(arms))))
        again = len(attempts) - len(runs)
        tries = f"with {counted(again, 'further attempt')}" if again else "at the first attempt"
        states = Counter(row["status"] for row in runs)
        ended = "all completed" if set(states) == {"completed"} else counts(states)
        agree = Counter(row.get("workers_agree") or "not compared" for row in runs if (row.get("workers") or 0) > 1)
        alike = f" Weights of all workers after training (`workers_agree`): {counts(agree)} runs." if agree else ""
        return (
            f"{counted(len(runs), 'run')} of {counted(round(minutes), 'minute')} together: {ended}, {tries}; "
            f"{counted(len(arms), 'arm')} of {each} completed repeats each.{alike}"
        )

    @property
    def num_unsteady(self) -> int:
        """Number of completed runs whose rate was not steady."""
        return sum(map(is_unsteady, self.data.completed))

    def settings(self, *but: str) -> str:
        """Return the settings that all arms share, base lines aside."""
        others = [arm for arm in self._arms if not arm.baseline]
        alike = [key for key in SETTINGS if key not in but and len({arm.first.get(key) for arm in others}) == 1]
        known = {key: value for key in alike if (value := others[0].first.get(key)) is not None}
        return ", ".join(f"`{key}` {plain(value)}" for key, value in known.items())

    def samples(self) -> str:
        """Say whether all arms trained on equally many samples."""
        seen = [samples(arm) for arm in self._arms]
        least, most = min(seen), max(seen)
        if least == most:
            return f"Every arm trained on {least:,} samples."
        if most <= (1 + EQUAL_WORK) * least:
            return f"Arms trained on {least:,} to {most:,} samples, {most / least - 1:.2%} apart: that is equal work."
        return (
            f"**Arms trained on unequal numbers of samples**: {least:,} to {most:,}. A ratio or verdict on training "
            "times of such arms is one of unequal work."
        )

    def brackets(self) -> str:
        """Say what the numbers in tables are."""
        found = [interval.coverage for arm in self._arms if (interval := arm.metrics["train_time_s"])]
        covered = [share for share in found if share is not None]
        least = f"{math.floor(100 * min(covered))}%" if covered else ""
        what = (
            f"Medians [interval that covers the true median with a probability of at least {least}]." if covered else ""
        )
        marked = "".join(marks(arm.completed) for arm in self._arms)
        return " ".join(
            (
                what or "One repeat: nothing is known of chance.",
                *(f"\\{mark.strip()}: {text}." for mark, text in NOTES.items() if mark in marked),
            )
        )

    def span(self, column: str) -> str:
        """Return the largest median of an arm over the smallest."""
        found = [median(arm.values(column)) for arm in self._arms if arm.values(column)]
        return f"{max(found) / min(found):.3f}" if found else "not known"

    def table(self, by: Sequence[str], show: Sequence[str], **settings: Any) -> str:
        """Return a row for each arm with these settings, ordered by and named by some of them."""
        rows = [
            [*(plain(arm.first.get(key)) for key in by), *(MEASURED[name][1](arm) for name in show)]
            for arm in sorted(self.arms(**settings), key=lambda arm: [order(arm.first.get(key)) for key in by])
        ]
        headings = [*(key.replace("_", " ") for key in by), *(MEASURED[name][0] for name in show)]
        return "\n".join(markdown_table(headings, rows))

    def pivot(self, rows: str, columns: Sequence[str], show: str, **settings: Any) -> str:
        """Return a row for each value of one setting and a column for each combination of others."""
        arms = self.arms(**settings)
        keys = sorted({tuple(arm.first.get(key) for key in columns) for arm in arms}, key=lambda k: [*map(order, k)])
        found = {(arm.first.get(rows), tuple(arm.first.get(key) for key in columns)): arm for arm in arms}
        headings = [rows.replace("_", " "), *(described(dict(zip(columns, key, strict=True))) for key in keys)]
        cell = MEASURED[show][1]
        lines = [
            [plain(place), *(cell(found[place, key]) if (place, key) in found else "" for key in keys)]
            for place in self.values(rows, **settings)
        ]
        return "\n".join(markdown_table(headings, lines))

    def versus(
        self,
        of: Mapping[str, Any],
        against: Mapping[str, Any],
        over: str = "batch_size",
        column: str = "train_time_s",
    ) -> tuple[Comparison, ...]:
        """Compare arms `of` with those `against` at each value of an axis where both have the column."""
        places = [value for value in self.values(over, **of) if self.arms(**{**against, over: value})]
        pairs = [(value, self.arm(**{**of, over: value}), self.arm(**{**against, over: value})) for value in places]
        known = [pair for pair in pairs if all(arm.values(column) for arm in pair[1:])]
        answered = [([arm.name for arm in one[0]], one[1]) for one in self._families.get(column, ())]
        return comparisons.compared(known, column, self._arms, answered)

    def differ(self, column: str, within: str, **settings: Any) -> str:
        """Return by how much runs of one repeat differ at most in a column, at each value of a setting they share."""
        found: dict[str, list[str]] = {}
        for place in self.values(within, **settings):
            repeats: dict[Any, list[float]] = {}
            for row in (row for arm in self.arms(**{**settings, within: place}) for row in arm.completed):
                repeats.setdefault(row["repeat"], []).append(row[column])
            most = max(max(values) - min(values) for values in repeats.values())
            found.setdefault("equal" if most == 0 else f"{most:.2g}", []).append(plain(place))
        return "; ".join(f"{most} at {listed(places, comparisons.ALL)}" for most, places in found.items())

    def cell(self, name: str, arm: Arm) -> str:
        """Return what a table shows of an arm."""
        return MEASURED[name][1](arm)

    def published(self, column: str, place: float, series: str = "") -> str:
        """Return what the published study has at a place; empty where it has nothing."""
        value = self._published(column, place, series)
        return "" if value is None else number(value)

    def published_ratio(self, column: str, place: float, over: str, under: str) -> str:
        """Return the ratio of two published series at a place; empty where one has nothing."""
        a, b = (self._published(column, place, series) for series in (over, under))
        return "" if a is None or b is None else f"{a / b:.2f}"

    def _published(self, column: str, place: float, series: str) -> float | None:
        known = self.data.studies[0].reference
        curve = dict(known.curve(column, series)) if known else {}
        return median(curve[place]) if place in curve else None

    def claims(self) -> str:
        """Return the verdicts on the published claims: those that hold or do not, and why others cannot be told."""
        found = verdicts(self.data)
        told = [one for one in found if one.state != ClaimState.CANNOT_BE_TOLD]
        rows = [[escaped(one.claim, WHOLE), f"**{one.state}**", escaped(one.why, WHOLE)] for one in told]
        reasons: dict[str, list[str]] = {}
        for one in found:
            if one not in told:
                reasons.setdefault(one.why, []).append(one.claim)
        texts = [f"**Cannot be told**, {why}: {'; '.join(claims)}." for why, claims in reasons.items()]
        lines = markdown_table(["claim", "verdict", "why"], rows) if rows else []
        return "\n".join([*lines, "", items(escaped(text, WHOLE).replace("\\*\\*", "**") for text in texts)]).strip()

    @cached_property
    def _families(self) -> dict[str, list[tuple[list[Arm], Family]]]:
        """The families that the answer judges, by column."""
        found: dict[str, list[tuple[list[Arm], Family]]] = {}
        scenario = self.data.studies[0].scenario
        for group in comparison_groups(self._all_arms, scenario.given if scenario else ()):
            for metric, values, family in families(group, self._wanted):
                found.setdefault(metric.column, []).append((list(values), family))
        return found

    @cached_property
    def _answers(self) -> Answers:
        return answers_of(self.data, self._goal)

    def published_notes(self) -> str:
        """Return what a reader has to know of the published study and of how its claims were read."""
        known = self.data.studies[0].reference
        return items(known.notes) if known else ""

    def answer(self) -> str:
        """Return what `dlbench recommend` says, without the commands, which are of another machine."""
        several = len(self._answers.answers) > 1
        blocks = []
        for one in self._answers.answers:
            said = [f"  {label:<8}{text}" for label, text in lines(one, self.data.metrics) if label != "next"]
            blocks.append("\n".join([heading(one, is_one_of_several=several), *said]))
        return "```text\n{}\n```".format("\n".join(blocks))

    def warnings(self) -> str:
        """Return what speaks against trusting it: the report's own doubts, and steal."""
        texts = list(dict.fromkeys(doubt.text for one in self._answers.answers for doubt in one.doubts))
        known = [row["steal_fraction"] for row in self.data.completed if row.get("steal_fraction") is not None]
        steal = max(known, default=MUCH_STEAL)
        if steal < MUCH_STEAL:
            texts.append(f"the hypervisor took at most {steal:.2%} of the CPU time of a run")
        return items(texts)

    def notes(self) -> str:
        """Return what rows cannot tell of how they came about (`notes.md`), which names the study that it is of."""
        path = self.path / "notes.md"
        mark, _, text = path.read_text(encoding="utf-8").partition("\n") if path.exists() else ("", "", "")
        if mark and mark != f"<!-- {self.data.studies[0].name} -->":
            raise ValueError(f"{path} is of {mark}, the rows are of {self.data.studies[0].name}: write or remove it")
        return text.strip()

    def figure(self, name: str) -> str:
        """Return a figure of the report as a picture beside the README."""
        return f"![{escaped(self._chart(name).title)}]({name}.png)"

    def digest(self, name: str) -> str:
        """Return a checksum of the numbers that a figure shows, to six digits."""
        rows = [
            [f"{v:.6g}" if isinstance(v, float) else v for v in row.values()]
            for row in chart_rows(name, self._chart(name))
        ]
        return hashlib.sha256(json.dumps(rows, default=str).encode()).hexdigest()

    def _chart(self, name: str) -> Chart:
        if name not in self._charts:
            self._charts[name] = plugins.load("figures", name).get("chart")(self.data)
        return self._charts[name]

    @cached_property
    def names(self) -> dict[str, Any]:
        """The names of a template."""
        own = {name: getattr(self, name) for name in dir(type(self)) if not name.startswith("_") and name != "names"}
        return own | {"dict": dict} | {name: getattr(comparisons, name) for name in ("verdicts", "ratios", "unequal")}
