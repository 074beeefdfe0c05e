"""The folder of a study: create one, open one, find the newest; refuse to continue what would not be the same study."""

import difflib
import errno
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import dlbench
from dlbench.errors import UserError
from dlbench.records import files
from dlbench.records.columns import SCHEMA_VERSION
from dlbench.scenario.run_spec import RunSpec

DEFAULT_PARENT = Path("studies")
# A file name holds at most 255 bytes; the start time and a counter follow the scenario's name.
MAX_NAME_BYTES = 200
MAX_DIFFERENCES = 8


class Record(BaseModel):
    """`study.json`: what the study is. Written once, last of all, so a folder without it is no study.

    Attributes:
        schema_version: Version of the columns.
        dlbench_version: Version that began the study.
        scenario: Name of the scenario.
        scenario_hash: Hash of `scenario.yaml` as it was.
        created_at: UTC, ISO 8601.
        only: What `--only` kept of the scenario's runs.
        cluster: Where it runs.
        machine_fingerprint: Short hash of the hardware it began on.
        runs: Every run, resolved, in order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    dlbench_version: str = dlbench.__version__
    scenario: str
    scenario_hash: str
    created_at: str
    only: tuple[str, ...] = ()
    cluster: dict[str, Any] = Field(default_factory=dict)
    machine_fingerprint: str = ""
    runs: tuple[RunSpec, ...]


@dataclass(frozen=True)
class Folder:
    """A study on disk: its path, its record and the machine it began on."""

    path: Path
    record: Record
    machine: Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """What is to be measured where: all that a study is made from.

    Attributes:
        scenario: Name of the scenario.
        text: The scenario file, verbatim.
        runs: Its runs, resolved, in order.
        cluster: Where they run, as JSON-able values.
        machine: What `dlbench.records.machine.describe` says of this machine.
        only: What `--only` kept.
    """

    scenario: str
    text: str
    runs: tuple[RunSpec, ...]
    cluster: Mapping[str, Any]
    machine: Mapping[str, Any]
    only: tuple[str, ...] = ()


def create(parent: Path, question: Question, now: datetime | None = None) -> Folder:
    """Make the folder `<parent>/<scenario>-<UTC time>` of a new study.

    Raises:
        UserError: There is no run, or the folder cannot be made.
    """
    if not question.runs:
        raise UserError("the scenario has no runs", hint="look at `exclude` and --only: together they leave nothing")
    moment = now or datetime.now(UTC)
    record = Record(
        scenario=question.scenario,
        scenario_hash=text_hash(question.text),
        created_at=moment.isoformat(timespec="seconds"),
        only=question.only,
        cluster=dict(question.cluster),
        machine_fingerprint=machine_fingerprint(question.machine),
        runs=question.runs,
    )
    path = _make(parent, f"{safe_name(question.scenario)}-{moment:%Y%m%dT%H%M%SZ}")
    files.write_text(path / files.SCENARIO, question.text)
    files.write_text(path / files.MACHINE, json.dumps(question.machine, indent=2, ensure_ascii=False) + "\n")
    files.write_text(path / files.STUDY, record.model_dump_json(indent=2) + "\n")
    return Folder(path, record, question.machine)


def open_study(path: Path) -> Folder:
    """Open an existing study.

    Raises:
        UserError: It is none, or a newer dlbench wrote it.
    """
    try:
        content = json.loads((path / files.STUDY).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path} is no study: it has no {files.STUDY}", hint=_studies_near(path)) from None
    except (OSError, ValueError) as error:
        raise UserError(f"cannot be read: {error}", where=str(path / files.STUDY)) from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise UserError(
            f"the study has schema version {version}; this dlbench knows {SCHEMA_VERSION}",
            where=str(path / files.STUDY),
            hint="use the dlbench that wrote it, or a newer one",
        )
    try:
        record = Record.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UserError(f"{place}: {first['msg']}", where=str(path / files.STUDY)) from error
    return Folder(path, record, _machine(path))


def newest(parent: Path, scenario: str) -> Folder:
    """Open the newest study of a scenario.

    Raises:
        UserError: There is none.
    """
    found = studies_of(parent, scenario)
    if not found:
        raise UserError(
            f"there is no study of {scenario!r} in {parent} to continue",
            hint="leave --resume away to start one, or name its folder with --study",
        )
    return found[-1]


def studies_of(parent: Path, scenario: str) -> list[Folder]:
    """Return all studies of a scenario, the newest last; folders that cannot be read are passed over."""
    found = []
    for path in parent.glob(f"*/{files.STUDY}"):
        try:
            folder = open_study(path.parent)
        except UserError:
            continue
        if folder.record.scenario == scenario:
            found.append(folder)
    return sorted(found, key=lambda folder: (folder.record.created_at, folder.path.name))


def must_be_the_same(folder: Folder, question: Question) -> None:
    """Refuse to continue a study with another scenario or on other hardware.

    A change that leaves every run as it was, such as a comment, is no change.

    Raises:
        UserError: It says what differs.
    """
    differences = _edited(folder, question) + _moved(folder, question)
    if differences:
        shown = differences[:MAX_DIFFERENCES]
        more = [f"... and {len(differences) - len(shown)} more"] if len(differences) > len(shown) else []
        raise UserError(
            "\n  ".join([f"{folder.path} cannot be continued: it would not be the same study", *shown, *more]),
            hint="start a new study (without --resume and --study), or bring back what it began with",
        )


def machine_fingerprint(machine: Mapping[str, Any]) -> str:
    """Return a short hash of the hardware that a description of a machine names."""
    content = json.dumps(hardware(machine), sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def hardware(machine: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a machine's description is hardware: what changes a measurement and stays from day to day."""
    found = machine.get("hardware")
    return dict(found) if isinstance(found, Mapping) else {}


