"""What a page and its Markdown say, ready: nothing is drawn or judged any more, only laid out."""

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property

from dlbench.analysis.answer.answer import Answer
from dlbench.analysis.answer.batches import batch_text
from dlbench.analysis.answer.lines import heading, lines
from dlbench.analysis.arm_table import ArmTable, arm_table, in_order, label_of
from dlbench.analysis.arms import Row, distinct
from dlbench.analysis.formatting import counted, listed, quantity, readable
from dlbench.analysis.groups import tuned_of
from dlbench.analysis.metrics.lost_time import lost_time, sentence
from dlbench.records.outcome import Status
from dlbench.report.answers import ClaimResult
from dlbench.report.data import ReportData, run_of
from dlbench.scenario.metrics import BUILT_IN, QUALITY
from dlbench.scenario.run_spec import Phase

# More arms of a study than this are not listed.
MOST_ARMS = 1_000
# More sentences on one matter are not read.
MOST_SENTENCES = 12
MOST_SEARCHED = 200
UNKNOWN_REASON = "no reason was recorded"
# How much of a reason is seen before it is unfolded.
MOST_SHOWN = 300


@dataclass(frozen=True)
class RenderedFigure:
    """One figure of the report.

    Attributes:
        name: Its plugin's name, by which it can be asked for.
        doc: The plugin's line.
        title: What the chart shows.
        svg: The picture as an element `svg`, made by dlbench: the one text that is not escaped.
        caption: The text under it.
        files: Names of its files beside the page: pictures, and the table it was drawn from.
        details: What is folded away below the caption.
    """

    name: str
    doc: str
    title: str
    svg: str = field(repr=False)
    caption: str
    files: tuple[str, ...] = ()
    details: str = ""


# What an answer is about, its lines of label and text, and what is folded below it by title.
ShownAnswer = tuple[str, list[tuple[str, str]], dict[str, list[str]]]


