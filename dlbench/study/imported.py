"""Numbers that were measured elsewhere, as a study that report, compare and recommend read.

Each line of a table is one run: its settings, and what was measured. Nothing of it is dlbench's own measurement, which
its rows say: `stated` names the numbers, and `status` is `completed` where somebody wrote them down.
"""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import dlbench
from dlbench.analysis.answer.doubts import MOST_EFFICIENCY
from dlbench.analysis.arms import COUNTED, IMPORTED, WORKER_RATE
from dlbench.errors import UserError, shown
from dlbench.grouping import by_key
from dlbench.records import files
from dlbench.records.columns import RUNS, SCHEMA_VERSION, names
from dlbench.records.outcome import Status
from dlbench.records.tables import write_table
from dlbench.scenario.metrics import BUILT_IN, RATE, TIME_TO_TARGET, TRAIN_TIME
from dlbench.scenario.scenario import name_from
from dlbench.study.folder import make_folder
from dlbench.study.headings import (
    ACCUMULATED,
    MEASURED,
    NOTHING,
    OTHER,
    REPEAT,
    SHARE,
    STATUS,
    STEP_TIME,
    Heading,
    read_headings,
    status_of,
)
from dlbench.study.table_file import Table, read_table

# What a run has where a table does not say it.
DEFAULTS: dict[str, Any] = {"strategy": "unknown", "model": "unknown"}
_KINDS = {column.name: column.kind for column in RUNS} | {STEP_TIME: "float"}
# The table as it was.
ORIGINAL = "imported.csv"
# 1,234,567.8: any other comma may be a decimal one.
THOUSANDS = re.compile(r"[1-9]\d{0,2}(,\d{3})+(\.\d+)?%?")
_ONE_COMMA = re.compile(r"[1-9]\d{0,2},\d{3} ?%?")
_NUMBER = re.compile(r"[\d.]+")
_MISSED, _DASHES = "not reached", ("-", "\N{EN DASH}", "\N{EM DASH}")
NO_NUMBER = "imported: no number"
# What is assumed where a heading leaves it open.
_ASSUMED = {
    "batch_size": "of each worker; of all together: --column '{}=batch_size_global'",
    "batch_size_global": "of all workers together, beside micro batches; of each: --column '{}=batch_size'",
    "workers": "of all hosts together; of each: --column '{}=workers_per_host'",
    RATE.column: f"of all workers together; of each: --column '{{}}={WORKER_RATE}'",
    "train_time_s": "seconds",
    TIME_TO_TARGET.column: "seconds",
    STEP_TIME: "seconds",
}
# What a rate may count, as words of its heading.
_NOUNS = {
    "images": "im(a)?ge?s?",
    "tokens": "tok(en)?s?",
    "sentences": "sentences?",
    "sequences": "seq(uence)?s?",
    "words": "words?",
}
# 31 years: a time since 1970.
_MOST_S = 1e9
# A run by column.
_Row = Mapping[str, Any]


@dataclass(frozen=True)
class Imported:
    """What was made of a table: the study's folder, its runs and arms, and sentences on what was taken for what."""

    folder: Path
    num_runs: int
    num_arms: int
    remarks: Sequence[str]


