"""The whole report as one HTML page that needs neither a network nor a script to be read, and as Markdown (GitHub's).

Everything that comes from a study is text: it is escaped, its control characters are spelled out, and the page's own
policy forbids every script but the one it holds. Pictures alone are taken as they are: dlbench drew them.
"""

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from dlbench.analysis.arm_table import ArmTable, in_order, marks, name_of, rate_notes, short_rate
from dlbench.analysis.arms import EFFICIENCY, Arm, Row, are_numbers, reported
from dlbench.analysis.formatting import number, percent, readable, unit_of
from dlbench.analysis.groups import naming
from dlbench.records.columns import RUNS
from dlbench.report.data import ReportData, attempt_of
from dlbench.report.markdown import escaped, table
from dlbench.report.page.content import Content, RenderedFigure
from dlbench.report.page.machines import machines
from dlbench.scenario.metrics import BUILT_IN, MFU, RATE, TIME_TO_TARGET, TRAIN_TIME

HERE = Path(__file__).parent
# More attempts than this are not listed.
MOST_FAILURES = 500
# In Markdown, a sentence of dlbench's own is not cut, whatever names are in it.
WHOLE = 100_000
# What Markdown can show: first what every reader of it shows.
PICTURES = (".png", ".svg")
# What is measured, in the order of reading, and what the table of runs calls it.
MEASURES = {
    **{metric.column: metric.title for metric in (TRAIN_TIME, TIME_TO_TARGET)},
    **{column: metric.title for column, metric in BUILT_IN.items() if metric.is_score},
    EFFICIENCY: "efficiency",
    **{metric.column: metric.title for metric in (MFU, RATE)},
    "wall_time_s": "wall time",
}
WRITTEN = {EFFICIENCY: percent, **{name: unit_of(metric).written for name, metric in BUILT_IN.items()}}
# Unit and meaning of what is measured.
MEANINGS = {column.name: (column.unit, column.meaning) for column in RUNS}
# More rows than this make a page slow, and are not read.
MOST_ROWS = 5_000


def html(content: Content) -> str:
    """Return the page: the same content gives the same text."""
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    template = _environment().get_template("page.html.j2")
    return template.render(
        content=content,
        runs=runs_table(content.data),
        most_failures=MOST_FAILURES,
        anchors={attempt_of(row): f"why-{place}" for place, row in enumerate(content.failures[:MOST_FAILURES], 1)},
        attempt_of=attempt_of,
        machines=machines(content.data),
        policy=policy(style, script),
        style=style,
        script=script,
    )


def markdown(content: Content) -> str:
    """Return the report as Markdown: the same content gives the same text."""

    def arm_lines(arms: ArmTable) -> str:
        rows = (map(escaped, row) for row in arms.rows)
        return "\n".join(table(list(arms.columns), rows, arms.columns.keys() - arms.texts))

    def picture_of(chart: RenderedFigure) -> str:
        files = [file for suffix in PICTURES for file in chart.files if file.endswith(suffix)]
        return f"![{escaped(chart.title)}]({quote(files[0])})" if files else ""

    template = _environment().get_template("report.md.j2")
    return template.render(content=content, most_failures=MOST_FAILURES, arm_lines=arm_lines, picture_of=picture_of)


def policy(style: str, script: str) -> str:
    """Return what a browser may do with the page: use this one style, run this one script, and load nothing (CSP 3).

    Pictures have no style of their own, as `rendering.svg` makes them; an image is one inside a picture.
    """
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style))
    allowed = "script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:".format(*digests)
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def ticked(text: str) -> Markup:
    """Return a text as HTML in which what stands between backticks is code; where one has no partner, none is."""
    parts = readable(text).split("`")
    if len(parts) % 2 == 0:
        return escape("`".join(parts))
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(part) if place % 2 else escape(part) for place, part in enumerate(parts))


def _environment() -> Environment:
    """Return what reads the templates: a name that is not there is an error."""
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        # Control characters of every text are spelled out before it is escaped.
        finalize=lambda value: readable(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"ticked": ticked, "cut": escaped, "whole": partial(escaped, most=WHOLE)}
    return environment


@dataclass(frozen=True)
class Heading:
    """One column of the table.

    Attributes:
        name: The column of `runs.csv`.
        title: What it is called here.
        unit: Its unit; empty where it has none.
        meaning: What `runs.csv` has in it; empty for settings, and for what it does not have.
        is_number: Whether it is set as numbers are.
        is_choice: Whether rows can be chosen by its values.
    """

    name: str
    title: str
    unit: str = ""
    meaning: str = ""
    is_number: bool = False
    is_choice: bool = False


class Cell(NamedTuple):
    """One cell: what is shown, and of a number its value in full as scripts read it; both empty where it is unknown."""

    text: str = ""
    value: str = ""


@dataclass(frozen=True)
class Table:
    """Headings of the cells, and the runs; run and status stand in front of them.

    Attributes:
        headings: Of the cells.
        rows: The first MOST_ROWS of the runs, each with a cell for every heading.
        notes: What marks mean.
    """

    headings: tuple[Heading, ...]
    rows: tuple[tuple[Row, tuple[Cell, ...]], ...]
    notes: tuple[str, ...]


def runs_table(data: ReportData) -> Table:
    """Return the table of runs as a person reads them; columns in which no run has anything are left out."""
    arms = ((arm, sorted(arm.rows, key=lambda row: row.get("repeat") or 0)) for arm in in_order(data.arms))
    shown = [(arm, row) for arm, rows in arms for row in rows][:MOST_ROWS]
    columns = {heading: [_cell(arm, row, heading) for arm, row in shown] for heading in _headings(data)}
    columns = {heading: cells for heading, cells in columns.items() if any(cell.text for cell in cells)}
    rows = zip((row for _, row in shown), zip(*columns.values(), strict=True), strict=True)
    return Table(tuple(columns), tuple(rows), tuple(rate_notes([[row] for _, row in shown])))


def _headings(data: ReportData) -> Iterator[Heading]:
    for name in dict.fromkeys((*(["study"] if len(data.studies) > 1 else []), *naming(data.arms))):
        yield Heading(name, name, is_number=are_numbers(row.get(name) for row in data.runs), is_choice=True)
    for name, title in {**MEASURES, **{name: name.replace("_", " ") for name in reported(data.completed)}}.items():
        yield Heading(name, title, *MEANINGS.get(name, ("", "")), is_number=True)
    yield Heading("emulated", "emulated", is_choice=True)
    yield Heading("attempt", "attempt", is_number=True)


def _cell(arm: Arm, row: Row, heading: Heading) -> Cell:
    name = heading.name
    value = arm.efficiency_of(row) if name == EFFICIENCY else row.get(name)
    if value is None:
        return Cell(short_rate([row]) if name == RATE.column else "")
    if heading.is_number and not heading.is_choice:
        return Cell(WRITTEN.get(name, number)(value) + (marks([row]) if name == RATE.column else ""), json.dumps(value))
    if name == "emulated":
        return Cell(str(value).replace(";", ", "))
    return Cell(name_of(name, row), json.dumps(value) if are_numbers([value]) else "")
