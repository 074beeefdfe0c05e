"""JSON with a schema: settings and results of every run, and medians with intervals of every arm."""

import json as standard_json
import math
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from dlbench.analysis.arms import Arm
from dlbench.analysis.statistics.intervals import Interval
from dlbench.records.files import write_text
from dlbench.report.data import ReportData, StudyData
from dlbench.report.exporters._runs import known_values
from dlbench.scenario.metrics import TIME_TO_TARGET
from dlbench.scenario.run_spec import arm_name


class Spread(BaseModel, extra="forbid"):
    """A median over an arm's repeats; null where half of the runs never reached the target."""

    median: float | None
    low: float | None
    high: float | None
    coverage: float | None = Field(description="Probability that the interval covers the true median.")
    n: int


class ArmDocument(BaseModel, extra="forbid"):
    """An arm: its runs share all settings but the seed."""

    name: str
    label: str
    baseline: bool
    emulated: list[str] = Field(description="Why it was not on representative hardware; empty where it was.")
    completed: int
    reached: int | None = Field(description="Runs that reached the target; null without one.")
    metrics: dict[str, Spread]


class StudyDocument(BaseModel, extra="forbid"):
    """A study: `runs` have the columns of `runs.csv` by name, without unknown ones."""

    name: str
    scenario: str | None
    machine: dict[str, Any]
    runs: list[dict[str, Any]]
    arms: list[ArmDocument]


class Document(BaseModel, extra="forbid"):
    """What `dlbench export --to json` writes."""

    schema_version: int = 1
    studies: list[StudyDocument]


def export(data: ReportData, output: Path) -> list[Path]:
    """Write the studies and the schema that they follow."""
    document = Document(studies=[_study(data, study) for study in data.studies])
    written = [output / "export.json", output / "export.schema.json"]
    write_text(written[0], document.model_dump_json(indent=1) + "\n")
    write_text(written[1], standard_json.dumps(Document.model_json_schema(), indent=1) + "\n")
    return written


def _study(data: ReportData, study: StudyData) -> StudyDocument:
    return StudyDocument(
        name=study.name,
        scenario=study.scenario_text or None,
        machine=dict(study.machine),
        runs=[known_values({**row, "arm": arm_name(row["run_id"])}) for row in study.runs],
        arms=[arm_document(arm) for arm in data.arms if arm.study == study.name and arm.completed],
    )


def arm_document(arm: Arm) -> ArmDocument:
    """Return what JSON says of an arm, here and in `dlbench show --json`."""
    times = arm.comparable(TIME_TO_TARGET.column).values()
    return ArmDocument(
        name=arm.name,
        label=arm.label,
        baseline=arm.baseline,
        emulated=[reason for reason in arm.emulated.split(";") if reason],
        completed=arm.n,
        reached=sum(map(math.isfinite, times)) if times else None,
        metrics={name: _spread(interval) for name, interval in arm.metrics.items() if interval is not None},
    )


def _spread(interval: Interval) -> Spread:
    median = interval.value if math.isfinite(interval.value) else None
    return Spread(median=median, low=interval.low, high=interval.high, coverage=interval.coverage, n=interval.n)