def import_table(path: Path, parent: Path, name: str = "", columns: Mapping[str, str] | None = None) -> Imported:
    """Make a study of a CSV file.

    Args:
        path: The file, with a header.
        parent: Folder of studies.
        name: The study's name; default: the file's.
        columns: What columns of the file are, by their names there, where that is not guessed: a name, also with a
            factor (`train_time_s*3600`); an empty one leaves the column out, `+` lets it tell arms apart.

    Raises:
        UserError: The file cannot be read, has no metric, or a cell is none of its kind or has several meanings.
        OSError: The study cannot be written.
    """
    table, columns = read_table(path), columns or {}
    headings = read_headings(table, columns)
    _refuse_gaps(headings, table)
    _refuse_commas(headings, table, columns)
    _drop_counts(headings, table)
    _mark_missed(headings, table)
    study = name_from(name or path.stem)
    moment = datetime.now(UTC)
    every = [*_rows(headings, table, study, moment)]
    measured = {_arm_of(row) for row in every if row["stated"]}
    # Where no line of an arm has a number, it was hardly run; else those without one are repeats that failed.
    is_kept = [row["reason"] != NO_NUMBER or _arm_of(row) in measured for row in every]
    rows = [row for row, kept in zip(every, is_kept, strict=True) if kept]
    if not measured:
        raise UserError("no line has a measurement", where=table.where())
    _refuse_of_each(headings, rows, table.where())
    _doubt_batches(headings, rows, table.where())
    _scope_batches(rows)
    folder = make_folder(parent, f"{study}-{moment:%Y%m%dT%H%M%SZ}")
    extra = tuple(each.column for each in headings if each.column.startswith(OTHER))
    if (noun := _counted(headings)) and COUNTED not in extra:
        extra, rows = (*extra, COUNTED), [row | {COUNTED: noun} for row in rows]
    write_table(folder / files.table("runs"), "runs", rows, extra)
    files.write_text(folder / ORIGINAL, table.text)
    remarks = [*_taken(headings, columns, rows), *_oddities(headings, table, every)]
    if not any(each.column in ("workers", "hosts", "workers_per_host") for each in headings):
        remarks.append("no column says how many workers there were: one is assumed; --column THEIRS=workers names it")
    alone = {row["strategy"] for row in rows if row["workers"] == 1 and row["samples_per_s"]}
    if alone and "single" not in alone and len({row["workers"] for row in rows}) > 1:
        remarks.append("no efficiency: write `single` as the strategy of one worker that uses no library")
    if failed := sum(row["status"] != Status.COMPLETED for row in rows):
        remarks.append(f"runs that failed, or have no number beside repeats that do: {failed}")
    if empty := [number for (number, _), kept in zip(table.lines, is_kept, strict=True) if not kept]:
        remarks.append(f"left out, without a measurement: {', '.join(f'line {number}' for number in empty)}")
    return Imported(folder, len(rows), len({row["label"] for row in rows}), remarks)


def _taken(headings: Sequence[Heading], columns: Mapping[str, str], rows: Sequence[_Row]) -> Iterator[str]:
    """Yield what each column was taken for, with what was assumed, and which columns were left out by default."""
    # Of one worker, or on hosts whose workers are counted, both meanings are the same.
    is_sure = dict.fromkeys(("batch_size", "batch_size_global"), all(row["workers"] == 1 for row in rows)) | {
        "workers": all((row["hosts"] or 1) == 1 for row in rows)
        or any(each.column == "workers_per_host" for each in headings),
    }
    is_sure[RATE.column] = is_sure["batch_size"] or any(each.column == WORKER_RATE for each in headings)
    taken = []
    for each in headings:
        is_open = each.is_bare and not is_sure.get(each.column)
        notes = [f"times {each.factor:.6g}"] * (each.factor != 1)
        if is_open and each.column in _ASSUMED:
            notes.append(_ASSUMED[each.column].format(each.theirs))
        if each.column == "batch_size_global" and all(other.column != "batch_size" for other in headings):
            sizes = sorted({row["batch_size"] for row in rows if row["batch_scope"] == "per-worker"})
            notes += [f"as {' and '.join(map(str, sizes))} of each worker"] * bool(sizes)
        if each.column and not each.column.startswith(OTHER):
            taken.append(f"{each.theirs} as {each.column}" + f" ({', '.join(notes)})" * bool(notes))
    apart = [each.theirs for each in headings if each.column.startswith(OTHER)]
    yield f"taken: {', '.join(taken)}" + f"; apart by: {', '.join(apart)}" * bool(apart)
    left_out = [each.theirs or "(no name)" for each in headings if not each.column and columns.get(each.theirs) != ""]
    if left_out:
        yield f"left out: {', '.join(left_out)}; --column THEIRS=+ lets one tell arms apart"
    # Lines with repeats are no means.
    are_means = len({_arm_of(row) for row in rows}) == len(rows)
    if of_means := [each.theirs for each in headings if each.is_of_means and are_means]:
        yield f"{', '.join(of_means)}: a line that is the mean of several runs is taken for one, without its scatter"
    if any(re.search("price|cost|[$\u20ac\u00a3]", theirs, re.IGNORECASE) for theirs in left_out):
        yield "prices are not read: dlbench recommend --price 2.5USD/worker-hour names one"


