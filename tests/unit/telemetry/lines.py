"""Lines of a worker for tests: sound ones, and every column of every kind with every bad value."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from dlbench.records.columns import BATCH_CHANGES, EPOCHS, RUNS, STEPS
from dlbench.records.result import BEST, BatchChange, NodeAccount, Result, Segment
from dlbench.scenario.metrics import SCORE_COLUMNS
from dlbench.telemetry.line_check import MOST_COUNT, MOST_SAMPLES
from dlbench.telemetry.messages import MOST_ROWS, STEP_FIELDS, pack_steps

# No column holds one of these; `1e999` is what JSON makes of infinity.
NEVER = ["1e999", "-1e999", "true", "[1]", "{}"]
NO_COUNT = [*NEVER, "-1", "1.5", "1e300", str(MOST_COUNT + 2), '"1"']
NO_NUMBER = [*NEVER, '"1"']
NO_TIME = [*NO_NUMBER, "1e300", "-1"]
NO_SHARE = [*NO_NUMBER, "-0.1", "1.5"]
NO_TEXT = [*NEVER, "3", '"=cmd|x"', '"@x"', '"+1"', '"-1"', '"\\t=x"', json.dumps("x" * 10_000)]
NO_BOOL = ["1", '"true"', "[true]"]


def bad_values(name: str, kind: str) -> list[str]:
    if kind == "int":
        return NO_COUNT
    if kind in ("text", "time"):
        return NO_TEXT
    if kind == "bool":
        return NO_BOOL
    if name.endswith("accuracy"):
        return NO_SHARE
    return NO_TIME if name.endswith("_s") else NO_NUMBER


def steps(count: int = 3, **columns: Any) -> dict[str, Any]:
    """Return a sound line of steps, but for some columns."""
    rows = np.zeros((count, len(STEP_FIELDS)))
    rows[:, 0] = np.arange(1, count + 1)
    rows[:, 1] = 1
    for name, values in columns.items():
        rows[:, STEP_FIELDS.index(name)] = values
    return {"kind": "steps", "rows": pack_steps(rows).decode()}


CHANGE = BatchChange(
    step=8, epoch=1, train_time_s=0.5, batch_size_before=32, batch_size=64, parts=1, learning_rate=0.1,
    learning_rate_gain=1.5, noise_scale=100.0, step_time_s=0.1, predicted_step_time_s=0.1, predicted_gain=1.4,
)  # fmt: skip
RESULT = Result(
    gradient_norms=(60, 1.5, 1.0),
    **{name: 0 for name, field in Result.model_fields.items() if field.annotation in (int, int | None)},
    **{name: 0.5 for name, field in Result.model_fields.items() if field.annotation in (float, float | None)},
    agreement="exact",
    weights_hash="ab",
    scores={**dict.fromkeys((*SCORE_COLUMNS, BEST), 0.5), "bleu": 0.5},
    segments=(
        Segment(opened_at_s=0, closed_at_s=1, closing_at_s=1, steps=1, samples=1, cpu_time_s=0, observer_cpu_s=0),
    ),
    staleness=((0, 1),),
    nodes=(
        NodeAccount(role="worker", host=0, steps=1, compute_time_s=1, wait_time_s=1, ended_at_s=1, messages_sent=1,
                    messages_received=1, bytes_sent=1, bytes_received=1, links=((0, 1, 2),)),
    ),
)  # fmt: skip
RESULT_LINE = {"kind": "result", "result": RESULT.model_dump(mode="json")}


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the path of each single value, and the value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
    for key, item in items or ():
        yield from places_in(item, (*path, key))


Bad = Iterator[tuple[str, dict[str, Any] | str]]


def bad_cells() -> Bad:
    for column in EPOCHS[3:]:
        for value in bad_values(column.name, column.kind):
            epoch = "" if column.name == "epoch" else ', "epoch": 1'
            yield f"epoch {column.name}={value}", f'{{"kind": "epoch", "row": {{"{column.name}": {value}{epoch}}}}}'
    for value in ("1e999", '"=x"', "[1e999]"):
        yield f"a metric {value}", f'{{"kind": "epoch", "row": {{"bleu": {value}, "epoch": 1}}}}'
    for column in BATCH_CHANGES[2:]:
        for value in bad_values(column.name, column.kind):
            row = json.dumps(CHANGE.model_dump() | {column.name: "HERE"}).replace('"HERE"', value)
            yield f"batch_change {column.name}={value}", f'{{"kind": "batch_change", "row": {row}}}'
    for column in RUNS:
        for value in bad_values(column.name, column.kind):
            yield f"facts {column.name}={value}", f'{{"kind": "facts", "facts": {{"{column.name}": {value}}}}}'
    for place, bad in ((0, NO_NUMBER), (1, NO_TEXT), (2, NO_TEXT), (3, NO_NUMBER)):
        for value in bad:
            row = ["0.5", '"cpu"', '"load"', "1"]
            row[place] = value
            yield f"sensors {place}={value}", f'{{"kind": "sensors", "rows": [[{", ".join(row)}]]}}'


def bad_results() -> Bad:
    bad = {
        int: [*(value for value in NEVER if value != "true"), "-1", "1e300", '"=x"'],  # pydantic takes true for 1
        float: ["1e999", "{}", "[1]"],
        str: NO_TEXT,
        bool: ["[true]", "7"],
    }
    for path, value in places_in(RESULT_LINE["result"]):
        shares = ["2"] if str(path[-1]).endswith("accuracy") else []
        for text in [*bad[type(value)], *shares]:
            line = copy.deepcopy(RESULT_LINE)
            target: Any = line["result"]
            for key in path[:-1]:
                target = target[key]
            target[path[-1]] = "HERE"
            yield f"result {path}={text}", json.dumps(line).replace('"HERE"', text)


def bad_steps() -> Bad:
    unknown = {"data_wait_s", "compute_time_s", "peer_wait_s", "communication_time_s", "update_time_s", "loss"}
    unknown |= {"encoding_time_s", "decoding_time_s"}
    beyond = {"phase": [6], "num_steps": [0, MOST_ROWS], "num_samples": [MOST_SAMPLES + 1]}
    for column in STEPS[3:]:
        numbers = [np.inf, -np.inf, *([] if column.name in unknown else [np.nan])]
        numbers += [] if column.name == "loss" else [-1, 1e300]
        numbers += [0.5] if column.kind in ("int", "text") else []
        for number in [*numbers, *beyond.get(column.name, [])]:
            for where in ([0], [2], [0, 1, 2]):
                values = np.arange(1.0, 4.0) if column.name == "step" else np.full(3, float(column.name == "num_steps"))
                values[where] = number
                yield f"steps {column.name}={number} in {where}", steps(**{column.name: values})
    yield "steps fall", steps(step=[3, 2, 4])
    yield "a step twice", steps(step=[1, 2, 2])
    yield "steps overlap", steps(step=[2, 3, 4], num_steps=[1, 2, 1])
    yield "time falls", steps(started_at_s=[1, 0.5, 2])


def bad_lines() -> Bad:
    """Yield lines that no worker says, with what is wrong in each."""
    yield from bad_cells()
    yield from bad_results()
    yield from bad_steps()
    yield "no kind", {"seq": 1}
    yield "a kind that is no text", {"kind": ["steps"]}


def spoken(line: dict[str, Any] | str, number: int = 1) -> bytes:
    """Return a line as a worker sends it."""
    text = line if isinstance(line, str) else json.dumps(line)
    return text.replace("{", f'{{"seq": {number}, ', 1).encode() + b"\n"