@dataclass(frozen=True)
class Content:
    """A report before it is laid out.

    Attributes:
        data: The rows it is made of.
        answers: The answers, one for each group of arms that can be compared.
        judged: The verdicts on the shapes of published results; empty where no study has a reference.
        drawn: The figures, in their order.
        left_out: Figures that could not be drawn: name and reason.
        thinning: What the charts do not show of a large report, as a sentence; empty where they show all.
    """

    data: ReportData
    answers: tuple[Answer, ...] = ()
    judged: tuple[ClaimResult, ...] = ()
    drawn: tuple[RenderedFigure, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    thinning: str = ""

    @cached_property
    def title(self) -> str:
        """The names of the scenarios, each once."""
        names = dict.fromkeys(row["scenario"] for row in self.data.runs if row.get("scenario"))
        return listed(names or [study.name for study in self.data.studies])

    @cached_property
    def questions(self) -> tuple[str, ...]:
        """What the scenarios say they are for, each once."""
        scenarios = filter(None, (study.scenario for study in self.data.studies))
        return tuple(dict.fromkeys(filter(None, (scenario.description.strip() for scenario in scenarios))))

    @cached_property
    def created(self) -> str:
        """When the newest attempt was started: the same rows make the same page on any day; empty where unknown."""
        started = distinct(self.data.attempts, "started_at")
        return f"{max(started):%Y-%m-%d %H:%M UTC}" if started else ""

    @cached_property
    def shown_answers(self) -> list[ShownAnswer]:
        """The answers as headings and lines, each with what is folded below it."""
        several, metrics, shown = len(self.answers) > 1, self.data.metrics, []
        for answer in self.answers:
            texts = lines(answer, metrics, gap="; ")
            # The report itself is no next step here.
            texts = [pair for pair in texts if not (pair[0] == "next" and pair[1].startswith("dlbench report"))]
            folded = {
                "Where the time of several workers goes": self._lost_time(answer),
                "Batch sizes between those that ran, and beyond": list(map(batch_text, answer.batch_sizes)),
                "What searches tried": self._searched if answer is self.answers[0] else [],
                "All doubts": [doubt.text for doubt in answer.doubts],
                "Arms that were not compared": [f"{a.title}: {a.reason}" for a in answer.arms if a.word == "out"],
            }
            shown.append((heading(answer, is_one_of_several=several), texts, folded))
        return shown

    @property
    def _searched(self) -> list[str]:
        """Return what each candidate of each search came to, and which of them was measured."""
        lines = []
        measured = [arm for arm in self.data.arms if tuned_of(arm)]
        tried = [row for study in self.data.studies for row in study.others if row["phase"] == Phase.TUNE]
        for row in sorted(tried, key=lambda row: (label_of(row), row["repeat"]))[:MOST_SEARCHED]:
            metrics = [BUILT_IN[name] for name in QUALITY if row.get(name) is not None]
            scores = [f"{metric.title} {quantity(metric, row[metric.column])}" for metric in metrics]
            came_to = ", ".join(scores) if row["status"] == Status.COMPLETED else row["status"]
            label = label_of(row).removeprefix("tune ")
            # An arm was measured at what its search chose.
            chosen = " (chosen)" * any(
                str(row.get("label")).startswith(f"tune {arm.first.get('label')} ")
                and all(row.get(column) == arm.get(column) for column in ("study", *tuned_of(arm)))
                for arm in measured
            )
            lines.append(f"{label}{chosen}, repeat {row['repeat']}: {came_to} in {counted(row['epochs'], 'epoch')}")
        return lines

    def _lost_time(self, answer: Answer) -> list[str]:
        """Return a sentence on each arm of several workers that has a base line; of many the first."""
        titles = {(arm.study, arm.name): arm.title for arm in answer.arms if arm.workers > 1 and arm.word != "out"}
        chosen = [
            replace(arm, title=title) for arm in self.data.arms if (title := titles.get((arm.study or "", arm.name)))
        ]
        return [sentence(arm, lost) for arm in chosen if (lost := lost_time(arm))][:MOST_SENTENCES]

    @cached_property
    def studies(self) -> dict[str, str]:
        """How many runs each study has and how they ended, in words."""
        texts = {}
        for study in self.data.studies:
            ended = Counter(row["status"] for row in study.runs)
            emulated = sum(bool(row.get("emulated")) for row in study.runs)
            parts = [f"{ended[status]} {status}" for status in Status if ended[status] or status is Status.COMPLETED]
            parts += [f"{emulated} emulated"] if emulated else []
            parts += [counted(len(study.attempts), "attempt")] if len(study.attempts) != len(study.runs) else []
            texts[study.name] = f"{counted(len(study.runs), 'run')}: {', '.join(parts)}"
        return texts

    @cached_property
    def arms(self) -> ArmTable:
        """All arms with a completed run: what the tables of each study's have in common is said once."""
        return arm_table([arm for arm in self.data.arms if arm.completed])

    @cached_property
    def arm_tables(self) -> tuple[tuple[str, ArmTable, int], ...]:
        """Each study that has such arms, with the table of the first MOST_ARMS of them, and how many there are."""
        completed = [arm for arm in in_order(self.data.arms) if arm.completed]
        by_study = {study: [arm for arm in completed if arm.study == study] for study in self.studies}
        return tuple((study, arm_table(arms[:MOST_ARMS]), len(arms)) for study, arms in by_study.items() if arms)

    @cached_property
    def failures(self) -> list[Row]:
        """Every attempt that did not complete, those of runs that never did first, in the order of the rows.

        `reason` says why, in full, and `beginning` as much of it as can be read at a glance; `label` is empty where
        there is none; `afterwards` says how the run ended, where it was launched again.
        """
        lasts = {run_of(row): row for row in self.data.runs}
        failed = [(row, lasts[run_of(row)]) for row in self.data.attempts if row["status"] != Status.COMPLETED]
        failed.sort(key=lambda pair: pair[1]["status"] == Status.COMPLETED)
        return [_failure(row, last) for row, last in failed]


def _failure(row: Row, last: Row) -> Row:
    reason = readable(row.get("reason") or "").strip() or UNKNOWN_REASON
    first = reason.partition("\n")[0]
    beginning = first if len(first) <= MOST_SHOWN else f"{first[:MOST_SHOWN]} ..."
    afterwards = "" if row["attempt"] == last["attempt"] else f"attempt {last['attempt']}: {last['status']}"
    return {**row, "label": label_of(row), "reason": reason, "beginning": beginning, "afterwards": afterwards}