def _oddities(headings: Sequence[Heading], table: Table, every: Sequence[_Row]) -> Iterator[str]:
    """Yield what is odd: equal lines that have the number that decides, and columns that make an arm of each line."""
    rows = [row for row in every if row["stated"]]
    metric = next(column for column in BUILT_IN if any(row.get(column) is not None for row in rows))
    decisive = [tuple(cells) for (_, cells), row in zip(table.lines, every, strict=True) if row[metric] is not None]
    if copies := len(decisive) - len({*decisive}):
        equal = "1 line is" if copies == 1 else f"{copies} lines are"
        yield f"{equal} equal to an earlier one: repeats that agree to the digit, or copies?"
    settings = [place for place, each in enumerate(headings) if each.column not in ("", *MEASURED, REPEAT, STATUS)]
    for place in settings:
        each, others = headings[place], [other for other in settings if other != place]
        if not each.is_guessed or not each.column.startswith(OTHER):
            continue
        values = {str(row.get(each.column)) for row in rows}
        alike = by_key((tuple(line[other] for other in others), line[place]) for _, line in table.lines)
        splits = [Counter(cells).values() for cells in alike.values() if len({*cells}) > 1]
        # Settings have as many repeats each.
        is_uneven = any(len({*split}) > 1 for split in splits)
        is_split = is_uneven or (splits and len(values) > len(rows) / 2)
        if len(rows) > 1 and ((is_split and all(map(_NUMBER.fullmatch, values))) or len(values) == len(rows)):
            counted = f"{len(values)} values in {len(rows)} lines"
            yield f"{each.theirs} tells arms apart by {counted}; --column '{each.theirs}=' leaves it out"


def _refuse_gaps(headings: Sequence[Heading], table: Table) -> None:
    """Refuse empty cells of a setting that other lines have: of merged cells only the first holds the value."""
    for heading, cells in zip(headings, table.columns(), strict=True):
        may_be_merged = any(cells) if heading.column in _KINDS else heading.column and cells[0]
        if may_be_merged and heading.column not in (*MEASURED, STATUS) and "" in cells:
            number, line = table.lines[cells.index("")]
            status, reason = _ended([*zip(headings, line, strict=True)])
            ways = f"; --column '{heading.theirs}=' leaves it out"
            # A failed run may lack what others measured; it is not to be deleted.
            if status == Status.COMPLETED or reason == NO_NUMBER:
                ways = f"; `-` where there is none; delete what is no run{ways}"
            hint = "cells that were merged: write it on each line" + ways * (heading.column != "workers")
            raise UserError(f"{heading.theirs} is empty", where=table.where(number), hint=hint)


def _drop_counts(headings: Sequence[Heading], table: Table) -> None:
    """Drop the workers from the names of devices where each begins with its own: `8x V100` of 8 workers is a V100."""
    places = {heading.column: place for place, heading in enumerate(headings)}
    if not {"device_name", "workers"} <= places.keys():
        return
    pairs = [(cells, cells[places["workers"]], cells[places["device_name"]]) for _, cells in table.lines]
    names = [
        re.fullmatch(rf"{re.escape(number)}(?: ?[x\u00d7] ?| )(\D.*?)(?:(?<=[\dA-Z])s)?", name)
        for _, number, name in pairs
    ]
    for (cells, _, _), name in zip(pairs, names, strict=True):
        if name and all(names):
            cells[places["device_name"]] = name[1]


def _mark_missed(headings: Sequence[Heading], table: Table) -> None:
    """Write `not reached` where a run missed its target: also for `-`, where no other column is measured."""
    measured = [place for place, each in enumerate(headings) if each.column in MEASURED]
    words = (_MISSED, "dnf", *_DASHES * (len(measured) == 1))
    for place in measured:
        for _, cells in table.lines:
            if headings[place].column == TIME_TO_TARGET.column and cells[place].lower() in words:
                cells[place] = _MISSED


