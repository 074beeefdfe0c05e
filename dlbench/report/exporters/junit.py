"""JUnit XML: each run is a test case, one that did not complete an error; CI systems show it as tests."""

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from dlbench.analysis.arms import METRICS, TIME_TO_TARGET, records
from dlbench.analysis.formatting import one_line
from dlbench.plugins import Options
from dlbench.records.files import write_text
from dlbench.records.outcome import Status
from dlbench.report.data import ReportData

OPTIONS = Options
DOCUMENT = "junit.xml"
# The schema allows no time zone: moments are UTC.
_SECONDS = 19


def export(data: ReportData, output: Path) -> list[Path]:
    """Write one test suite for each study, as the schema of Apache Ant's JUnit task has it."""
    root = ET.Element("testsuites")
    for number, study in enumerate(data.studies):
        rows = records(data.runs[data.runs["study"] == study.name])
        root.append(_suite(number, study.name, str(study.machine.get("hostname") or "localhost"), rows))
    ET.indent(root)
    write_text(output / DOCUMENT, '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "unicode") + "\n")
    return [output / DOCUMENT]


def _suite(number: int, name: str, host: str, rows: list[dict[str, Any]]) -> ET.Element:
    bad = [row for row in rows if row["status"] != Status.COMPLETED]
    started = [str(row["started_at"]).replace(" ", "T") for row in rows if row.get("started_at")]
    suite = ET.Element(
        "testsuite",
        name=_text(name),
        package="dlbench",
        id=str(number),
        timestamp=min(started, default="1970-01-01T00:00:00")[:_SECONDS],
        hostname=_text(host),
        tests=str(len(rows)),
        failures="0",
        errors=str(len(bad)),
        time=_seconds(sum(row.get("wall_time_s") or 0 for row in rows)),
    )
    ET.SubElement(suite, "properties")
    for row in rows:
        case = ET.SubElement(
            suite,
            "testcase",
            name=_text(f"{row.get('label') or row['run_id']}, repeat {row.get('repeat', 0)}"),
            classname=_text(name),
            time=_seconds(row.get("wall_time_s") or 0),
        )
        if row["status"] != Status.COMPLETED:
            reason = _text(row.get("reason") or row["status"])
            ET.SubElement(case, "error", type=str(row["status"]), message=reason).text = reason
    ET.SubElement(suite, "system-out").text = "\n".join(_line(row) for row in rows if row["status"] == Status.COMPLETED)
    ET.SubElement(suite, "system-err")
    return suite


def _line(row: dict[str, Any]) -> str:
    """Return a run's results in one line: the schema gives a test case no place for them."""
    known = [f"{name}={row[name]:.6g}" for name in (*METRICS, TIME_TO_TARGET) if row.get(name) is not None]
    return _text(f"{row['run_id']}: {' '.join(known)}")


def _text(value: object) -> str:
    """Return a text that XML can hold: in one line, without characters that it has no place for."""
    return "".join(letter for letter in one_line(value) if letter >= " " and letter not in "\ufffe\uffff")


def _seconds(value: float) -> str:
    return f"{value:.3f}"
