"""What a script prints or writes, as values of metrics."""

import csv
import json
import math
import os
import re
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dlbench.errors import STEERING, shorten, shown
from dlbench.records.assignment import Assignment
from dlbench.records.files import own_log, worker_log
from dlbench.regular_file import read_regular
from dlbench.scenario.check.scripts import chooses_workers, lacks_devices, unconnected
from dlbench.scenario.metrics import RATE, TIME_TO_TARGET, TRAIN_TIME, Metric, MetricDeclaration, around_group
from dlbench.scenario.plugin_settings import needs_of
from dlbench.scenario.run_spec import RunSpec
from dlbench.telemetry.line_check import LONGEST_TEXT, ROUNDING
from dlbench.worker.script.command import filled
from dlbench.worker.script.command import values as settings_of

# Of what was printed the end counts, which holds the last match; files are read whole.
MOST_LOG_BYTES, MOST_FILE_BYTES = 2**26, 2**28
# What shows, between what was printed before a group and the group, that it begins within a number or after its sign;
# `3,0.5` are two numbers.
_BEGAN = re.compile(
    r"(\d[\d.,_'\u2019]*(?<!,)|\d,(?!\0(?:\d\d?|\d{4,})\.)|\d[eE][-+]?|(?<![^\s:=(\[,;|>\"])[-\u2212])\0[\d.]"
)
# What shows that a number did not end where a match did: more of it, or a factor.
_GOES_ON = re.compile(r"[.,_'\u2019\u00a0\u202f]?\d[\d.,_'\u2019]*|[eE][-+]?\d+|(?::\d\d)+(?:\.\d+)?")
_FACTOR = r" ?([kKMG](?=\b|im|sam|tok|ex|seq)|(?:{})(?![^\W\d]|\s*[=:]))"
_LONGEST_NAME = 100
# Times that are rounded to other digits differ by no more.
_LEAST_GROWTH = 0.99
_CLOCK = re.compile(r"(?:(\d+) days?, )?(?:(\d+):)?(\d+):(\d\d(?:\.\d*)?)")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d*)?")
_NO_NUMBER = re.compile(r"(?<!\w)[-+]?(?:nan|inf(?:inity)?)\b", re.IGNORECASE)
# What an expression may begin with: from each place of a line it takes time of its square. A greedy one matches the
# same from the line's start, and without a lazy one the last match is the same.
_GREEDY, _LAZY = re.compile(r"\A\^?\.\*(?![?+])"), re.compile(r"\A\.\*\?")
# A value in any form; a rate may turn into its inverse, or have another unit of time.
_ANY_FORM = (
    r"(?<![\d.])(?:[-+\u2212]?\.?\d[\d.,:_'\u2019]{0,40}(?:[eE][-+]?\d+)?(?:[ ]?[kKMG])?"
    r"|[\w.]{1,20}\([-+\d.][^)\n]{0,40}\)|[-+]?(?i:nan|inf(?:inity)?)\b)"
)
# What stands before a group that may follow anything: a whole number there may be any.
_AFTER_ANYTHING = re.compile(r"(?:\.|\\[DSW]|\])[*+]\??\($|^\($")
_SECONDS = r"[mnu\u00b5]?s(?:ec)?"
_PER_TIME = re.compile(rf"^(\)(?:(?:[ ]|\\s)[*+?]?)?)(?:{_SECONDS}/(\w+)|(\w+)/{_SECONDS}\b)")
# In place of what was dropped of a long log (`dlbench.launch.logs`).
DROPPED = "[dlbench: about "


# What a file is known by: when it was last written, its size and its number; and a checksum of what it holds.
Stamps = Mapping[str, tuple[tuple[int, int, int], int] | None]


def metrics_of(assignment: Assignment) -> dict[str, MetricDeclaration]:
    """Return the metrics of a run for one start of its script: names of files filled in."""
    settings, metrics = settings_of(assignment.run, assignment.attempt_id), assignment.run.metrics
    return {name: it.model_copy(update={"file": filled(it.file, settings)}) for name, it in metrics.items()}


def stamps(metrics: Mapping[str, MetricDeclaration]) -> Stamps:
    """Return what is known of the files of metrics now: one that does not change is not the run's own."""
    return {declaration.file: _stamp(Path(declaration.file)) for declaration in metrics.values() if declaration.file}