def _refuse_commas(headings: Sequence[Heading], table: Table, named: Mapping[str, str]) -> None:
    """Refuse commas in numbers that may be decimal, also between commas, and points that may separate thousands."""
    is_quoted = table.delimiter == ","
    # Between quotes, `0,1` of a setting may be a list.
    has_decimal_commas = any(
        re.fullmatch(r"\d+,\d+ ?%?", cell) and not (is_quoted and THOUSANDS.fullmatch(cell))
        for heading, cells in zip(headings, table.columns(), strict=True)
        if not is_quoted or not heading.column or _KINDS.get(heading.column) == "float"
        for cell in cells
    )
    for heading, column in zip(headings, table.columns(), strict=True):
        if _KINDS.get(heading.column) not in ("int", "float"):
            continue
        numbers = [cell for cell in column if re.match(r"[\d.,]+", cell)]
        doubtful = [cell for cell in numbers if "," in cell or ("." in cell and has_decimal_commas and not is_quoted)]
        unit = MEASURED.get(heading.column)
        if is_quoted:
            # 36,000 s are thousands, which no loss has, and hardly a time in hours.
            is_open = has_decimal_commas or heading.factor > 1 or unit not in ("s", "samples/s")
            is_open &= _KINDS[heading.column] == "float" and all(map(_ONE_COMMA.fullmatch, doubtful))
            doubtful = doubtful if is_open else []
        hint = "write a point before decimals, and nothing between thousands, in the whole file"
        may_be_thousands = all(re.fullmatch(r"\d+|[1-9]\d{0,2}(\.\d{3})+", cell) for cell in numbers)
        # Markdown has decimal points; shares and losses have no thousands.
        may_be_thousands &= table.delimiter not in "|," and unit not in (SHARE, "")
        if not doubtful and may_be_thousands and not re.search(r"[*/]", named.get(heading.theirs, "")):
            doubtful = [cell for cell in numbers if not cell.isdecimal()]
            way = f"*{heading.factor:f}" if heading.factor >= 1 else f"/{round(1 / heading.factor)}"
            hint = f"write nothing between thousands; --column '{heading.theirs}={heading.column}{way}' where decimals"
        if doubtful:
            number, _ = table.lines[column.index(doubtful[0])]
            message = f"{heading.theirs} is {shown(doubtful[0])}: are these decimals, or thousands?"
            raise UserError(message, where=table.where(number), hint=hint)


def _refuse_of_each(headings: Sequence[Heading], rows: Sequence[_Row], where: str) -> None:
    """Refuse workers that are no more on more hosts, and rates that four times the workers do not raise: of each?"""
    columns = [each.column for each in headings]
    for column, of_each, per, settings, growth, gain in (
        ("workers", "workers_per_host", "hosts", (), 1, 1.0),
        (RATE.column, WORKER_RATE, "workers", _alike(headings), 3, 1.2),
    ):
        guesses = [each.theirs for each in headings if each.column == column and each.is_guessed and each.is_bare]
        if not guesses or of_each in columns:
            continue
        most = _most_by(per, column, rows, settings)
        wide = next((values for values in most if max(values) > growth * min(values)), None)
        if wide and all(max(values.values()) <= gain * values[min(values)] for values in most):
            few, many = min(wide), max(wide)
            counts = f"{wide[few]:g} on {few} and {wide[many]:g} on {many} {per}"
            ways = f"--column '{guesses[0]}={of_each}' or --column '{guesses[0]}={column}'"
            raise UserError(f"{guesses[0]} is {counts}: of each, or of all together?", where=where, hint=ways)


def _doubt_batches(headings: Sequence[Heading], rows: Sequence[dict[str, Any]], where: str) -> None:
    """Note in runs of unlike workers that their rates, of a time of a step, take a bare batch for that of each worker.

    Raises:
        UserError: It grows as the workers do, or each would be faster beside more: it is probably of all together.
    """
    theirs = next((each.theirs for each in headings if each.column == "batch_size" and each.is_bare), None)
    columns, counts = {each.column for each in headings}, {row["workers"] for row in rows if row["batch_size"]}
    if theirs is None or "batch_size_global" in columns or len(counts) < 2:
        return
    ways = f"--column '{theirs}=batch_size' or --column '{theirs}=batch_size_global'"
    # `single` is what each strategy has with one worker; None stands for all, of which one may be twice as fast.
    strategies = (*dict.fromkeys(row["strategy"] for row in rows), None) if STEP_TIME in columns else ()
    pools = by_key(
        ((strategy, *map(row.get, _alike(headings))), row)
        for strategy in strategies
        for row in rows
        if not strategy or row["strategy"] in (strategy, "single")
    )
    for (strategy, *_), pool in pools.items():
        # Larger batches may be faster: others are compared only where none are equal.
        equal = [each for each in _most_by("workers", WORKER_RATE, pool, ["batch_size"]) if len(each) > 1]
        for rates in equal or _most_by("workers", WORKER_RATE, pool, []):
            few, many = min(rates), max(rates)
            most = MOST_EFFICIENCY if strategy else min(2.0, max(MOST_EFFICIENCY, many / few / 2))
            if rates[many] > most * rates[few]:
                faster = f"each of {many} workers {rates[many] / rates[few]:.3g} times as fast as each of {few}"
                message = f"{theirs} of each worker makes {faster}: of each, or of all together?"
                raise UserError(message, where=where, hint=ways)
    if len({row["batch_size"] / row["workers"] for row in rows if row["batch_size"]}) == 1:
        raise UserError(f"{theirs} grows as the workers do: of each, or of all together?", where=where, hint=ways)
    note = f"rates take {theirs} for that of each worker: import it with {ways}"
    for row in rows if strategies else ():
        row["script_note"] = "; ".join(filter(None, (row["script_note"], note)))


