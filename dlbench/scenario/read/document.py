"""YAML text to plain values, each with its line: the careful subset of YAML that scenarios and clusters are written in.

Plain words mean what YAML 1.2 says: `1e-3` is a number, `yes` and `4:30` are text. A text with a unit that its key
takes is a number: `timeout_s: 5m` is 300. Refused are duplicate keys, keys
that are no text, tags, several documents, aliases that contain themselves, and texts that grow beyond all measure.
"""

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

import yaml

from dlbench.errors import UserError, shorten, shown
from dlbench.regular_file import read_regular
from dlbench.scenario.source import Path, Source
from dlbench.scenario.units import in_unit_of

MAX_BYTES = 2**20
_MAX_DEPTH = 30
_MAX_VALUES = 200_000
_MAX_INTEGER = 2**63
_PLAIN_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map")}

_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_WORDS |= {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9][0-9_]*", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\ud800-\udfff]")

# Texts that need no quotes in any dialect of YAML.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*", re.ASCII)
_NOT_NAMES = {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf"}


@dataclass(frozen=True)
class Document:
    """The values of a text and the place of each."""

    data: Any
    source: Source


def read_text(path: FilePath, kind: str) -> str:
    """Return the text of a file.

    Args:
        path: The file.
        kind: What it should be, for messages: `scenario`, `cluster`.

    Raises:
        UserError: It cannot be read, is no UTF-8, or exceeds `MAX_BYTES`.
    """
    name = str(path)
    try:
        content = read_regular(path, MAX_BYTES + 1)
    except IsADirectoryError as error:
        raise UserError(f"is a folder, not a {kind} file", where=name, hint=_inside(path)) from error
    except FileNotFoundError as error:
        raise UserError("there is no such file", where=name, hint=_inside(path.parent)) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(f"cannot be read: {reason}", where=name) from error
    if len(content) > MAX_BYTES:
        raise UserError(f"exceeds the limit of {MAX_BYTES} bytes", where=name)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError("not UTF-8 text", where=f"{name}:{line}", hint="is it a text file?") from error


def _inside(folder: FilePath) -> str:
    """Name a few YAML files of a folder, as a hint."""
    try:
        names = sorted(path.name for path in folder.glob("*.y*ml"))[:5]
    except OSError:
        return ""
    return f"in {str(folder) or '.'} there are: {', '.join(names)}" if names else ""


def parse(text: str, name: str, key: str = "") -> Document:
    """Parse one YAML document; an empty one is None.

    Args:
        text: The text.
        name: What messages call it, usually the path of the file.
        key: The key whose value the whole text is; it decides which units are read.

    Raises:
        UserError: The text is not the YAML described above; says the line.
    """
    if len(text) > MAX_BYTES:
        raise UserError(f"exceeds the limit of {MAX_BYTES} bytes", where=name)
    try:
        # No meaning of plain words is wanted of the library: those of YAML 1.1 are not ours.
        node = yaml.compose(text, yaml.BaseLoader)
    except RecursionError as error:
        raise UserError(f"nested more than {_MAX_DEPTH} deep", where=name) from error
    except yaml.YAMLError as error:
        raise _refused(error, text, name) from error
    reader = _Reader(name)
    data = None if node is None else reader.value(node, (), key)
    return Document(data, Source(name, reader.lines))


def parse_value(text: str, name: str, key: str = "") -> Any:
    """Parse the value of a key as it would stand in a scenario: `8`, `1e-3`, `5m`, `[64, 32]`, `ring`."""
    return parse(text, name, key).data


def inline(value: Any) -> str:
    """Return a value as YAML on one line, readable back to the same value."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(inline(item) for item in value) + "]"
    if isinstance(value, str) and _NAME.fullmatch(value) and value.lower() not in _NOT_NAMES:
        return value
    return json.dumps(value, ensure_ascii=False)


class _Reader:
    """Turns nodes into values, keeping lines and counting what aliases multiply."""

    def __init__(self, name: str) -> None:
        self.lines: dict[Path, int] = {}
        self._name = name
        self._open: list[yaml.Node] = []
        self._num_values = 0

    def value(self, node: yaml.Node, path: Path, key: str) -> Any:
        self.lines[path] = node.start_mark.line + 1
        self._num_values += 1
        if len(path) > _MAX_DEPTH:
            raise self._error(node, f"nested more than {_MAX_DEPTH} deep")
        if self._num_values > _MAX_VALUES:
            raise self._error(node, f"more than {_MAX_VALUES} values", hint="an alias inside an alias multiplies")
        if node.tag not in _PLAIN_TAGS:
            raise self._error(node, f"tags such as {shown(node.tag)} are not supported", hint="write the plain value")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, key)
        if any(node is outer for outer in self._open):
            raise self._error(node, "an alias contains itself")
        self._open.append(node)
        content: Any
        if isinstance(node, yaml.MappingNode):
            content = self._mapping(node, path, key)
        else:
            content = [self.value(item, (*path, index), key) for index, item in enumerate(node.value)]
        self._open.pop()
        return content

    def _mapping(self, node: yaml.MappingNode, path: Path, around: str) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for key_node, value_node in node.value:
            is_item = node.flow_style and not value_node.value and isinstance(key_node, yaml.ScalarNode)
            last, item = next(reversed(content.items()), (around, key_node.value))
            hint = f"a list stands in brackets, `{last}: [{shorten(str(item), 60)}, ...]`, and a fraction has a point"
            key = self._key(key_node, hint * bool(is_item and last))
            if key in content:
                first = self.lines[(*path, key)]
                raise self._error(key_node, f"the key {shown(key)} is given a second time; first in line {first}")
            content[key] = self.value(value_node, (*path, key), key)
            self.lines[(*path, key)] = key_node.start_mark.line + 1
        return content

    def _key(self, node: yaml.Node, hint: str) -> str:
        key = self._scalar(node) if isinstance(node, yaml.ScalarNode) else None
        if not isinstance(key, str):
            what = shown(key) if isinstance(node, yaml.ScalarNode) else "a list or a mapping"
            raise self._error(node, f"a key must be text, not {what}", hint)
        if key == "<<":
            raise self._error(node, "merge keys (<<) are not supported", hint="put what is common under `base`")
        return key

    def _scalar(self, node: yaml.ScalarNode, key: str = "") -> Any:
        text = str(node.value)
        if _UNPRINTABLE.search(text):
            raise self._error(node, f"{shown(text)} holds a control character or half a character")
        try:
            value = _plain(text) if node.style is None else text
        except ValueError as error:
            raise self._error(node, str(error)) from error
        return in_unit_of(key, value) if isinstance(value, str) else value

    def _error(self, node: yaml.Node, message: str, hint: str = "") -> UserError:
        return UserError(message, hint=hint, where=f"{self._name}:{node.start_mark.line + 1}")


def _plain(text: str) -> Any:
    """Return what an unquoted word means: nothing, true or false, a number, or itself."""
    if text in _WORDS:
        return _WORDS[text]
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} is not a finite number")
    if _INTEGER.fullmatch(text) and not text.endswith("_"):
        return _bounded(int(text) if len(text) <= 40 else _MAX_INTEGER, _MAX_INTEGER, text)
    if _FLOAT.fullmatch(text):
        return _bounded(float(text), math.inf, text)
    return text


def _bounded(number: float, bound: float, text: str) -> float:
    if not -bound < number < bound:
        raise ValueError(f"the number {shown(text)} is too large")
    return number


# What YAML says of a line that has a colon too many, or none followed by a space.
_COLON_PROBLEMS = ("mapping values are not allowed", "could not find expected ':'")


def _refused(error: yaml.YAMLError, text: str, name: str) -> UserError:
    """Say in plain words what PyYAML could not read."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, int(error.position)) + 1
        return UserError("holds a character that no text file has", where=f"{name}:{line}")
    assert isinstance(error, yaml.MarkedYAMLError)
    problem = str(error.problem or error.context or "not YAML")
    mark = error.problem_mark or error.context_mark
    is_unspaced = any(part in problem for part in _COLON_PROBLEMS)
    if is_unspaced and mark and (joined := _without_space(text, mark.line)):
        line, word = joined
        key, _, value = word.partition(":")
        return UserError(
            f"there is no space after the colon of {shown(word)}",
            where=f"{name}:{line}",
            hint=f"write `{key}: {value}`",
        )
    where = f"{name}:{mark.line + 1}" if mark else name
    if error.context == "expected a single document in the stream":
        return UserError("a second document begins here; a file holds one", where=where, hint="remove the `---`")
    if "'\\t'" in problem:
        return UserError("there is a tab here; YAML is indented with spaces", where=where)
    context = f"{error.context}, " if error.context and error.problem else ""
    return UserError(f"not readable as YAML: {context}{problem}", where=where, hint=_hint(problem))


def _without_space(text: str, last: int) -> tuple[int, str] | None:
    """Return the last line, from 1 on, up to a line, from 0 on, that is one word with a colon inside, and the word."""
    lines = text.splitlines()[: last + 1]
    for number in range(len(lines), max(0, len(lines) - 3), -1):
        if match := re.fullmatch(r"\s*([A-Za-z][\w.-]*:[^\s:/'\"]+)\s*(#.*)?", lines[number - 1]):
            return number, match[1]
    return None


def _hint(problem: str) -> str:
    if any(part in problem for part in _COLON_PROBLEMS):
        return "check the indentation, and quote text that holds `: `"
    if "expected <block end>" in problem:
        return "check the indentation of this line and the one before it"
    if "expected ',' or '}'" in problem:
        return "quote text that holds a brace, or give it a line: `command: python train.py {batch_size}`"
    return ""
