"""What a page and its Markdown say, ready: nothing is drawn or judged any more, only laid out."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from dlbench.analysis.formatting import Statement, counted, listed
from dlbench.records.outcome import Status
from dlbench.report.data import ReportData, StudyData
from dlbench.report.formatting import values

if TYPE_CHECKING:
    from dlbench.report.references import ClaimResult

# The kinds of statements, and what each is called, in the order of reading.
KINDS = {"use": "What to use", "why": "Why", "warning": "Warnings"}
NO_CONCLUSION = "No conclusion is possible from these runs."
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
class Content:
    """A report before it is laid out.

    Attributes:
        data: The rows it is made of.
        statements: The answer.
        judged: The verdicts on the shapes of published results; empty where no study has a reference.
        drawn: The figures, in their order.
        left_out: Figures that could not be drawn: name and reason.
        thinning: What the charts do not show of a large report, as a sentence; empty where they show all.
    """

    data: ReportData
    statements: tuple[Statement, ...] = ()
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
    def answer(self) -> Mapping[str, tuple[str, ...]]:
        """The statements by what their kind is called; kinds without any are left out."""
        found = {
            title: tuple(statement.text for statement in self.statements if statement.kind == kind)
            for kind, title in KINDS.items()
        }
        return {title: texts for title, texts in found.items() if texts}

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
