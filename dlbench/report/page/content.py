"""What a page and its Markdown say, ready: nothing is drawn or judged any more, only laid out."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from dlbench.analysis.answer.answer import Answer, Doubt
from dlbench.analysis.answer.lines import heading, lines
from dlbench.analysis.formatting import counted, listed
from dlbench.records.outcome import Status
from dlbench.report.data import ReportData, StudyData
from dlbench.report.formatting import values
from dlbench.scenario.metrics import BUILT_IN, Metric

if TYPE_CHECKING:
    from dlbench.report.references import ClaimResult

TIME = "%Y-%m-%d %H:%M UTC"


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


@dataclass(frozen=True)
class StudySection:
    """One study in a line.

    Attributes:
        name: Its name in the report.
        runs: How many runs it has and how they ended, in words.
    """

    name: str
    runs: str


@dataclass(frozen=True)
class ShownAnswer:
    """One answer as it is laid out.

    Attributes:
        heading: What it is about, and the goal.
        lines: At most five: label and text.
        doubts: All of them, the heaviest first.
        out: Title of each arm that was not compared, and why.
    """

    heading: str
    lines: tuple[tuple[str, str], ...]
    doubts: tuple[str, ...]
    out: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Content:
    """A report before it is laid out.

    Attributes:
        data: The rows it is made of.
        answers: The answers, one for each group of arms that can be compared.
        metrics: All metrics by column.
        disturbed: What was seen of a machine before and after a study that may have slowed runs.
        judged: The verdicts on the shapes of published results; empty where no study has a reference.
        drawn: The figures, in their order.
        left_out: Figures that could not be drawn: name and reason.
        thinning: What the charts do not show of a large report, as a sentence; empty where they show all.
    """

    data: ReportData
    answers: tuple[Answer, ...] = ()
    metrics: Mapping[str, Metric] = field(default_factory=lambda: BUILT_IN)
    disturbed: tuple[Doubt, ...] = ()
    judged: "tuple[ClaimResult, ...]" = ()
    drawn: tuple[RenderedFigure, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    thinning: str = ""

    @cached_property
    def title(self) -> str:
        """The names of the scenarios, each once."""
        known = values(self.data.runs["scenario"])
        names = dict.fromkeys(name for name in known if name) or [study.name for study in self.data.studies]
        return listed(names)

    @cached_property
    def questions(self) -> tuple[str, ...]:
        """What the scenarios say they are for, each once."""
        scenarios = (study.scenario for study in self.data.studies)
        found = (scenario.description.strip() for scenario in scenarios if scenario is not None)
        return tuple(dict.fromkeys(filter(None, found)))

    @cached_property
    def created(self) -> str:
        """When the newest attempt was started: the same rows make the same page on any day; empty where unknown."""
        known = [time for time in values(self.data.attempts["started_at"]) if time is not None]
        newest: datetime | None = max(known, default=None)
        return newest.strftime(TIME) if newest is not None else ""

    @cached_property
    def shown_answers(self) -> tuple[ShownAnswer, ...]:
        """The answers as headings and lines, each with what is folded below it."""
        several = len(self.answers) > 1
        return tuple(
            ShownAnswer(
                heading(answer, is_one_of_several=several),
                # The report itself is no next step here.
                tuple(
                    (label, text)
                    for label, text in lines(answer, self.metrics, gap="; ")
                    if not (label == "next" and text.startswith("dlbench report"))
                ),
                tuple(doubt.text for doubt in (*answer.doubts, *self.disturbed)),
                tuple((arm.title, arm.reason) for arm in answer.arms if arm.word == "out"),
            )
            for answer in self.answers
        )

    @cached_property
    def studies(self) -> tuple[StudySection, ...]:
        """Each study with its number of runs."""
        return tuple(_study(study, self.data) for study in self.data.studies)


def _study(study: StudyData, data: ReportData) -> StudySection:
    runs = data.runs[data.runs["study"] == study.name]
    ended = Counter(values(runs["status"]))
    others = [f"{ended[status]} {status}" for status in Status if status is not Status.COMPLETED and status in ended]
    attempts = int((data.attempts["study"] == study.name).sum())
    emulated = int(runs["emulated"].fillna("").ne("").sum())
    parts = [
        f"{counted(len(runs), 'run')}: {ended[Status.COMPLETED]} completed",
        *others,
        *([f"{emulated} emulated"] if emulated else []),
        *([counted(attempts, "attempt")] if attempts != len(runs) else []),
    ]
    return StudySection(study.name, ", ".join(parts))