def taken_here(
    assignment: Assignment, metrics: Mapping[str, MetricDeclaration], before: Stamps, longest_s: float = math.inf
) -> tuple[dict[str, float], dict[str, str]]:
    """Return what worker 0's script has printed and written by now, and the columns that say so; notes are printed.

    Rates are those of all workers.
    """
    values, notes = taken(metrics, _log(assignment, 0), before, longest_s)
    workers = assignment.run.settings.workers
    values = {name: value * (workers if metrics[name].of == "worker" else 1) for name, value in values.items()}
    for note in notes:
        sys.stderr.write(f"dlbench: {note}\n")
    stated = {"stated": ";".join(values), "stated_note": "; ".join(notes)[:LONGEST_TEXT]}
    return values, {column: text for column, text in stated.items() if text}


def note_of_other(assignment: Assignment, rank: int) -> dict[str, str]:
    """Return the column that says so where another worker than 0 has printed a rate: it may be each one's own."""
    rates = {name: it for name, it in assignment.run.metrics.items() if name == RATE.column and it.output and not it.of}
    if not taken(rates, _log(assignment, rank), {})[0]:
        return {}
    return {"script_note": f"worker {rank} printed {RATE.column}: what worker 0 prints counts alone, as that of all"}


def note_of_workers(run: RunSpec, *, is_unconnected: bool = False) -> str:
    """Return what to say of a script whose workers are not counted, as replicas in one process, or do not connect.

    Args:
        run: The script's.
        is_unconnected: Whether worker 0 was seen to be connected to nothing.
    """
    settings = run.settings
    if settings.workers_inside and chooses_workers(settings.command or ""):
        return f"the command has no {{workers}}: that it started {settings.workers} is the scenario's word alone"
    if settings.workers == 1:
        return ""
    if not needs_of(settings.strategy).one_process:
        command = "" if settings.workers_inside else settings.command or ""
        if alone := unconnected(command):
            return f"nothing in {alone} connects its workers: each trained alone"
        if is_unconnected:
            return "worker 0 was connected to no other process: each worker may have trained alone"
        unsure = lacks_devices(command)
        return f"{unsure} gives Lightning no `devices`, or one: each worker may have trained alone" if unsure else ""
    return f"the script's replicas were not counted: that they are {settings.workers} is the scenario's word alone"


def _log(assignment: Assignment, rank: int) -> Path:
    """Return the file that holds what a worker has printed, as this host has it."""
    name = worker_log(rank)
    logs = (Path(assignment.log_folder) / name, own_log(assignment.attempt_id, name))
    return next((path for path in logs if path is not None and path.is_file()), Path(os.devnull))


def taken(
    metrics: Mapping[str, MetricDeclaration], log: Path, before: Stamps, longest_s: float = math.inf
) -> tuple[dict[str, float], list[str]]:
    """Return the value of each metric that is taken from a script, and why there is none of others.

    Args:
        metrics: The run's, by name.
        log: What the script has printed.
        before: The files as they were before the script was started.
        longest_s: How long it ran: it has not trained for longer.
    """
    values, notes = {}, []
    for name, declaration in metrics.items():
        if not declaration.is_taken:
            continue
        try:
            metric = declaration.metric(name)
            stated = _printed(declaration, metric, log) if declaration.output else _written(declaration, before)
            if metric in (TRAIN_TIME, TIME_TO_TARGET):
                _require_growth(stated, longest_s / declaration.factor)
            values[name] = _checked(stated[-1], metric, declaration.factor, longest_s)
        except (ValueError, RecursionError, csv.Error, re.error) as error:
            notes.append(f"{name}: {error}")
    return values, notes


