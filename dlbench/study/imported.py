"""Numbers that were measured elsewhere, as a study that report, compare and recommend read.

Each line of a table is one run: its settings, and what was measured. Nothing of it is dlbench's own measurement, which
its rows say: `stated` names the numbers, and `status` is `completed` because somebody wrote them down.
"""

import csv
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dlbench
from dlbench.analysis.arms import IMPORTED
from dlbench.errors import UserError, nearest, shown
from dlbench.records import files
from dlbench.records.columns import RUNS, SCHEMA_VERSION, names
from dlbench.records.tables import write_table
from dlbench.regular_file import read_regular
from dlbench.scenario.metrics import BUILT_IN
from dlbench.scenario.scenario import name_from

MOST_BYTES = 2**26
# What tables call columns of `runs.csv`: in lower case, with every other character left out.
NAMES = {
    "workers": ("workers", "numworkers", "gpus", "numgpus", "ngpus", "worldsize", "np", "processes", "devices"),
    "hosts": ("hosts", "nodes", "numnodes", "nnodes", "numhosts"),
    "workers_per_host": ("workersperhost", "gpuspernode", "gpusperhost", "workerspernode", "nprocpernode"),
    "batch_size": ("batchsize", "batch", "batchpergpu", "batchsizepergpu", "localbatch", "perdevicebatchsize"),
    "batch_size_global": ("globalbatchsize", "globalbatch", "totalbatch", "totalbatchsize", "batchsizeglobal"),
    "strategy": ("strategy", "method", "sync", "synchronisation", "synchronization", "backendstrategy"),
    "model": ("model", "network", "architecture"),
    "dataset": ("dataset", "data"),
    "precision": ("precision", "dtype"),
    "device_name": ("devicename", "hw", "hardware", "gpu", "device", "machine", "accelerator"),
    "repeat": ("repeat", "trial", "repetition", "seed"),
    "samples_per_s": ("samplespers", "throughput", "imagespersec", "imagespers", "imgpers", "imgs", "imgsec", "rate"),
    "mfu": ("mfu", "modelflopsutilization", "modelfloputilization"),
    "train_time_s": ("traintimes", "trainingtime", "trainingtimes", "time", "times", "seconds", "runtime"),
    "validation_accuracy": ("validationaccuracy", "accuracy", "valaccuracy", "valacc", "testaccuracy", "top1"),
    "validation_loss": ("validationloss", "valloss", "testloss"),
    "train_loss": ("trainloss", "loss"),
    "epochs": ("epochs", "numepochs"),
    "learning_rate": ("learningrate", "lr"),
}  # fmt: skip
_BY_NAME = {name: column for column, theirs in NAMES.items() for name in theirs}
# What a run has where a table does not say it.
DEFAULTS: dict[str, Any] = {"workers": 1, "strategy": "unknown", "model": "unknown"}
_KINDS = {column.name: column.kind for column in RUNS}
# The table as it was.
ORIGINAL = "imported.csv"
# Begins the columns that are none of dlbench's: what they hold tells arms apart.
OTHER = f"{IMPORTED}."
# 1,234,567.8: any other comma may be a decimal one.
THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?%?")
# What only tells repeats apart.
_REPEAT = "repeat"


@dataclass(frozen=True)
class Imported:
    """What was made of a table: the study's folder, its runs and arms, and which column was taken for what."""

    folder: Path
    num_runs: int
    num_arms: int
    taken: Mapping[str, str]


def import_table(path: Path, parent: Path, name: str = "", columns: Mapping[str, str] | None = None) -> Imported:
    """Make a study of a CSV file.

    Args:
        path: The file, with a header.
        parent: Folder of studies.
        name: The study's name; default: the file's.
        columns: What columns of the file are, by their names there, where that is not guessed; an empty name leaves one
            out.

    Raises:
        UserError: The file cannot be read, has no metric, or a cell is none of its kind.
        OSError: The study cannot be written.
    """
    header, lines = _read(path)
    taken = _taken(header, columns or {}, str(path))
    metrics = [column for column in taken.values() if column in BUILT_IN]
    if not metrics:
        hint = f"name one: --column THEIRS=OURS, OURS of {', '.join(name for name in NAMES if name in BUILT_IN)}"
        raise UserError(f"no column is a measurement: {', '.join(header)}", where=str(path), hint=hint)
    study = name_from(name or path.stem)
    moment = datetime.now(UTC)
    rows = list(_rows(path, header, lines, taken, study, moment))
    folder = parent / f"{study}-{moment:%Y%m%dT%H%M%SZ}"
    folder.mkdir(parents=True)
    extra = tuple(column for column in taken.values() if column.startswith(OTHER))
    write_table(folder / files.table("runs"), "runs", rows, extra)
    files.write_text(folder / ORIGINAL, path.read_text(encoding="utf-8-sig"))
    return Imported(folder, len(rows), len({row["label"] for row in rows}), taken)


