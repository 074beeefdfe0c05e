"""One value of one key: is there such a setting or option, and can it have this value?"""

import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from dlbench import plugins
from dlbench.errors import UserError, nearest, shorten, shown
from dlbench.scenario.placeholders import ATTEMPT
from dlbench.scenario.placeholders import names as placeholders
from dlbench.scenario.plugin_settings import LABELS_OF_A_COMMAND, load
from dlbench.scenario.scenario import Scenario
from dlbench.scenario.settings import OPTION_PREFIXES, PLUGIN_SETTINGS, Settings, value_of
from dlbench.scenario.source import Path, Source, translate, unknown_key

# The sections whose points name plugins.
AXES = frozenset({"base", "matrix", "zip", "include"})
# By prefix of options, the plugins that have them.
Candidates = dict[str, tuple[plugins.Plugin, ...]]


def mistakes(scenario: Scenario, *, is_whole: bool = True) -> list[UserError]:
    """Return what is wrong with each value of a scenario by itself; what only a whole point can show is for `expand`.

    Args:
        scenario: The scenario.
        is_whole: Whether all its axes are here: else it is unknown which plugins it names, so whose options it may set.
    """
    candidates: Candidates = {}
    errors: list[UserError] = []
    for prefix in OPTION_PREFIXES:
        try:
            candidates[prefix] = tuple(_named(prefix, scenario))
        except UserError as error:
            errors.append(error)
    for path, key, value in scenario.entries():
        try:
            if key in Settings.model_fields:
                _check_setting(path, key, value, scenario)
            elif is_whole or "." not in key:
                _check_option(path, key, value, candidates, scenario.source)
        except UserError as error:
            errors.append(error)
    for name, metric in scenario.metrics.items():
        try:
            if metric.file:
                _check_placeholders(("metrics", name), f"metrics.{name}.file", metric.file, scenario)
        except UserError as error:
            errors.append(error)
    return errors


def uses_command(scenario: Scenario) -> bool:
    """Whether any point runs the user's own script."""
    return any(key == "command" and value is not None for _, key, value in scenario.entries())


def keys(scenario: Scenario) -> tuple[str, ...]:
    """Return every key that a point of this scenario may have: settings, and options of the plugins it names."""
    candidates = {prefix: tuple(_named(prefix, scenario)) for prefix in OPTION_PREFIXES}
    return (*Settings.model_fields, *_option_keys(candidates))


def _named(prefix: str, scenario: Scenario) -> Iterator[plugins.Plugin]:
    """Yield the plugins of a setting that the points of a scenario can have: those whose options it may set."""
    kind = OPTION_PREFIXES[prefix]
    names: dict[str, Path] = {}
    for path, key, value in scenario.entries():
        if key == prefix and isinstance(value, str):
            names.setdefault(value, path)
    if _may_be_default(prefix, scenario):
        # Without a default of the setting's own the strategy's decides: it may be any.
        names.setdefault(str(Settings.model_fields[prefix].default or "auto"), ())
    is_label = prefix in LABELS_OF_A_COMMAND and uses_command(scenario)
    for name, path in names.items():
        for each in plugins.names(kind) if name == "auto" else (name,):
            if not is_label or plugins.canonical(each) in plugins.names(kind):
                yield load(kind, each, scenario.source.where(path))


def _may_be_default(key: str, scenario: Scenario) -> bool:
    """Whether a point may leave a setting to its default."""
    if key in scenario.base:
        return False
    in_matrix = any(key in axes for _, axes in scenario.axes())
    has_matrix = bool(scenario.axes()) or not scenario.include
    return (has_matrix and not in_matrix) or any(key not in point for point in scenario.include)


def _option_keys(candidates: Candidates) -> tuple[str, ...]:
    """Return the options of some plugins by dotted name, each once."""
    pairs = ((prefix, plugin) for prefix, some in candidates.items() for plugin in some)
    return tuple(dict.fromkeys(f"{prefix}.{name}" for prefix, plugin in pairs for name in plugin.options.model_fields))


def _check_setting(path: Path, key: str, value: Any, scenario: Scenario) -> None:
    try:
        value_of(key, value)
    except ValidationError as error:
        raise translate(error, scenario.source, place=lambda location: (*path, *location[1:])) from error
    if key == "command" and isinstance(value, str):
        _check_placeholders(path, "the command", value, scenario)
    kind = PLUGIN_SETTINGS.get(key)
    is_label = key in LABELS_OF_A_COMMAND and uses_command(scenario)
    if kind is not None and value not in (None, "auto") and not is_label:
        load(kind, value, scenario.source.where(path))


def _check_placeholders(path: Path, name: str, text: str, scenario: Scenario) -> None:
    allowed, where = {*keys(scenario), ATTEMPT}, scenario.source.where(path)
    if variable := re.search(r"\$\{(\w+)\}", text.replace("{{", "")):
        raise UserError(
            f"{name} has `{variable[0]}`: braces are placeholders of dlbench",
            hint=f"write {{{variable[1]}}} for a setting, and ${variable[1]} for a variable, within `bash -c '...'`",
            where=where,
        )
    unknown = next((name for name in placeholders(text) if name not in allowed), None)
    if unknown is not None:
        every = "every setting can be filled in, such as {workers}, {batch_size}, {epochs}, {learning_rate} and {seed}"
        hint = f"{nearest(unknown, allowed)} {every}; `dlbench list settings` shows all".strip()
        raise UserError(f"{name} has an unknown placeholder {{{shorten(unknown)}}}", hint=hint, where=where)


def _check_option(path: Path, key: str, value: Any, candidates: Candidates, source: Source) -> None:
    prefix, dot, name = key.partition(".")
    if dot and prefix in OPTION_PREFIXES and prefix not in candidates:
        return  # a plugin that it names is not there, which has been said
    if not dot or prefix not in candidates:
        if (section := prefix if dot else key) in Scenario.model_fields:
            hint = f"`{section}` belongs to the scenario itself: write it beside `{path[0]}`, not inside it"
            raise UserError(f"unknown key {shown(key)}", where=source.where(path), hint=hint)
        more = "`dlbench list settings` shows all; options of plugins are dotted: `model.hidden`"
        raise unknown_key(key, (*Settings.model_fields, *_option_keys(candidates)), source.where(path), more)
    where = source.where(path)
    owners = [plugin for plugin in candidates[prefix] if name in plugin.options.model_fields]
    if not owners:
        options = _option_keys({prefix: candidates[prefix]})
        who = ", ".join(plugin.name for plugin in candidates[prefix]) or f"this {prefix}"
        raise UserError(f"{who} has no option {shown(name)}", hint=unknown_key(key, options, where).hint, where=where)
    failures = [error for plugin in owners if (error := _option_error(plugin.options, name, value)) is not None]
    if len(failures) == len(owners):
        raise translate(failures[0], source, place=lambda location: (*path, *location[1:]), only=name)


def _option_error(options: type[BaseModel], name: str, value: Any) -> ValidationError | None:
    """Return what is wrong with one option by itself; a missing other option is not."""
    try:
        options.model_validate({name: value})
    except ValidationError as error:
        return error if any(detail["loc"][:1] == (name,) for detail in error.errors()) else None
    return None
