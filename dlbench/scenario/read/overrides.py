"""`--set key=value`: values that replace those of a scenario's file, as if the file held them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from dlbench.errors import UserError, shown
from dlbench.scenario.read.document import Document, inline, parse_value
from dlbench.scenario.scenario import Scenario
from dlbench.scenario.settings import Settings
from dlbench.scenario.source import Path

# Keys of a scenario that hold one value; all others are settings of `base` or axes.
_SECTIONS = frozenset({"base", "matrix", "zip", "include", "exclude"})
_TOP = frozenset(Scenario.model_fields) - _SECTIONS


def overridden(found: Document, values: Mapping[str, str]) -> Document:
    """Return a scenario's document with some values replaced.

    A key of the scenario itself (`repeats`) is replaced there, `target.value` in the target, `tune.repeats` in the
    search, an axis in its place by one value or a list, and any other option in `base`, as is a setting; several
    values of one become an axis.

    Args:
        found: The document; its data is changed.
        values: By key, as they are written in YAML.

    Raises:
        UserError: A value is no YAML, or a key varies together with others, so that it alone cannot change.
    """
    options = {}
    for key, value in values.items() if isinstance(found.data, dict) else ():
        option = f"--set {key}"
        options[_replace(found.data, key, parse_value(value, option))] = option
    return Document(found.data, replace(found.source, options=options))


def written(data: Mapping[str, Any], values: Mapping[str, str]) -> str:
    """Return a scenario as text that reads back to the same values, and says what was replaced."""
    options = " ".join(f"--set {key}={value}" for key, value in values.items())
    return "\n".join((f"# With {' '.join(options.split())}", *_lines(data))) + "\n"


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    for key, value in data.items():
        if isinstance(value, dict) and value:
            yield f"{inline(key)}:"
            yield from (f"  {inline(name)}: {inline(item)}" for name, item in value.items())
        else:
            yield f"{inline(key)}: {inline(value)}"


def _replace(data: dict[str, Any], key: str, value: Any) -> Path:
    """Replace one value; return its path."""
    section, _, inner = key.partition(".")
    if key in _SECTIONS:
        raise UserError(f"--set {key}: it holds many values", hint="name one of its keys, such as `--set epochs=2`")
    if key in _TOP:
        data[key] = value
        return (key,)
    if section in ("target", "tune") and inner:
        _section(data, section)[inner] = value
        return section, inner
    linked = data.get("zip")
    groups = linked if isinstance(linked, list) else [linked]
    if any(isinstance(axes, dict) and key in axes for axes in groups):
        raise UserError(f"--set {key}: it varies together with others (`zip`)", hint="change it in the file")
    for name in ("include", "exclude"):
        points = data.get(name)
        if any(isinstance(point, dict) and key in point for point in (points if isinstance(points, list) else ())):
            raise UserError(f"--set {key}: `{name}` names it, too", hint="change it in the file")
    axes = data.get("matrix")
    if isinstance(axes, dict) and key in axes:
        axes[key] = value if isinstance(value, list) else [value]
        return "matrix", key
    base = _section(data, "base")
    if isinstance(value, list) and key in Settings.model_fields:
        base.pop(key, None)
        _section(data, "matrix")[key] = value
        return "matrix", key
    base[key] = value
    return "base", key


def _section(data: dict[str, Any], name: str) -> dict[str, Any]:
    section = data.get(name)
    if section is None:
        section = data[name] = {}
    if not isinstance(section, dict):
        raise UserError(f"`{name}` is a mapping of keys to values, not {shown(section)}")
    return section