def _most_by(per: str, column: str, rows: Sequence[_Row], settings: Sequence[str]) -> list[dict[int, float]]:
    """Return the greatest value of a column by another one, of runs that are alike in settings."""
    groups = by_key((tuple(map(row.get, settings)), row) for row in rows if row[per] and row[column])
    return [
        {count: max(values) for count, values in by_key((row[per], row[column]) for row in group).items()}
        for group in groups.values()
    ]


def _alike(headings: Sequence[Heading]) -> list[str]:
    """Return the columns in which runs are alike that differ in their workers alone."""
    others = [each.column for each in headings if each.column.startswith(OTHER)]
    return ["model", "dataset", "precision", "device_name", *others]


def _rows(headings: Sequence[Heading], table: Table, study: str, moment: datetime) -> Iterator[dict[str, Any]]:
    """Yield the row of each line; equal settings are repeats of one arm.

    Repeats of two arms are a pair only where the table numbers them: else each line has another number.
    """
    numbered: set[tuple[str, Any]] = set()
    target = _target(headings)
    is_judged = target or any(BUILT_IN.get(each.column, RATE).is_score for each in headings)
    scores = [] if is_judged else [each.theirs for each in headings if each.is_score]
    note = f"no score decides ({', '.join(scores)} of the table: left out): nothing shows that quality is kept"
    for place, (number, cells) in enumerate(table.lines):
        where = table.where(number)
        taken = [(heading, cell) for heading, cell in zip(headings, cells, strict=True) if heading.column]
        status, reason = _ended(taken)
        values = {
            heading.column: _value(heading, cell, where)
            for heading, cell in taken
            if status == Status.COMPLETED or heading.column not in MEASURED
        }
        settings = {column: value for column, value in values.items() if column not in (*MEASURED, REPEAT, STATUS)}
        row = dict.fromkeys(names("runs")) | DEFAULTS | {k: v for k, v in values.items() if v is not None}
        step_time = row.pop(STEP_TIME, None)
        row["learning_rate_base"] = row["learning_rate"]
        row |= target
        row |= _workers(row, where)
        row |= _batches(row, where)
        row |= _rates(row, step_time, where)
        metrics = [column for column in BUILT_IN if row.get(column) is not None]
        label = ", ".join(f"{column.removeprefix(OTHER)}={value}" for column, value in settings.items())
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]
        words = f"{row['model']}-{row['strategy']}-w{row['workers']}-b{row['batch_size']}"
        slug = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:60]
        repeat = values.get(REPEAT)
        if repeat is None:
            repeat = place
        elif (digest, repeat) in numbered:
            theirs = next(heading.theirs for heading, _ in taken if heading.column == REPEAT)
            hint = f"--column '{theirs}=' leaves it out"
            raise UserError(f"is repeat {repeat} of the same settings again", where=where, hint=hint)
        numbered.add((digest, repeat))
        yield row | {
            "study": study,
            "run_id": f"{slug}-{digest}-r{repeat}",
            "attempt": 1,
            "scenario": study,
            "label": label,
            "repeat": repeat,
            "baseline": False,
            "status": status.value,
            "reason": reason,
            "script_note": note if scores else None,
            "started_at": moment.isoformat(timespec="seconds"),
            "schema_version": SCHEMA_VERSION,
            "dlbench_version": dlbench.__version__,
            "phase": "measure",
            "command": IMPORTED,
            "stated": ";".join(metrics) or None,
        }


def _arm_of(row: _Row) -> str:
    return str(row["run_id"]).rpartition("-r")[0]


