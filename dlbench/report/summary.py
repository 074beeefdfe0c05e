"""The report as Markdown: the answer, the arms with their intervals, the charts as pictures, what failed."""

from urllib.parse import quote

from dlbench.analysis.arm_table import ArmTable
from dlbench.report.markdown import escaped, table
from dlbench.report.page.content import Content, RenderedFigure
from dlbench.report.page.failures import MOST_FAILURES, failures
from dlbench.report.page.html import environment

TEMPLATE = "report.md.j2"
# A sentence of dlbench's own is not cut, whatever names are in it.
WHOLE = 100_000
# What Markdown can show: first what every reader of it shows.
PICTURES = (".png", ".svg")


def markdown(content: Content) -> str:
    """Return the report as Markdown (GitHub's): the same content gives the same text."""
    templates = environment()
    templates.filters |= {"cut": escaped, "whole": lambda text: escaped(text, WHOLE)}
    return templates.get_template(TEMPLATE).render(
        content=content,
        failures=failures(content.data),
        most_failures=MOST_FAILURES,
        arm_lines=_arm_lines,
        picture_of=_picture_of,
    )


def _arm_lines(arms: ArmTable) -> str:
    rows = (map(escaped, row) for row in arms.rows)
    return "\n".join(table(list(arms.columns), rows, arms.columns.keys() - arms.texts))


def _picture_of(chart: RenderedFigure) -> str:
    files = [file for suffix in PICTURES for file in chart.files if file.endswith(suffix)]
    return f"![{escaped(chart.title)}]({quote(files[0])})" if files else ""
