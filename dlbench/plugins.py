"""The folder is the registry: a plugin is one file in the folder of its kind.

`names(kind)` lists them and `load(kind, name)` imports one. Installed packages add theirs by entry points of the group
`dlbench.<kind>`, and replace none; a scenario may name a function as `package.module:function`. Plugins that differ in
data alone are rows of a `TABLE` in the folder's `_table.py`, such as `keras:mnist`. A plugin file imports no framework
at its top level, so listing and validating cost nothing. What a file of each kind must hold is written in the
docstring of the kind's folder (`dlbench/models/__init__.py` and so on).
"""

import ast
import contextlib
import functools
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, PathDistribution
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidatorFunctionWrapHandler, create_model, field_validator

from dlbench.errors import UserError, nearest, shorten, shown
from dlbench.search_path import import_named, site_folders

FOLDERS = {
    "models": "dlbench.models",
    "datasets": "dlbench.datasets",
    "strategies": "dlbench.strategies",
    "trainers": "dlbench.trainers",
    "communicators": "dlbench.communicators",
    "compressors": "dlbench.compressors",
    "launchers": "dlbench.launch.launchers",
    "submitters": "dlbench.launch.submitters",
    "sensors": "dlbench.worker.sensors",
    "figures": "dlbench.report.figures",
    "exporters": "dlbench.report.exporters",
}
_GROUP = "dlbench."


class Options(BaseModel):
    """Base of every plugin's `OPTIONS`: frozen, finite, unknown keys forbidden; field descriptions become the docs."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False)

    @field_validator("*", mode="wrap")
    @classmethod
    def _no_bool_as_number(cls, written: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        """Refuse true and false where a number is asked for: Python would take them for 1 and 0."""
        value = validate(written)
        if _has_bool_as_number(written, value):
            raise ValueError("needs a number, not true or false")
        return value


def _has_bool_as_number(written: Any, value: Any) -> bool:
    if isinstance(written, list | tuple) and isinstance(value, list | tuple):
        return any(_has_bool_as_number(*pair) for pair in zip(written, value, strict=False))
    return isinstance(written, bool) and isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class Plugin:
    """One plugin of a kind: its name, one-line doc, options and the object that holds its functions."""

    kind: str
    name: str
    doc: str
    options: type[Options]
    target: Any

    def get(self, attribute: str, default: Any = None) -> Any:
        """Return an attribute of the plugin file, or `default` where it has none."""
        return getattr(self.target, attribute, default)


@functools.cache
def names(kind: str) -> tuple[str, ...]:
    """Return the sorted names of all plugins of a kind: dlbench's own and those of installed packages."""
    return tuple(sorted(built_in(kind) | set(_installed()[kind])))


@functools.cache
def built_in(kind: str) -> frozenset[str]:
    """Return the names of dlbench's own plugins of a kind: files of the folder and rows of its table."""
    spec = importlib.util.find_spec(FOLDERS[kind])
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    files = {path.stem for folder in folders for path in Path(folder).glob("*.py") if not path.stem.startswith("_")}
    return frozenset(files | set(_table(kind)))


@functools.cache
def _table(kind: str) -> Mapping[str, Any]:
    """Return the plugins of a kind that are rows of a table, by name; none where the folder has no `_table.py`."""
    name = f"{FOLDERS[kind]}._table"
    rows: Mapping[str, Any] = importlib.import_module(name).TABLE if importlib.util.find_spec(name) else {}
    return rows


def canonical(name: str) -> str:
    """Return a plugin's name as its file is called: a hyphen and an underscore mean the same."""
    as_file = name.replace("-", "_")
    # A module of the user's own may be called anything.
    return name if ":" in name and not any(as_file in _table(kind) for kind in FOLDERS) else as_file


@functools.cache
def load(kind: str, name: str) -> Plugin:
    """Import one plugin by name, or by `package.module:function`; the same is imported only once.

    Raises:
        UserError: There is no such plugin, or the named function cannot be imported.
    """
    name, parts = canonical(name), [canonical(part.strip()) for part in name.split(",")]
    if len(parts) > 1 and set(parts) <= set(names(kind)):
        raise UserError(f"{shown(name)} are {len(parts)} {kind}", hint=f"write a list: [{', '.join(parts)}]")
    if row := _table(kind).get(name):
        return Plugin(kind, name, row.doc, row.OPTIONS, row)
    if ":" in name and not any(row.startswith(f"{name.partition(':')[0]}:") for row in _table(kind)):
        return _from_reference(kind, name)
    if name in built_in(kind):
        return _plugin(kind, name, importlib.import_module(f"{FOLDERS[kind]}.{name}"))
    if name not in names(kind):
        raise UserError(
            f"there is no {shown(name)} among the {kind}; there are: {', '.join(names(kind))}",
            hint=nearest(name, names(kind)) or _meant(name) or f"`dlbench list {kind}` shows each with its options",
        )
    return _foreign(kind, name, _installed()[kind][name].load, "it is installed beside dlbench: ask its authors")


