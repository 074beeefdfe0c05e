"""JUnit XML: each run is a test case, one that did not complete an error; CI systems show it as tests.

The form is the schema of Apache Ant's JUnit task.
"""

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from dlbench.analysis.arms import METRICS, Row
from dlbench.analysis.formatting import one_line
from dlbench.records.files import write_text
from dlbench.records.outcome import Status
from dlbench.report.data import ReportData, StudyData
from dlbench.scenario.metrics import TIME_TO_TARGET

DOCUMENT = "junit.xml"
_UNKNOWN_MOMENT = "1970-01-01T00:00:00"


class Case(NamedTuple):
    """A test case.

    Attributes:
        name: What was tested.
        time_s: How long it took.
        kind: Empty where it passed. A `failure` is what was tested for; an `error` or a `skipped` case was not tested.
        type: A word for why it did not pass.
        message: What happened.
    """

    name: str
    time_s: float = 0.0
    kind: str = ""
    type: str = ""
    message: str = ""


def export(data: ReportData, output: Path) -> list[Path]:
    """Write one test suite for each study."""
    write_text(output / DOCUMENT, document(_suite_of(study, number) for number, study in enumerate(data.studies)))
    return [output / DOCUMENT]


def _suite_of(study: StudyData, number: int) -> ET.Element:
    """Return a study: its runs, and in one line for each what those that completed measured."""
    started = min((str(row["started_at"]) for row in study.runs if row.get("started_at")), default=_UNKNOWN_MOMENT)
    lines = []
    for row in study.runs:
        if row["status"] == Status.COMPLETED:
            pairs = [
                f"{name}={row[name]:.6g}" for name in (*METRICS, TIME_TO_TARGET.column) if row.get(name) is not None
            ]
            lines.append(f"{row['run_id']}: {' '.join(pairs)}")
    hostname = str(study.machine.get("hostname") or "localhost")
    return suite(study.name, [_case(row) for row in study.runs], lines, started, hostname, number)


def _case(row: Row) -> Case:
    status, name = str(row["status"]), f"{row.get('label') or row['run_id']}, repeat {row.get('repeat', 0)}"
    problem = () if status == Status.COMPLETED else ("error", status, str(row.get("reason") or status))
    return Case(name, row.get("wall_time_s") or 0.0, *problem)


def document(suites: Iterable[ET.Element]) -> str:
    """Return test suites as XML."""
    root = ET.Element("testsuites")
    root.extend(suites)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "unicode") + "\n"


def suite(
    name: str, cases: Sequence[Case], lines: Iterable[str], started: str, hostname: str = "localhost", number: int = 0
) -> ET.Element:
    """Return test cases as a suite; texts are in one line, without characters that XML has no place for.

    Args:
        name: Of the suite, and the class name of its cases.
        cases: In order.
        lines: What was printed: the schema gives a case that passed no place for it.
        started: When, in ISO 8601 (UTC).
        hostname: Where it ran.
        number: Of the suite in its document, from 0.
    """
    # The schema allows no time zone: moments are UTC.
    timestamp = started.replace(" ", "T")[: len(_UNKNOWN_MOMENT)]
    num_of = Counter(case.kind for case in cases)
    root = ET.Element("testsuite", {
        "name": one_line(name), "package": "dlbench", "id": str(number),
        "timestamp": timestamp, "hostname": one_line(hostname), "tests": str(len(cases)),
        "failures": str(num_of["failure"]), "errors": str(num_of["error"]), "skipped": str(num_of["skipped"]),
        "time": f"{sum(case.time_s for case in cases):.3f}",
    })  # fmt: skip
    ET.SubElement(root, "properties")
    names: set[str] = set()
    for case in cases:
        base, message = one_line(case.name), one_line(case.message)
        # CI systems take cases of one name for one test: the second gets a 2.
        titles = chain([base], (f"{base} ({number})" for number in count(2)))
        title = next(title for title in titles if title not in names)
        names.add(title)
        element = ET.SubElement(root, "testcase", name=title, classname=one_line(name), time=f"{case.time_s:.3f}")
        if case.kind == "skipped":
            ET.SubElement(element, case.kind, message=message)
        elif case.kind:
            ET.SubElement(element, case.kind, type=one_line(case.type), message=message).text = message
    ET.SubElement(root, "system-out").text = "\n".join(map(one_line, lines))
    ET.SubElement(root, "system-err")
    return root
