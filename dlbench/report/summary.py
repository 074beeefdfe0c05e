"""The report as Markdown: the answer, the arms with their intervals, the charts as pictures, what failed."""

from collections.abc import Iterable, Iterator

from dlbench.report.data import ReportData
from dlbench.report.markdown import escaped, items, picture, table
from dlbench.report.page.arms import arm_section
from dlbench.report.page.content import Content, RenderedFigure
from dlbench.report.page.failures import MOST_FAILURES, FailedRun, failures

# A sentence of dlbench's own is not cut, whatever names are in it.
WHOLE = 100_000
PICTURES = (".png", ".svg")


def markdown(content: Content) -> str:
    """Return the report as Markdown (GitHub's): the same content gives the same text."""
    parts = (
        [f"# {escaped(content.title)}"],
        [f"Newest run started on {content.created}."] if content.created else [],
        *_answer(content),
        *_shapes(content),
        *_arms(content.data),
        *_charts(content),
        *_failures(failures(content.data), is_one=len(content.studies) == 1),
    )
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _answer(content: Content) -> Iterator[list[str]]:
    yield ["## The answer"]
    for answer in content.shown_answers:
        yield [f"### {escaped(answer.heading, WHOLE)}"]
        yield items(f"{label}: {escaped(text, WHOLE)}" for label, text in answer.lines)
        for title, texts in (
            ("All doubts", answer.doubts),
            ("Arms that were not compared", tuple(f"{name}: {why}" for name, why in answer.out)),
        ):
            if texts:
                yield [
                    "<details>",
                    f"<summary>{title}</summary>",
                    "",
                    *items(escaped(text, WHOLE) for text in texts),
                    "",
                    "</details>",
                ]
    yield ["### Evidence"]
    yield items(f"{escaped(study.name)}: {study.runs}" for study in content.studies)


def _shapes(content: Content) -> Iterator[list[str]]:
    if not content.judged:
        return
    yield ["## Published shapes"]
    yield table(
        ("published", "claim", "verdict", "why"),
        (
            (escaped(one.reference), escaped(one.claim, WHOLE), one.state, escaped(one.why, WHOLE))
            for one in content.judged
        ),
    )


def _arms(data: ReportData) -> Iterator[list[str]]:
    """Yield the arms, each study's in a table of its own: arms of two studies are never one."""
    found = arm_section(data)
    if found is None:
        return
    yield ["## Arms"]
    yield [f"{found.title}."]
    for one in found.studies:
        yield [f"### {escaped(one.study)}"] if len(data.studies) > 1 else []
        yield table(one.table.headings, (map(escaped, row) for row in one.table.rows), set(one.numbers))
        if one.total > len(one.table.rows):
            yield [f"These are the first {len(one.table.rows):,} of {one.total:,} arms; `arms.csv` has all."]
    if found.notes:
        yield items(escaped(note, WHOLE) for note in found.notes)


def _charts(content: Content) -> Iterator[list[str]]:
    if content.drawn:
        yield ["## Charts"]
        yield [escaped(content.thinning, WHOLE)] if content.thinning else []
    for chart in content.drawn:
        yield [f"### {escaped(chart.title)}"]
        yield [picture(file, chart.title) for file in _pictures(chart)[:1]]
        yield [escaped(chart.caption, WHOLE)] if chart.caption.strip() else []
    if content.left_out:
        yield ["## Charts that could not be drawn"]
        yield items(f"{escaped(name)}: {escaped(reason, WHOLE)}" for name, reason in content.left_out)


def _pictures(chart: RenderedFigure) -> list[str]:
    """Return the files that Markdown can show, the one first that every reader of it shows."""
    return [file for suffix in PICTURES for file in chart.files if file.endswith(suffix)]


def _failures(found: Iterable[FailedRun], *, is_one: bool) -> Iterator[list[str]]:
    yield ["## What failed"]
    every = list(found)
    rows = [
        (
            *(() if is_one else (escaped(failure.study),)),
            escaped(failure.run_id),
            str(failure.attempt),
            failure.status,
            escaped(failure.beginning),
            failure.afterwards,
        )
        for failure in every[:MOST_FAILURES]
    ]
    if rows:
        studies = () if is_one else ("study",)
        yield table((*studies, "run", "attempt", "status", "reason", "afterwards"), rows, numbers={"attempt"})
        if len(every) > len(rows):
            yield [f"These are the first {len(rows):,} of {len(every):,}; `runs.csv` has all."]
    else:
        yield ["Nothing: every run completed at its first attempt."]
