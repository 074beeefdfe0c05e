"""The JSON Schema of a scenario, for editors: keys, types, meanings, the names of plugins and their options."""

from typing import Any

from pydantic import BaseModel

from dlbench import plugins
from dlbench.scenario.scenario import Scenario
from dlbench.scenario.settings import OPTION_PREFIXES, PLUGIN_SETTINGS, Settings
from dlbench.scenario.units import pattern_of

Schema = dict[str, Any]

_POINT = {"$ref": "#/$defs/point"}
_AXES = {"$ref": "#/$defs/axes"}


def schema() -> Schema:
    """Return the JSON Schema (draft 2020-12) of a scenario file with the plugins that are installed."""
    definitions: Schema = {}
    settings = _properties(Settings, definitions)
    settings |= {key: _named(key, settings[key]) for key in settings if key in PLUGIN_SETTINGS}
    keys = _with_units(settings | _options(definitions))
    properties = _properties(Scenario, definitions)
    properties = _with_units(properties) | _sections(properties)
    definitions["point"] = _mapping(keys)
    axes, any_axis = {key: _axis(value) for key, value in keys.items()}, {"type": "array", "minItems": 1}
    # `epochs` and `repeats` are those of the search.
    tried = axes | {"learning_rate": {"anyOf": [axes["learning_rate"], {"const": "auto"}]}}
    definitions["Tune"] = _mapping(tried | definitions["Tune"]["properties"], any_axis)
    definitions["axes"] = _mapping(axes, any_axis)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dlbench scenario",
        "description": "What to measure: settings common to all runs, the axes that vary, and how often.",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "$defs": definitions,
    }


def _with_units(keys: Schema) -> Schema:
    """Return the keys, those whose name has a unit with a text such as `5m` beside their number."""
    taking = dict(keys)
    for key, value in keys.items():
        if pattern := pattern_of(key):
            described = {name: value[name] for name in ("description", "default") if name in value}
            taking[key] = described | {"anyOf": [value, {"type": "string", "pattern": pattern}]}
    return taking


def _sections(properties: Schema) -> Schema:
    """Return the sections that hold points and axes; an empty one (`matrix:` with nothing under it) is allowed."""
    shapes: dict[str, list[Schema]] = {
        "base": [_POINT],
        "matrix": [_AXES],
        "zip": [_AXES, {"type": "array", "items": _AXES}],
        "include": [{"type": "array", "items": _POINT}],
        "exclude": [{"type": "array", "items": _POINT}],
    }
    return {
        key: {"description": properties[key]["description"], "anyOf": [*anyof, {"type": "null"}]}
        for key, anyof in shapes.items()
    }


def _properties(model: type[BaseModel], definitions: Schema) -> Schema:
    """Return the schema of each field of a model, whose definitions join the others."""
    schema_of = model.model_json_schema()
    definitions |= schema_of.get("$defs", {})
    return dict(schema_of["properties"])


def _named(key: str, value: Schema) -> Schema:
    """Return the schema of a setting that names a plugin: one of those there are, or a reference."""
    names = list(plugins.names(PLUGIN_SETTINGS[key]))
    # A file `keras_tensorflow` may be written `keras-tensorflow`.
    names += [name.replace("_", "-") for name in names if "_" in name] + (["auto"] if key == "launcher" else [])
    allowed: list[Schema] = [{"enum": names}, {"type": "string", "pattern": ".+:.+"}]
    if value.get("default", "") is None:
        allowed.append({"type": "null"})
    # A script of the user's own may be called anything.
    if key in ("model", "dataset", "trainer"):
        allowed.append({"type": "string"})
    return {"description": value["description"], "default": value.get("default"), "anyOf": allowed}


def _options(definitions: Schema) -> Schema:
    """Return the options of all plugins by dotted name; one that several have is any of theirs."""
    by_key: dict[str, list[Schema]] = {}
    for prefix, kind in OPTION_PREFIXES.items():
        for name in plugins.names(kind):
            template = f"#/$defs/{kind}.{name}.{{model}}"
            options = plugins.load(kind, name).options.model_json_schema(ref_template=template)
            for inner, definition in options.get("$defs", {}).items():
                definitions[f"{kind}.{name}.{inner}"] = definition
            for option, value in options.get("properties", {}).items():
                values = by_key.setdefault(f"{prefix}.{option}", [])
                values += [value] if value not in values else []
    return {key: values[0] if len(values) == 1 else {"anyOf": values} for key, values in by_key.items()}


def _axis(value: Schema) -> Schema:
    described = {"description": value["description"]} if "description" in value else {}
    return {**described, "type": "array", "minItems": 1, "items": value}


def _mapping(properties: Schema, other: Schema | None = None) -> Schema:
    """Return an object with these keys and, for plugins of the user's own, any dotted option."""
    dotted = f"^({'|'.join(OPTION_PREFIXES)})\\.."
    return {
        "type": "object",
        "properties": properties,
        "patternProperties": {dotted: other or {}},
        "additionalProperties": False,
    }
