"""The folder of a study: create one, open one, find those of a scenario and how long their runs took."""

import contextlib
import csv
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import ValidationError

import dlbench
from dlbench.errors import UserError
from dlbench.records import files
from dlbench.records.columns import SCHEMA_VERSION, require_version
from dlbench.records.machine import fingerprint, read_machine
from dlbench.records.outcome import Status
from dlbench.records.variables import is_digest, public
from dlbench.regular_file import read_json, read_regular
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.frozen import Frozen
from dlbench.scenario.read.scenario_file import parse_kept
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.scenario import Repeats, Scenario, name_from
from dlbench.scenario.source import first_fault

DEFAULT_PARENT = Path("studies")
# A cell of `runs.csv` may hold a long reason; csv's own limit is 128 KiB.
_MAX_CELL = 1 << 30


@dataclass(frozen=True)
class StudyPlan:
    """What is to be measured where: all that a study is made from.

    Attributes:
        scenario: The scenario as its file says it.
        text: The file, verbatim.
        runs: The runs of it that are asked for, resolved, in order.
        cluster: Where they run.
        machine: What `dlbench.records.machine.describe` says of this machine.
        reference: The published numbers that the scenario names, as their file has them; empty where it names none.
        repeats: In place of the scenario's; None where its own count.
        confirms: Whether the arm to use and its rivals run once more on fresh seeds.
        where: The option that names its hosts, and its value; empty where none does.
    """

    scenario: Scenario
    text: str
    runs: tuple[RunSpec, ...]
    cluster: Cluster
    machine: Mapping[str, Any]
    reference: str = ""
    repeats: int | Repeats | None = None
    confirms: bool = False
    where: tuple[str, ...] = ()

    @property
    def rule(self) -> int | Repeats:
        """How often each arm is measured."""
        return self.repeats or self.scenario.repeats

    @property
    def is_open(self) -> bool:
        """Whether further runs depend on the rows of those that are made."""
        return self.scenario.tune is not None or self.confirms or not isinstance(self.rule, int)


class Record(Frozen):
    """`study.json`: what the study is. Written once, last of all, so a folder without it is no study.

    Attributes:
        schema_version: Version of the columns.
        dlbench_version: Version that began the study.
        scenario: Name of the scenario.
        scenario_hash: Hash of `scenario.yaml` as it was.
        created_at: UTC, ISO 8601.
        cluster: Where it runs.
        machine_fingerprint: Short hash of the hardware and versions it began on.
        runs: Every run that was ever asked for, resolved, in order.
        where: The option that named its hosts, and its value; empty where none did.
    """

    schema_version: int = SCHEMA_VERSION
    dlbench_version: str = dlbench.__version__
    scenario: str
    scenario_hash: str
    created_at: str
    cluster: Cluster
    machine_fingerprint: str
    runs: tuple[RunSpec, ...]
    where: tuple[str, ...] = ()


@dataclass(frozen=True)
class Folder:
    """A study on disk: its path, its record and the machine it began on."""

    path: Path
    record: Record
    machine: Mapping[str, Any]


def create(parent: Path, plan: StudyPlan, now: datetime | None = None) -> Folder:
    """Make the folder `<parent>/<scenario>-<UTC time>` of a new study.

    Raises:
        UserError: There is no run, or the folder cannot be made.
    """
    if not plan.runs:
        raise UserError("the scenario has no runs", hint="check `exclude` and --only: together they leave nothing")
    moment = now or datetime.now(UTC)
    record = new_record(plan, moment.isoformat(timespec="seconds"))
    path = make_folder(parent, f"{name_from(plan.scenario.name)}-{moment:%Y%m%dT%H%M%SZ}")
    files.write_text(path / files.SCENARIO, plan.text)
    if plan.reference:
        files.write_text(path / files.REFERENCE, plan.reference)
    write_machine(path, plan.machine)
    write_record(path, record)
    return Folder(path, record, plan.machine)


def make_folder(parent: Path, name: str) -> Path:
    """Make the folder of a new study; where others of this name were made in the same second, with a number.

    Raises:
        UserError: It cannot be made.
        OSError: The disk is full.
    """
    path, number = parent / name, 1
    try:
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            with contextlib.suppress(FileExistsError):
                path.mkdir()
                return path
            number += 1
            path = parent / f"{name}-{number}"
    except OSError as error:
        if error.errno in files.FULL:
            raise
        raise UserError(
            f"no study can be made in {parent}: {error.strerror}", hint="choose another --output"
        ) from error


def new_record(plan: StudyPlan, created_at: str) -> Record:
    """Return the record of a new study."""
    return Record(
        scenario=plan.scenario.name,
        scenario_hash=hashlib.sha256(plan.text.encode()).hexdigest(),
        created_at=created_at,
        cluster=plan.cluster,
        machine_fingerprint=machine_fingerprint(plan.machine),
        runs=plan.runs,
        where=plan.where,
    )