def _ended(taken: Sequence[tuple[Heading, str]]) -> tuple[Status, str | None]:
    """Return how a line's run ended, with the reason: by its column, else by what it has in place of numbers."""
    word, theirs = next(((cell, heading.theirs) for heading, cell in taken if heading.column == STATUS), ("", ""))
    if status_of(word, theirs) == Status.COMPLETED:
        cells = [cell for heading, cell in taken if heading.column in MEASURED]
        failures = [cell for cell in cells if cell.lower() == "nan" or status_of(cell) not in (None, Status.COMPLETED)]
        if any(cell.lower() not in NOTHING and cell not in failures for cell in cells):
            return Status.COMPLETED, None
        word = next(iter(failures), "")
    return (status_of(word) or Status.FAILED, f"imported: {word}") if word else (Status.FAILED, NO_NUMBER)


def _counted(headings: Sequence[Heading]) -> str:
    rates = " ".join(each.theirs.lower() for each in headings if each.column in (RATE.column, WORKER_RATE))
    words = (noun for noun, word in _NOUNS.items() if re.search(rf"(?<![a-z])[km]?{word}(?![a-z])", rates))
    return next(words, "")


def _target(headings: Sequence[Heading]) -> dict[str, Any]:
    """Return the accuracy that `time to 93%` names; the metric alone of `time to accuracy`.

    Raises:
        UserError: A time to a target names none.
    """
    theirs = next((each.theirs for each in headings if each.column == TIME_TO_TARGET.column), None)
    if theirs is None:
        times = [each.theirs for each in headings if each.column == TRAIN_TIME.column and each.is_guessed]
        is_to_target = any(re.match(r"(training[ _])?time[ _]to", name, re.IGNORECASE) for name in times)
        return {"target_metric": "validation_accuracy"} if is_to_target else {}
    aim = re.search(r"to[\W_]*?(\d*\.?\d+)", theirs, re.IGNORECASE)
    if aim is None:
        hint = f"name the column `time to 93% (s)`, or --column '{theirs}=train_time_s'"
        raise UserError(f"{theirs} names no accuracy", hint=hint)
    value = float(aim[1])
    return {"target_metric": "validation_accuracy", "target_value": value / 100 if value > 1 else value}