def text_hash(text: str) -> str:
    """Return the hash of a scenario file's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def safe_name(scenario: str) -> str:
    """Return a scenario's name as one part of a path, however odd it is; letters of all languages stay."""
    name = re.sub(r"[/\\\x00-\x1f\x7f]+", "-", scenario).strip().lstrip(".")
    return name.encode()[:MAX_NAME_BYTES].decode(errors="ignore") or "study"


def _make(parent: Path, name: str) -> Path:
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return _make_unused(parent, name)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise UserError(
            f"no study can be made in {parent}: {error.strerror}", hint="choose another --output"
        ) from error


def _make_unused(parent: Path, name: str) -> Path:
    for number in range(1, 1000):
        path = parent / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise UserError(f"{parent / name} and 998 more of that name exist")


def _machine(path: Path) -> dict[str, Any]:
    try:
        content = json.loads((path / files.MACHINE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _studies_near(path: Path) -> str:
    inside = sorted(found.parent.name for found in path.glob(f"*/{files.STUDY}"))
    return f"there are studies inside it: {', '.join(inside[-3:])}" if inside else ""


def _edited(folder: Folder, question: Question) -> list[str]:
    """Return what differs between the study's runs and the scenario's, as lines of the two files where they do."""
    before, after = folder.record.runs, question.runs
    if before == after:
        return []
    old_text = (folder.path / files.SCENARIO).read_text(encoding="utf-8")
    lines = [
        line
        for line in difflib.unified_diff(old_text.splitlines(), question.text.splitlines(), lineterm="", n=0)
        if not line.startswith(("---", "+++", "@@"))
    ]
    return ["the scenario was edited (- the study's, + now):", *lines] if lines else _run_differences(before, after)


def _run_differences(before: Sequence[RunSpec], after: Sequence[RunSpec]) -> list[str]:
    """Say how runs of the same scenario text differ: by --only, a plugin's default, or the machine's cores."""
    if len(before) != len(after):
        return [f"runs: {len(before)} in the study, {len(after)} now; give the same --only and --repeats"]
    for old, new in zip(before, after, strict=True):
        differences = _dict_differences(old.model_dump(mode="json"), new.model_dump(mode="json"))
        if differences:
            return [f"run {old.label or old.run_id!r} (study -> now):", *differences]
    return []


def _moved(folder: Folder, question: Question) -> list[str]:
    cluster = _dict_differences({"cluster": folder.record.cluster}, {"cluster": dict(question.cluster)})
    if folder.record.machine_fingerprint == machine_fingerprint(question.machine):
        return cluster
    return [
        *cluster,
        *_dict_differences({"hardware": hardware(folder.machine)}, {"hardware": hardware(question.machine)}),
    ]


def _dict_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    old, new = dict(_flat(before)), dict(_flat(after))
    return [
        f"{name}: {old.get(name, 'absent')} -> {new.get(name, 'absent')}"
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]


def _flat(value: Any, name: str = "") -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{name}.{key}" if name else str(key))
    else:
        yield name, json.loads(json.dumps(value, default=str))