def open_study(path: Path) -> Folder:
    """Open an existing study.

    Raises:
        UserError: It is none, or has another schema version.
    """
    try:
        content = read_json(path / files.STUDY)
    except (FileNotFoundError, NotADirectoryError):
        inside = sorted(study_file.parent.name for study_file in path.glob(f"*/{files.STUDY}"))
        hint = f"there are studies inside it: {', '.join(inside[-3:])}" if inside else ""
        raise UserError(f"{path} is not a study: it has no {files.STUDY}", hint=hint) from None
    except (OSError, ValueError) as error:
        raise UserError(f"cannot be read: {error}", where=str(path / files.STUDY)) from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if isinstance(version, int):
        require_version(version, str(path / files.STUDY))
    try:
        record = Record.model_validate(content)
    except ValidationError as error:
        raise UserError(first_fault(error), where=str(path / files.STUDY)) from error
    return Folder(path, _with_values(path, record), read_machine(path / files.MACHINE))


def newest(parent: Path, scenario: str | None = None) -> Folder:
    """Open the newest study of a folder, or that of a scenario, to continue it.

    Raises:
        UserError: There is none.
    """
    if studies := studies_of(parent, scenario):
        return studies[-1]
    if scenario is None:
        raise UserError(f"there is no study in {parent}", hint="name one, or its folder with --studies")
    raise UserError(
        f"there is no study of {scenario!r} in {parent} to continue",
        hint="omit --resume to start one, or name its folder with --study",
    )


def studies_of(parent: Path, scenario: str | None = None) -> list[Folder]:
    """Return all studies, or those of a scenario, the newest last; folders that cannot be read are passed over."""
    folders = []
    for path in parent.glob(f"*/{files.STUDY}"):
        try:
            folder = open_study(path.parent)
        except UserError:
            continue
        if scenario in (None, folder.record.scenario):
            folders.append(folder)
    return sorted(folders, key=lambda folder: (folder.record.created_at, folder.path.name))


def wall_times(parent: Path, scenario: str) -> dict[str, float]:
    """Return the median wall time, in seconds, of completed runs by the fingerprint of their arm."""
    times: dict[str, list[float]] = {}
    csv.field_size_limit(_MAX_CELL)
    for folder in studies_of(parent, scenario):
        fingerprints = {run.run_id: run.fingerprint for run in folder.record.runs}
        table = folder.path / files.table("runs")
        if not table.exists():
            continue
        with table.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                is_timed = row.get("status") == Status.COMPLETED and row.get("wall_time_s")
                if is_timed and row["run_id"] in fingerprints:
                    times.setdefault(fingerprints[row["run_id"]], []).append(float(row["wall_time_s"]))
    return {fingerprint: median(seconds) for fingerprint, seconds in times.items()}


def scenario_text(folder: Folder) -> str:
    """Return the scenario file of a study, verbatim.

    Raises:
        UserError: It cannot be read.
    """
    try:
        return read_regular(folder.path / files.SCENARIO).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot be read: {error}", where=str(folder.path / files.SCENARIO)) from error


def scenario_of(folder: Folder, read: Callable[[str, str], Scenario] = parse_kept) -> Scenario:
    """Return the scenario that a study was begun with; `parse` as `read` checks its plugins, too.

    Raises:
        UserError: It cannot be read.
    """
    return read(scenario_text(folder).removeprefix("\ufeff"), f"{folder.record.scenario}.yaml")


def machine_fingerprint(machine: Mapping[str, Any]) -> str:
    """Return a short hash of the hardware and versions of a described machine."""
    content = json.dumps(fingerprint(dict(machine)), sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def write_machine(path: Path, machine: Mapping[str, Any]) -> None:
    """Replace `machine.json`."""
    files.write_text(path / files.MACHINE, json.dumps(machine, indent=2, ensure_ascii=False) + "\n")


def write_record(path: Path, record: Record) -> None:
    """Replace `study.json`; the values of the cluster's variables that it lacks go into a file for the user alone."""
    environment, shown = record.cluster.environment, public_cluster(record.cluster).environment
    hidden = {name: value for name, value in environment.items() if shown[name] != value}
    if hidden:
        files.write_text(path / files.ENVIRONMENT, json.dumps(hidden, ensure_ascii=False) + "\n", is_private=True)
    files.write_text(path / files.STUDY, record_text(record))


def record_text(record: Record) -> str:
    """Return what `study.json` holds, which others may read."""
    shown = record.model_copy(update={"cluster": public_cluster(record.cluster)})
    return shown.model_dump_json(indent=2) + "\n"


def public_cluster(cluster: Cluster) -> Cluster:
    """Return a cluster with digests in place of the values of variables that are not public."""
    shown = {name: public(name, value) for name, value in cluster.environment.items()}
    return cluster.model_copy(update={"environment": shown})


def _with_values(path: Path, record: Record) -> Record:
    """Return a record with the values of variables of which `study.json` has digests, as far as they are there."""
    shown = record.cluster.environment
    if not any(map(is_digest, shown.values())):
        return record
    try:
        hidden = dict(read_json(path / files.ENVIRONMENT))
    except (OSError, ValueError, TypeError):
        return record
    values = {name: value for name, value in hidden.items() if isinstance(value, str)}
    values = {name: value for name, value in values.items() if public(name, value) == shown.get(name)}
    cluster = record.cluster.model_copy(update={"environment": shown | values})
    return record.model_copy(update={"cluster": cluster})
