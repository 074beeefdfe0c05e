"""The folder is the registry: a plugin is one file in the folder of its kind.

`names(kind)` lists them and `load(kind, name)` imports one. Third parties add theirs by entry points of the group
`dlbench.<kind>`, or name a function in a scenario as `package.module:function`. A folder within the folder holds
plugins that come from one place: `datasets/keras/mnist.py` is `keras:mnist`. A plugin file imports no framework
at its top level, so listing and validating cost nothing. What a file of each kind must hold is written in the
docstring of the kind's folder (`dlbench/models/__init__.py` and so on).
"""

import functools
import importlib
import importlib.util
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

from dlbench.errors import UserError, nearest, shorten, shown

FOLDERS = {
    "models": "dlbench.models",
    "datasets": "dlbench.datasets",
    "strategies": "dlbench.strategies",
    "trainers": "dlbench.trainers",
    "drivers": "dlbench.drivers",
    "launchers": "dlbench.launch.launchers",
    "submitters": "dlbench.launch.submitters",
    "sensors": "dlbench.worker.sensors",
    "figures": "dlbench.report.figures",
}


class Options(BaseModel):
    """Base of every plugin's `OPTIONS`: frozen, unknown keys forbidden; field descriptions become the docs."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


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
    """Return the sorted names of all plugins of a kind: files of the folder and installed entry points.

    Asked once per process: looking through everything installed takes milliseconds, and expansion asks often.
    """
    spec = importlib.util.find_spec(FOLDERS[kind])
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    files = {name for folder in folders for name in _files(Path(folder))}
    return tuple(sorted(files | set(_members(kind)) | set(_entry_points(kind))))


def _files(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}


@functools.cache
def _members(kind: str) -> dict[str, str]:
    """Return the module of each plugin that lies in a folder within the kind's folder, by its name: `keras:mnist`."""
    spec = importlib.util.find_spec(FOLDERS[kind])
    within = [Path(place) for folder in (spec and spec.submodule_search_locations) or [] for place in _within(folder)]
    return {
        f"{folder.name}:{file}": f"{FOLDERS[kind]}.{folder.name}.{file}" for folder in within for file in _files(folder)
    }


def _within(folder: str) -> list[Path]:
    return [path.parent for path in Path(folder).glob("[!_]*/__init__.py")]


def canonical(name: str) -> str:
    """Return a plugin's name as its file is called: a hyphen and an underscore mean the same."""
    as_file = name.replace("-", "_")
    # A module of the user's own may be called anything.
    return name if ":" in name and not any(as_file in _members(kind) for kind in FOLDERS) else as_file


@functools.cache
def load(kind: str, name: str) -> Plugin:
    """Import one plugin by name, or by `package.module:function`; the same is imported only once.

    Raises:
        UserError: There is no such plugin, or the named function cannot be imported.
    """
    name = canonical(name)
    if ":" in name:
        return _member(kind, name) or _from_reference(kind, name)
    if name not in names(kind):
        raise UserError(
            f"there is no {shown(name)} among the {kind}; there are: {', '.join(names(kind))}",
            hint=nearest(name, names(kind)) or f"`dlbench list {kind}` shows each with its options",
        )
    found = _entry_points(kind).get(name)
    if found is None:
        return _plugin(kind, name, importlib.import_module(f"{FOLDERS[kind]}.{name}"))
    return _foreign(kind, name, found.load, "it is installed beside dlbench: ask who made it")


def _entry_points(kind: str) -> dict[str, Any]:
    return {canonical(point.name): point for point in entry_points(group=f"dlbench.{kind}")}


def _plugin(kind: str, name: str, target: Any) -> Plugin:
    doc = (inspect.getdoc(target) or "").split("\n", 1)[0]
    options = getattr(target, "OPTIONS", None)
    if options is None and callable(target):
        options = _options_of(target)
    if options is not None and not (isinstance(options, type) and issubclass(options, Options)):
        raise TypeError("its OPTIONS are no `dlbench.plugins.Options`")
    return Plugin(kind, name, doc, options or Options, target)


def _foreign(kind: str, name: str, find: Callable[[], Any], hint: str) -> Plugin:
    """Return a plugin that is not dlbench's own; whatever goes wrong in its code is the user's to know."""
    try:
        return _plugin(kind, name, find())
    except (Exception, SystemExit) as error:
        message = f"{kind}: cannot import {shown(name)}: {type(error).__name__}: {shorten(str(error))}"
        raise UserError(message, hint=hint) from error


def _member(kind: str, name: str) -> Plugin | None:
    """Return a plugin of a folder within the kind's folder; None where the name begins with no such folder's.

    Raises:
        UserError: The folder has no such plugin; where it says why not (`REFUSED`), that is told.
    """
    members, folder = _members(kind), name.partition(":")[0]
    if name in members:
        return _plugin(kind, name, importlib.import_module(members[name]))
    there = sorted(member for member in members if member.startswith(f"{folder}:"))
    if not there:
        return None
    refused: dict[str, str] = getattr(importlib.import_module(f"{FOLDERS[kind]}.{folder}"), "REFUSED", {})
    if why := refused.get(name.partition(":")[2].replace("-", "_")):
        raise UserError(f"{name} is none of the {kind} that dlbench can use: {why}")
    message = f"there is no {shown(name)} among the {kind}; there are: {', '.join(there)}"
    raise UserError(message, hint=nearest(name, there) or f"`dlbench list {kind}` shows each with its options")


def _from_reference(kind: str, name: str) -> Plugin:
    module_name, _, function_name = name.partition(":")

    def find() -> Any:
        target: Any = importlib.import_module(module_name)
        for part in function_name.split("."):
            target = getattr(target, part)
        if not callable(target) and not isinstance(target, ModuleType):
            raise TypeError(f"{function_name} is not a function")
        return target

    hint = "the form is package.module:function, importable from the folder you start dlbench in"
    return _foreign(kind, name, find, hint)


def _options_of(function: Any) -> type[Options]:
    """Derive the options of a user's function from its keyword-only parameters."""
    hints = get_type_hints(function)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (hints.get(parameter.name, Any), default)
    return create_model(f"{function.__name__}_options", __base__=Options, **fields)
