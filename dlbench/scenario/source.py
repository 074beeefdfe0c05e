"""Where each value of a file was written, and a pydantic error as one `UserError`: file, line, what is allowed."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dlbench.errors import UserError, joined, nearest, shown
from dlbench.scenario.settings import OPTION_PREFIXES, Settings, value_of
from dlbench.scenario.units import units_of

Path = tuple[str | int, ...]

# Keys of a cluster file that are not settings as well.
CLUSTER_KEYS = frozenset({"hosts", "ssh", "interface", "environment", "prices", "emulated"})
# What other programs call what a setting of dlbench decides, with that setting.
_OTHER_NAMES = {
    **dict.fromkeys(
        ("gpu", "gpus", "num_gpus", "n_gpus", "device", "devices", "accelerator", "cuda"),
        "each worker gets a GPU of its host where there are GPUs: `workers` says how many",
    ),
    **dict.fromkeys(
        ("step", "steps", "max_steps", "num_steps", "train_steps", "steps_per_epoch", "iterations", "max_iterations"),
        "training is counted in `epochs`, and `train_samples` makes an epoch shorter",
    ),
    **dict.fromkeys(
        ("nproc", "nproc_per_node", "num_workers", "n_workers", "num_processes", "processes", "replicas", "ranks"),
        "`workers` says how many there are, `workers_per_host` how many of them are on each host",
    ),
    **dict.fromkeys(
        ("nodes", "num_nodes", "nnodes", "num_hosts"),
        "--hosts a:4,b:4 or a cluster file says where, and `mode: scale-out` or `workers_per_host` how workers spread",
    ),
    **dict.fromkeys(("amp", "dtype", "fp16", "bf16", "mixed_precision"), "`precision: mixed_bfloat16`, for example"),
    **dict.fromkeys(("network", "architecture", "arch"), "`model` names it"),
    **dict.fromkeys(
        ("vary", "sweep", "grid", "axes", "parameters", "params", "search_space"),
        "`matrix` makes an arm of each combination of the values listed there, `zip` links lists of equal length",
    ),
    **dict.fromkeys(("data", "data_dir", "data_path"), "`dataset` names it, and `dataset.path` a folder of your own"),
}
_RANGE = re.compile(r"\s*[0-9]+\s*(?:\.\.\.?|-|:)\s*[0-9]+\s*", re.ASCII)

# What pydantic says, in the words of dlbench.
_WORDS = {
    "Input should": "must",
    "a valid string": "text",
    "a valid tuple": "a list",
    "a valid list": "a list",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid dictionary": "a mapping of keys to values",
    ", unable to parse string as an integer": "",
    ", unable to parse string as a number": "",
    ", got a number with a fractional part": "",
}
_LIST_TYPES = ("tuple_type", "list_type")
_WITH_COMMAS = re.compile(r"[\w.+-]+(?:\s*,\s*(?!0\d)[\w.+-]+)+")


@dataclass(frozen=True)
class Source:
    """The text a scenario was read from: its name and the line of every value, by path in the document.

    Attributes:
        name: What messages call the text.
        lines: Line of each value.
        options: Of values that were given elsewhere, the option of the command line that gave them.
    """

    name: str = ""
    lines: Mapping[Path, int] = field(default_factory=dict)
    options: Mapping[Path, str] = field(default_factory=dict)

    def where(self, path: Path = ()) -> str:
        """Return `file:line` of the value at `path` or of the nearest one around it; empty without a file."""
        if option := next((self.options[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.options), ""):
            return option
        line = self.line(path)
        return f"{self.name}:{line}" if line else self.name

    def line(self, path: Path) -> int:
        """Return the line of the value at `path`, or of the nearest one around it; 0 where none is known."""
        return next((self.lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in self.lines), 0)


def translate(
    error: ValidationError,
    source: Source,
    allowed: Callable[[Path], Iterable[str]] = lambda _: (),
    place: Callable[[Path], Path] = tuple,
    only: str | None = None,
) -> UserError:
    """Return one error that says every mistake, in the order of the text.

    Args:
        error: What pydantic found.
        source: Where values were written.
        allowed: From the path of an unknown key to the keys that are allowed there.
        place: From pydantic's location to the path in the document.
        only: The field whose mistakes count; default: those of all.
    """
    details = [each for each in error.errors(include_url=False) if only in (None, *each["loc"][:1])]
    paths = [place(tuple(detail["loc"])) for detail in details]
    # A list whose items are wrong is said to be too short as well: what is wrong inside it counts.
    inner = [i for i, path in enumerate(paths) if not any(path == each[: len(path)] != each for each in paths)]
    # Of a value that may be of several kinds what is wrong with it as the first is said.
    firsts = {paths[index]: index for index in reversed(inner)}
    ordered = sorted(firsts.values(), key=lambda index: (source.line(paths[index]), index))
    return joined([_one(details[index], paths[index], source, tuple(allowed(paths[index]))) for index in ordered])


def first_fault(error: ValidationError) -> str:
    """Return what pydantic found first, with its place: for JSON that a program wrote, where no line is of use."""
    fault = error.errors(include_url=False)[0]
    return f"{dotted(fault['loc'])}: {fault['msg']}".removeprefix(": ")


def _one(detail: ErrorDetails, path: Path, source: Source, allowed: tuple[str, ...]) -> UserError:
    kind, value = detail["type"], detail["input"]
    where = source.where(path)
    if kind == "extra_forbidden":
        return unknown_key(str(path[-1]), allowed, where)
    axis = path[-1] if path[:1] in (("matrix",), ("zip",)) and isinstance(path[-1], str) and kind in _LIST_TYPES else ""
    if axis and "." not in axis and axis not in Settings.model_fields:
        return unknown_key(axis, Settings.model_fields, where, "`dlbench list settings` shows all")
    if kind == "missing":
        return UserError(f"{dotted(path)} is missing", where=where)
    message = re.sub(r" or instance of \w+$", "", detail["msg"].removeprefix("Value error, "))
    for theirs, ours in _WORDS.items():
        message = message.replace(theirs, ours)
    if kind == "too_short":
        message = "must not be empty"
    elif kind != "value_error":
        message += f", not {shown(value)}"
    return UserError(f"{dotted(path)} {message}".lstrip(), where=where, hint=_hint(kind, value, detail, path, where))


def _hint(kind: str, value: Any, detail: ErrorDetails, path: Path, where: str) -> str:
    if kind in ("enum", "literal_error") and isinstance(value, str):
        expected = str(detail.get("ctx", {}).get("expected", "")).replace("'", "").replace(" or ", ", ").split(", ")
        return nearest(value, expected)
    key = str(path[-1] if path and isinstance(path[-1], str) else path[-2] if len(path) > 1 else "")
    if isinstance(value, str) and _RANGE.fullmatch(value):
        return "a range is not expanded: write its values, such as [16, 32, 64]"
    if path[:1] == ("base",) and isinstance(value, list):
        return f"several values are an axis: move `{key}` to `matrix`"
    if isinstance(value, dict) and key in OPTION_PREFIXES and kind != "value_error":
        return f"options have dotted names: `{key}: NAME`, and beside it `{key}.OPTION: VALUE`"
    if isinstance(value, str) and (units := units_of(key)):
        return f"write a number, or one with a unit: {units}"
    if not isinstance(value, str | int | float | bool) or len(str(value)) >= 60:
        return ""
    if kind in _LIST_TYPES or (key in Settings.model_fields and isinstance(value, str) and "," in value):
        return _as_list(str(value), key, where)
    return f'text that looks like something else is quoted: "{value}"' if kind == "string_type" else ""


def _as_list(text: str, key: str, where: str) -> str:
    """Return the list that a text stands for, or the number whose point is a comma in it, where the key can have it."""
    items = re.split(r"\s*,\s*", text) if _WITH_COMMAS.fullmatch(text) else [f'"{text}"' if "," in text else text]
    listed, point = f"[{', '.join(items)}]", text.replace(",", ".", 1)
    hint = f"write a list: {where}='{listed}'" if where.startswith("--set") else f"write a list: {listed}"
    for values, words in ((items, hint), ([point], f"a fraction has a point: {point}")):
        with suppress(ValidationError):
            _ = [value_of(key, value) for value in values if key in Settings.model_fields]
            return words
    return ""


def unknown_key(key: str, allowed: Iterable[str], where: str, more: str = "") -> UserError:
    """Return the error for a key that is not there: where it belongs, what it is called, the nearest one, or all."""
    names = tuple(allowed)
    hint = (_level(key, names) if names else "it takes no options") or nearest(key, names) or more
    if not hint and "base" in names and (near := nearest(key, Settings.model_fields)):
        hint = f"{near} it belongs under `base`"
    hint = hint or f"there are: {', '.join(names)}"
    return UserError(f"unknown key {shown(key)}", where=where, hint=hint)


def _level(key: str, names: tuple[str, ...]) -> str:
    """Return where a key belongs that is none of these; an empty string where it is unknown everywhere."""
    head, dot, _ = key.partition(".")
    if dot and any(name.startswith(f"{head}.") for name in names):
        return ""  # an option among others of its plugin
    if "hosts" not in names and (key in CLUSTER_KEYS or head == "submitter"):
        return f"`{key}` belongs in a cluster file (--cluster FILE), not in a scenario"
    if key in Settings.model_fields or (dot and head in OPTION_PREFIXES):
        return f"`{key}` is a setting: it belongs under `base` of a scenario, or with a list of values under `matrix`"
    return "" if "hosts" in names else _OTHER_NAMES.get(key, "")


def dotted(path: Path) -> str:
    """Return a path as people write it: `matrix.workers[2]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
