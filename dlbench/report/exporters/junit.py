"""JUnit XML: each run is a test case, one that did not complete an error; CI systems show it as tests."""

from pathlib import Path

from dlbench.analysis.arms import METRICS, Row
from dlbench.plugins import Options
from dlbench.records.files import write_text
from dlbench.records.outcome import Status
from dlbench.report.data import ReportData, StudyData
from dlbench.report.junit import Case, Problem, Suite, document
from dlbench.scenario.metrics import TIME_TO_TARGET

OPTIONS = Options
DOCUMENT = "junit.xml"


def export(data: ReportData, output: Path) -> list[Path]:
    """Write one test suite for each study."""
    write_text(output / DOCUMENT, document(map(_suite, data.studies)))
    return [output / DOCUMENT]


def _suite(study: StudyData) -> Suite:
    rows = study.runs
    return Suite(
        name=study.name,
        cases=[_case(row) for row in rows],
        lines=[_line(row) for row in rows if row["status"] == Status.COMPLETED],
        hostname=str(study.machine.get("hostname") or ""),
        moments=[str(row["started_at"]) for row in rows if row.get("started_at")],
    )


def _case(row: Row) -> Case:
    status = str(row["status"])
    is_good = status == Status.COMPLETED
    problem = None if is_good else Problem("error", status, str(row.get("reason") or status))
    name = f"{row.get('label') or row['run_id']}, repeat {row.get('repeat', 0)}"
    return Case(name, row.get("wall_time_s") or 0.0, problem)


def _line(row: Row) -> str:
    """Return a run's results in one line."""
    known = [f"{name}={row[name]:.6g}" for name in (*METRICS, TIME_TO_TARGET.column) if row.get(name) is not None]
    return f"{row['run_id']}: {' '.join(known)}"