def _printed(declaration: MetricDeclaration, metric: Metric, log: Path) -> Sequence[Any]:
    """Return all matches of what was printed.

    Raises:
        ValueError: There is none.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - MOST_LOG_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        raise ValueError(f"what was printed cannot be read: {error.strerror}") from error
    text = STEERING.sub("", text).replace("\r", "\n")
    # A bar that is drawn again and again has no line ends.
    match = _last(declaration.output, text)
    # A later line that matches but for a `nan` is the last, and so is one that matches but for the form of its value.
    end = match.end() if match else 0
    plain = text[:end] + _NO_NUMBER.sub(lambda word: "0.".ljust(len(word[0]), "0"), text[end:])
    match = _last(declaration.output, plain, end) or match
    before, after = around_group(declaration.output)
    other = _last(_in_any_form(before, after), plain, match.end() if match else 0)
    if other and not (other[1].rstrip(".,:").isdigit() and _AFTER_ANYTHING.search(before)):
        start, end = other.span(1)
        value = text[start:end].rstrip(".,:") + re.split(r"[^\w/]", text[end : other.end()], maxsplit=1)[0]
        raise ValueError(f"the last value that was printed is {value!r}, which {declaration.output!r} does not match")
    if match is None:
        raise ValueError(f"nothing that was printed matches {declaration.output!r}")
    start, end = match.span(1)
    if text[start:end] != plain[start:end]:
        raise ValueError(f"the last value that was printed is {text[start:end]!r}")
    if part := _part(text, match, metric, declaration.times) or _several_names(text, match):
        raise ValueError(part)
    if DROPPED in text[end:]:
        raise ValueError(f"a part of the log was dropped after the last match of {declaration.output!r}")
    return [*(it[1] for it in match.re.finditer(text, 0, start) if it[1]), text[start:end]]


def _require_growth(values: Sequence[Any], longest: float) -> None:
    """Refuse values of a time since training began that fall, and together are no longer than the script ran.

    What several workers state is longer together, and what is rounded otherwise falls by little.

    Raises:
        ValueError: It is a time of something else, such as each epoch's.
    """
    times = []
    for value in values:
        with suppress(ValueError):
            times.append(_number(value, TRAIN_TIME))
    if times and times[-1] < _LEAST_GROWTH * max(times) and sum(times) <= longest:
        raise ValueError(f"it was stated {len(times)} times, not growing: is it that of an epoch?")


def _last(expression: str, text: str, start: int = 0) -> re.Match[str] | None:
    """Return the last match that has a value."""
    last, expression = None, _LAZY.sub("", _GREEDY.sub("^.*", expression))
    for match in re.compile(expression, re.MULTILINE).finditer(text, start):
        last = last if match[1] is None else match
    return last


def _in_any_form(before: str, after: str) -> str:
    """Return an expression of what stands before and after a group, whose group matches any value."""
    after = _PER_TIME.sub(lambda it: f"{it[1]}(?:{_SECONDS}/{it[2] or it[3]}|{it[2] or it[3]}/{_SECONDS})", after)
    return f"{before}{_ANY_FORM}{after}"


def _part(text: str, match: re.Match[str], metric: Metric, times: float | None) -> str:
    """Return why a group holds a part of a number alone, or one in another unit, or an empty string."""
    start, end = match.span(1)
    began = _BEGAN.search(f"{text[max(0, start - 20) : start]}\0{match[1]}")
    goes_on = _GOES_ON.match(text, end)
    # Of numbers in a row an expression may name the comma after its own, and the digit before the one before it.
    if began and began[1].endswith(",") and _is_named(text, match, start - 2):
        began = None
    if goes_on and goes_on[0][0] in ",:" and _is_named(text, match, end):
        goes_on = None
    # `0.125,0.98` and `3,0.125` are two numbers.
    if goes_on and goes_on[0][0] == "," and ("." in match[1] or re.match(r",(\d\d?|\d{4,})\.", goes_on[0])):
        goes_on = None
    if began or goes_on:
        whole = f"{began[1] if began else ''}{match[1]}{goes_on[0] if goes_on else ''}"
        return f"{match[1]!r} is a part of {whole!r}: let the group match all of it, with its sign"
    factor = re.compile(_FACTOR.format(metric.other_units)).match(text, end)
    if factor is None:
        return ""
    is_unit = factor[1] not in "kKMG"
    # An expression that names the letter does not match without it: its author knows.
    if (times is not None or not is_unit) and (factor[1] == "%" or _is_named(text, match, factor.start(1))):
        return ""
    return f"{match[1]!r} is followed by {factor[1]!r}: match it after the group, and set `times` if it is a factor"


def _several_names(text: str, match: re.Match[str]) -> str:
    """Return why an expression takes one quantity for another, as it begins within their names, or an empty string."""

    def name(start: int) -> tuple[str, str]:
        before, after = text[max(0, start - _LONGEST_NAME) : start], text[start : start + _LONGEST_NAME]
        return re.split(r"[\W\d]", before)[-1], re.split(r"[\W\d]", after, maxsplit=1)[0]

    head, tail = name(match.start())
    if not (head and tail):
        return ""
    names = (name(it.start()) for it in match.re.finditer(text))
    others = {start + end for start, end in names if end and (start + end).casefold() != (head + tail).casefold()}
    return f"it matches {min(others)!r} and {head + tail!r}: begin it with \\b or the whole name" if others else ""


def _is_named(text: str, match: re.Match[str], place: int) -> bool:
    """Whether an expression does not match without the character at a place."""
    without = match.re.match(f"{text[:place]}\0{text[place + 1 :]}", match.start())
    return without is None or without.span(1) != match.span(1)


def _stamp(path: Path) -> tuple[tuple[int, int, int], int] | None:
    try:
        return _identity(path), zlib.crc32(read_regular(path, MOST_FILE_BYTES))
    except OSError:
        return None


def _identity(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino


def _written(declaration: MetricDeclaration, before: Stamps) -> Sequence[Any]:
    """Return what a file says under a key, or in a column.

    Raises:
        ValueError: It is not there, was not written by this run, or says nothing of the kind.
    """
    path = Path(declaration.file)
    identity, checksum = before.get(declaration.file) or (None, 0)
    try:
        if identity == _identity(path):
            raise ValueError(f"{path} was not written by this run: it is as it was before")
        content = read_regular(path, MOST_FILE_BYTES)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    rows = list(_rows(content.decode("utf-8-sig", "replace")))
    earlier = content[: identity[1]] if identity is not None else b""
    if len(content) > len(earlier) and zlib.crc32(earlier) == checksum:
        # It was appended to: what was there before is another run's.
        rows = rows[len(list(_rows(earlier.decode("utf-8-sig", "replace")))) :]
    values = [value for row in rows if (value := _under(row, declaration.key)) not in (None, "")]
    if not values:
        keys = ", ".join(dict.fromkeys(repr(key) for row in rows if isinstance(row, dict) for key in row if key))
        raise ValueError(f"{path} has nothing under {declaration.key!r}; it has: {shorten(keys) or 'nothing'}")
    return values


def _rows(text: str) -> Iterable[Any]:
    """Return what a text holds: one JSON value, one on each line, or the rows of a table."""
    try:
        whole = json.loads(text)
        return whole if isinstance(whole, list) else [whole]
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError:
        return list(csv.DictReader(text.splitlines(), skipinitialspace=True))


def _under(row: Any, key: str) -> Any:
    """Return what is under a key as written, or its parts: `eval.loss` is `loss` in `eval`, of lists the last."""
    if isinstance(row, dict) and key in row:
        of_epochs = isinstance(row[key], list) and all(isinstance(it, int | float) for it in row[key])
        return next(reversed(row[key]), None) if of_epochs else row[key]
    if isinstance(row, list):
        return next((value for it in reversed(row) if (value := _under(it, key)) not in (None, "")), None)
    first, _, others = key.partition(".")
    return _under(row[first], others) if isinstance(row, dict) and others and first in row else None


def _checked(value: Any, metric: Metric, times: float, longest_s: float) -> float:
    """Return a value as a number of its metric.

    Raises:
        ValueError: It is none, or beyond its limits.
    """
    number = _number(value, metric) * times
    if not math.isfinite(number):
        raise ValueError(f"it is {number}")
    # What is printed may be rounded up.
    if metric in (TRAIN_TIME, TIME_TO_TARGET) and number > longest_s + 1:
        raise ValueError(f"{number:g} s is longer than the script ran ({longest_s:,.1f} s): set `times` to its unit")
    # Of losses scripts have their own; `run.epoch` takes any, too.
    is_bounded = metric.most < math.inf or not metric.is_score
    if is_bounded and not max(metric.least, 0.0) <= number <= metric.most + ROUNDING:
        hint = "; is it in %? then say `times: 0.01`" if metric.most == 1 and number <= 100 else ""
        raise ValueError(f"{number:g} is not between 0 and {metric.most:g}{hint}")
    return min(number, metric.most)


def _number(value: Any, metric: Metric) -> float:
    """Return a value as a number, of a time such as `0:01:23` in seconds.

    Raises:
        ValueError: It is none.
    """
    text = str(value).strip()
    if metric.unit == "s" and (clock := _CLOCK.fullmatch(text)):
        days, hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        text = str(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
    try:
        return float(text.replace(",", "") if _THOUSANDS.fullmatch(text) else text)
    except ValueError:
        raise ValueError(f"{shown(value)} is no number") from None