def _workers(row: _Row, where: str) -> dict[str, Any]:
    """Return the workers and hosts of a line; `single` is one worker that the table says, or where it says nothing.

    Each host has as many of the workers, where they can be divided so.

    Raises:
        UserError: They contradict each other, or are too few to know the workers.
    """
    workers, hosts, per_host = row["workers"], row["hosts"], row["workers_per_host"]
    product = hosts and per_host and hosts * per_host
    if workers is None and not product and (hosts or per_host):
        counted = f"{hosts} host{'s' * (hosts > 1)}" if hosts else f"{per_host} workers on each host"
        hint = "name a column: --column THEIRS=workers, or THEIRS=workers_per_host beside THEIRS=hosts"
        raise UserError(f"{counted}, and no number of workers", where=where, hint=hint)
    if workers and (workers < (hosts or 1) or workers != (product or workers)):
        counted = f"{workers} workers on {hosts} hosts" + f" of {per_host} each" * bool(per_host)
        hint = "leave one out: --column THEIRS=; if they are of each host: --column THEIRS=workers_per_host"
        raise UserError(f"{counted} cannot be", where=where, hint=hint)
    workers = workers or product or 1
    hosts = hosts or (-(-workers // per_host) if per_host else None)
    is_single = workers == 1 and row["strategy"] == DEFAULTS["strategy"]
    return {
        "workers": workers,
        "processes": workers,
        "hosts": hosts,
        "workers_per_host": per_host or (workers // hosts if hosts and workers % hosts == 0 else None),
        "strategy": "single" if is_single else row["strategy"],
    }


def _batches(row: _Row, where: str) -> dict[str, Any]:
    """Return the batches of all workers and of one.

    Raises:
        UserError: They contradict each other.
    """
    workers, of_one, of_all = row["workers"], row["batch_size"], row["batch_size_global"]
    parts = {"1", *(str(row[column]) for column in row if column.startswith(OTHER) and ACCUMULATED.search(column))}
    if of_one and of_all and of_all not in [of_one * workers * int(part) for part in parts if part.isdecimal()]:
        message = f"{workers} workers of a batch of {of_one} have {of_one * workers} together, not {of_all}"
        raise UserError(message, where=where, hint="leave one out: --column THEIRS=")
    of_all = of_all or (of_one and of_one * workers)
    scope = "global" if of_all and not of_one else "per-worker"
    return {
        "batch_size": of_one or of_all,
        "batch_size_global": of_all,
        "batch_size_per_worker": of_all and of_all / workers,
        "batch_scope": scope if of_all else None,
    }


def _scope_batches(rows: Sequence[dict[str, Any]]) -> None:
    """Make global batches that grow as the workers do, on all lines of a model, ones of each worker."""
    for alike in by_key(((row["model"], row["dataset"]), row) for row in rows).values():
        sizes = {row["batch_size_per_worker"] if row["batch_scope"] == "global" else None for row in alike}
        size = sizes.pop()
        if size and not sizes and size == round(size) and len({row["batch_size_global"] for row in alike}) > 1:
            for row in alike:
                row |= {"batch_scope": "per-worker", "batch_size": round(size)}


def _rates(row: _Row, step_time: float | None, where: str) -> dict[str, Any]:
    """Return the rates of all workers and of one, from either, or from the batch and the time of its step.

    Raises:
        UserError: They contradict each other, or there is a time of a step, and no batch.
    """
    workers, rate, of_one = row["workers"], row["samples_per_s"], row[WORKER_RATE]
    if rate is not None and of_one is not None and not math.isclose(rate, of_one * workers, rel_tol=0.02):
        message = f"{workers} workers at {of_one:g}/s each have {of_one * workers:g}/s together, not {rate:g}/s"
        raise UserError(message, where=where, hint="leave one out: --column THEIRS=")
    if rate is None and of_one is not None:
        rate = of_one * workers
    if rate is None and step_time:
        if not row["batch_size_global"]:
            hint = "name a column: --column THEIRS=batch_size (of each worker), or THEIRS=batch_size_global"
            raise UserError("the time of a step says nothing without its batch", where=where, hint=hint)
        rate = row["batch_size_global"] / step_time
    return {"samples_per_s": rate, WORKER_RATE: None if rate is None else rate / workers}


def _value(heading: Heading, text: str, where: str) -> Any:
    """Return a cell as its column has it; None of an empty one.

    Raises:
        UserError: It is none of the column's kind.
    """
    column, kind = heading.column, _KINDS.get(heading.column, "text")
    metric = BUILT_IN.get(column)
    if text.lower() == "nan" and metric is not None and metric.is_score:
        hint = "where the run diverged: `diverged` in place of all its numbers or in a column `status`; else `-`"
        raise UserError(f"{heading.theirs} is {text}", where=where, hint=hint)
    if text.lower() in NOTHING or (column, text) == (TIME_TO_TARGET.column, _MISSED):
        if column == "workers":
            raise UserError(f"{heading.theirs} is empty", where=where, hint="write how many workers there were")
        return None
    if kind not in ("int", "float"):
        return text
    try:
        plain = text.replace(",", "") if THOUSANDS.fullmatch(text) else text
        is_percent = text.endswith("%") and MEASURED.get(column) == SHARE
        factor = Decimal("0.01") if is_percent else heading.factor
        number = float(Decimal(plain.removesuffix("%" * is_percent).strip()) * factor)
    except ArithmeticError:
        raise UserError(f"{column} is a number, not {shown(text)}", where=where, hint=_way(column, text)) from None
    is_loss = metric is not None and metric.is_score and math.isinf(metric.most)
    least, most = -math.inf if is_loss else 0.0, metric.most if metric else math.inf
    most = _MOST_S if MEASURED.get(column) == "s" else most
    if not math.isfinite(number) or not least <= number <= most or (column == "workers" and number < 1):
        hint = f"write shares as 0.93 or 93%, or --column '{heading.theirs}={column}/100'" if most == 1 else ""
        hint = "write how long it took, not when it was" if number > most == _MOST_S else hint
        raise UserError(f"{column} cannot be {shown(text)}", where=where, hint=hint)
    if number == 0 and MEASURED.get(column) in ("s", "samples/s"):
        raise UserError(f"{column} cannot be {shown(text)}", where=where, hint="`-` where it did not run")
    if kind == "int":
        if number != round(number):
            raise UserError(f"{column} is a whole number, not {shown(text)}", where=where)
        return round(number)
    return number


def _way(column: str, text: str) -> str:
    """Return how to write what is no number."""
    if MEASURED.get(column) == "s" and re.search(r"\d ?[:a-z]", text):
        return "write a time as one number: 5400 for 1:30:00 or 1h 30m; --column THEIRS=train_time_s*3600 for hours"
    return "a point separates decimals" if "," in text else "a number alone, or `-` where there is none"