@functools.cache
def _installed() -> Mapping[str, Mapping[str, EntryPoint]]:
    """Return the plugins of installed packages by kind and name.

    Every command asks, and `importlib.metadata.entry_points` takes 10 ms for each kind, so all kinds are read at once,
    and of most packages nothing but whether they have entry points. `PYTHONPATH` is not searched.
    """
    kinds: dict[str, dict[str, EntryPoint]] = {kind: {} for kind in FOLDERS}
    for point in (point for folder in site_folders() for point in _entry_points(folder)):
        kind = point.group.removeprefix(_GROUP)
        if point.group.startswith(_GROUP) and kind in kinds:
            kinds[kind].setdefault(canonical(point.name), point)
    return kinds


def _entry_points(folder: str) -> Iterator[EntryPoint]:
    """Yield all entry points of packages in a folder that register a plugin."""
    for path in Path(folder).glob("*-info/entry_points.txt"):
        with contextlib.suppress(OSError, ValueError, TypeError):  # such a package is damaged
            if f"[{_GROUP}" in path.read_text(encoding="utf-8"):
                yield from PathDistribution(path.parent).entry_points


def replaced() -> Iterator[str]:
    """Yield a line for each plugin of an installed package that is not used, because dlbench has one of its name."""
    for kind, points in _installed().items():
        for name in sorted(points.keys() & built_in(kind)) if points else ():
            package = getattr(points[name].dist, "name", None) or "an installed package"
            yield f"{kind}: the plugin {name} of {package} is not used: dlbench has one of this name; rename it"


def _plugin(kind: str, name: str, target: Any) -> Plugin:
    doc = (inspect.getdoc(target) or "").split("\n", 1)[0]
    options = getattr(target, "OPTIONS", None)
    if options is None and callable(target):
        options = _options_of(target)
    if options is not None and not (isinstance(options, type) and issubclass(options, Options)):
        raise TypeError("its OPTIONS are no `dlbench.plugins.Options`")
    return Plugin(kind, name, doc, options or Options, target)


def _foreign(kind: str, name: str, find: Callable[[], Any], hint: str) -> Plugin:
    """Return a plugin that is not dlbench's own; whatever goes wrong in its code is reported to the user."""
    try:
        return _plugin(kind, name, find())
    except (Exception, SystemExit) as error:
        message = f"{kind}: cannot import {shown(name)}: {type(error).__name__}: {shorten(str(error))}"
        raise UserError(message, hint=_meant(name) or hint) from error


def _from_reference(kind: str, name: str) -> Plugin:
    module_name, _, function_name = name.partition(":")

    def find() -> Any:
        target: Any = import_named(module_name)
        for part in function_name.split("."):
            target = getattr(target, part)
        if not callable(target) and not isinstance(target, ModuleType):
            raise TypeError(f"{function_name} is not a function")
        return target

    hint = "the form is package.module:function, importable from the folder you start dlbench in, for jobs in pods, too"
    return _foreign(kind, name, find, hint)


def _meant(name: str) -> str:
    """Return the reference nearest to such as `m.py:f` or `m.f`, as a hint; an empty string where there is none.

    Nothing is imported for it: a script may train as soon as it is.
    """
    plain = re.sub(r"^\./|\.py(?=:)", "", name).replace("/", ".")
    module, _, function = plain.rpartition(":" if ":" in plain else ".")
    with contextlib.suppress(Exception):  # there may be no such file, and it may hold anything
        paths = (Path(folder, f"{module.replace('.', '/')}.py") for folder in (*sys.path, "."))
        body = ast.parse(next(filter(Path.is_file, paths)).read_bytes()).body
        functions = [each.name for each in body if isinstance(each, ast.FunctionDef)]
        near = nearest(function, functions).replace("'", f"'{module}:", 1)
        return near * (repr(name) not in near and not Path(name).is_file())
    return ""


def _options_of(function: Any) -> type[Options]:
    """Derive the options of a user's function from its keyword-only parameters."""
    hints = get_type_hints(function)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (hints.get(parameter.name, Any), default)
    return create_model(f"{function.__name__}_options", __base__=Options, **fields)