def _read(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the header, and each line's number and cells."""
    try:
        text = read_regular(path, MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise UserError("is no text in UTF-8", where=str(path)) from error
    first = text.partition("\n")[0]
    reader = csv.reader(text.splitlines(), delimiter=max(",;\t", key=first.count))
    lines = [(reader.line_num, cells) for cells in reader if any(map(str.strip, cells))]
    if len(lines) < 2:
        raise UserError("holds no rows: a header, and a line for each run", where=str(path))
    header = [cell.strip() for cell in lines[0][1]]
    if repeated := [name for name, count in Counter(header).items() if count > 1]:
        raise UserError(f"the column {shown(repeated[0])} is there twice", where=f"{path}:1")
    return header, lines[1:]


def _taken(header: Sequence[str], named: Mapping[str, str], where: str) -> dict[str, str]:
    """Return the column of `runs.csv` for each column of the file; what is no known one tells arms apart."""
    if unknown := next((name for name in named if name not in header), None):
        raise UserError(f"there is no column {shown(unknown)}", where=where, hint=nearest(unknown, header))
    taken: dict[str, str] = {}
    for name in header:
        column = named.get(name, _BY_NAME.get(re.sub(r"[^a-z0-9]", "", name.lower()), ""))
        if name in named and column and column not in NAMES:
            hint = nearest(column, NAMES) or f"there are: {', '.join(NAMES)}"
            raise UserError(f"--column {name}={column}: there is no column {shown(column)}", hint=hint)
        if name in named and not column:
            continue
        if column and column in taken.values():
            other = next(name for name, it in taken.items() if it == column)
            hint = f"say which: --column {other}= or --column {name}="
            raise UserError(f"{other} and {name} are both taken for {column}", where=where, hint=hint)
        word = re.sub(r"\W+", "_", name).strip("_")
        taken[name] = column or f"{OTHER}{word or 'column'}"
    # Names that differ in signs alone stay apart.
    columns = Counter(taken.values())
    return {name: f"{c}_{header.index(name)}" if columns[c] > 1 else c for name, c in taken.items()}


def _rows(
    path: Path, header: Sequence[str], lines: Sequence[tuple[int, list[str]]], taken: Mapping[str, str], study: str,
    moment: datetime,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Yield the row of each line; equal settings are repeats of one arm.

    Repeats of two arms are a pair only where the table numbers them: else each line has another number.
    """
    numbered: set[tuple[str, Any]] = set()
    for place, (number, cells) in enumerate(lines):
        where = f"{path}:{number}"
        if len(cells) != len(header):
            raise UserError(f"has {len(cells)} cells, and the header {len(header)}", where=where)
        values = {
            taken[name]: _value(taken[name], cell.strip(), where)
            for name, cell in zip(header, cells, strict=True)
            if name in taken
        }
        metrics = {column: value for column, value in values.items() if column in BUILT_IN and value is not None}
        settings = {column: value for column, value in values.items() if column not in BUILT_IN and column != _REPEAT}
        row = dict.fromkeys(names("runs")) | DEFAULTS | {k: v for k, v in settings.items() if v is not None} | metrics
        if row["strategy"] == DEFAULTS["strategy"] and row["workers"] == 1:
            row["strategy"] = "single"
        row |= _derived(row)
        label = ", ".join(f"{column.removeprefix(OTHER)}={value}" for column, value in settings.items())
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]
        words = f"{row['model']}-{row['strategy']}-w{row['workers']}-b{row['batch_size']}"
        slug = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:60]
        repeat = values.get(_REPEAT)
        if repeat is None:
            repeat = place
        elif (digest, repeat) in numbered:
            raise UserError(f"is repeat {repeat} of the same settings again", where=where)
        numbered.add((digest, repeat))
        yield row | {
            "study": study,
            "run_id": f"{slug}-{digest}-r{repeat}",
            "attempt": 1,
            "scenario": study,
            "label": label,
            "repeat": repeat,
            "baseline": False,
            "status": "completed",
            "started_at": moment.isoformat(timespec="seconds"),
            "schema_version": SCHEMA_VERSION,
            "dlbench_version": dlbench.__version__,
            "phase": "measure",
            "command": IMPORTED,
            "stated": ";".join(metrics) or None,
        }


def _derived(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what follows from others: batches of all workers and of one, hosts, rates of one worker."""
    workers = row["workers"]
    whole = row["batch_size_global"] or (row["batch_size"] and row["batch_size"] * workers)
    rate, per_host = row["samples_per_s"], row["workers_per_host"]
    return {
        "batch_size": row["batch_size_global"] or row["batch_size"],
        "batch_size_global": whole,
        "batch_size_per_worker": whole and whole / workers,
        "batch_scope": "global" if row["batch_size_global"] else "per-worker",
        "processes": workers,
        "hosts": row["hosts"] or (-(-workers // per_host) if per_host else None),
        "samples_per_s_per_worker": None if rate is None else rate / workers,
        "learning_rate_base": row["learning_rate"],
    }


def _value(column: str, text: str, where: str) -> Any:
    """Return a cell as its column has it; None of an empty one.

    Raises:
        UserError: It is none of the column's kind.
    """
    if text.lower() in ("", "na", "n/a", "nan", "none", "null", "-"):
        return None
    kind = _KINDS.get(column, "text")
    if kind not in ("int", "float"):
        return text
    try:
        plain = text.replace(",", "") if THOUSANDS.fullmatch(text) else text
        number = float(plain.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        hint = "a point separates decimals" if "," in text else ""
        raise UserError(f"{column} is a number, not {shown(text)}", where=where, hint=hint) from None
    metric = BUILT_IN.get(column)
    is_loss = metric is not None and metric.is_score and math.isinf(metric.most)
    least, most = -math.inf if is_loss else 0.0, metric.most if metric else math.inf
    if not math.isfinite(number) or not least <= number <= most or (column == "workers" and number < 1):
        hint = "write shares as 0.93 or 93%" if most == 1 else ""
        raise UserError(f"{column} cannot be {shown(text)}", where=where, hint=hint)
    if kind == "int":
        if number != round(number):
            raise UserError(f"{column} is a whole number, not {shown(text)}", where=where)
        return round(number)
    return number
