"""`dlbench list`: every plugin with its options, every setting, every column."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from dlbench.cli import options, tables
from dlbench.errors import UserError, nearest
from dlbench.plugins import FOLDERS

if TYPE_CHECKING:
    from pydantic import BaseModel

    from dlbench.plugins import Plugin

# What can be listed: kinds of plugins, and these.
LISTED = (*FOLDERS, "settings", "columns", "scenarios", "studies")
_OPTION_COLUMNS = ("name", "type", "default", "meaning")


def _names_of_kind(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offer the names of the kind that stands before, where it is one of plugins or scenarios."""
    from dlbench import plugins
    from dlbench.scenario.read import packaged

    kind = str(context.params.get("kind"))
    names = packaged.names() if kind == "scenarios" else plugins.names(kind) if kind in FOLDERS else ()
    return options.starting_with(names, begun)


@click.command("list")
@click.argument("kind", required=False, shell_complete=lambda _, __, begun: options.starting_with(LISTED, begun))
@click.argument("name", required=False, shell_complete=_names_of_kind)
@options.studies
def command(kind: str | None, name: str | None, studies: Path) -> None:
    """Show plugins and their options: all, those of one KIND, or the one called NAME.

    KIND is a kind of plugin (models, datasets, trainers, strategies, launchers, ...), or `settings`, or `columns`, or
    `scenarios` (those that come with dlbench; the text of NAME), or `studies` (those of scenario NAME).
    """
    if kind is None:
        _show_all()
    elif kind == "settings":
        from dlbench.scenario.settings import Settings

        tables.show("settings", _OPTION_COLUMNS, _picked(list(option_rows(Settings, "")), name, "setting"))
    elif kind == "columns":
        _show_columns(name)
    elif kind == "scenarios":
        _show_scenarios(name)
    elif kind == "studies":
        _show_studies(studies, name)
    else:
        _show_kind(_kind(kind), name)


def _show_all() -> None:
    from dlbench import plugins

    names = [(kind, name) for kind in plugins.FOLDERS for name in plugins.names(kind)]
    rows = [(*name, _failure(*name) or plugins.load(*name).doc) for name in names]
    tables.show("plugins", ("kind", "name", "what it is"), rows)
    click.echo("\n`dlbench list KIND` shows options; `dlbench list settings` and `dlbench list columns` show those.")


def _kind(word: str) -> str:
    """Return the kind that is meant: `model` means `models`."""
    kinds = {"strategy": "strategies"} | {name: kind for kind in FOLDERS for name in (kind, kind.removesuffix("s"))}
    if word not in kinds:
        there_are = f"there are: {', '.join(LISTED)}"
        raise UserError(f"there is nothing called {word!r} to list; {there_are}", hint=nearest(word, LISTED))
    return kinds[word]


def _show_kind(kind: str, name: str | None) -> None:
    from dlbench import plugins

    names = plugins.names(kind) if name is None else (name,)
    if not names:
        click.echo(f"there are no {kind}")
    for number, plugin in enumerate(names):
        if number:
            click.echo()
        if name is None and (failure := _failure(kind, plugin)):
            click.echo(f"{plugin}: {failure}")
        else:
            _show_plugin(plugins.load(kind, plugin))


def _show_plugin(plugin: "Plugin") -> None:
    from dlbench.scenario.settings import OPTION_PREFIXES

    click.echo(f"{plugin.name}: {plugin.doc}")
    for what in ("algorithms", "collectives", "communicators"):
        if values := getattr(plugin.get("NEEDS"), what, ()):
            click.echo(f"{what}: {', '.join(values)}")
    prefix = next((f"{prefix}." for prefix, kind in OPTION_PREFIXES.items() if kind == plugin.kind), "")
    if rows := list(option_rows(plugin.options, prefix)):
        tables.show(f"options of {plugin.name}", _OPTION_COLUMNS, rows)


def _failure(kind: str, name: str) -> str:
    """Return why a plugin cannot be loaded: one that is broken must not hide the others."""
    from dlbench import plugins

    try:
        plugins.load(kind, name)
    except UserError as error:
        return error.message
    return ""


def _show_columns(name: str | None) -> None:
    from dlbench.records.columns import TABLES

    rows = [
        (f"{table}.csv", column.name, column.kind, column.unit, column.meaning)
        for table, columns in TABLES.items()
        for column in columns
    ]
    picked = _picked(rows, name, "column", key=1)
    tables.show("columns", ("table", "name", "kind", "unit", "meaning"), picked)


def _show_scenarios(name: str | None) -> None:
    """Show what each scenario that comes with dlbench asks, or print the text of one, to be changed."""
    from dlbench.scenario.read import packaged
    from dlbench.scenario.read.scenario_file import read, read_with_text

    names = packaged.names()
    if name is None:
        rows = [(each, read(packaged.located(Path(each))).description) for each in names]
        tables.show("scenarios that come with dlbench", ("name", "what it asks"), rows)
    elif name in names:
        click.echo(read_with_text(packaged.located(Path(name)), {})[1], nl=False)
    else:
        there_are = f"there are: {', '.join(names)}"
        raise UserError(f"no scenario {name!r} comes with dlbench; {there_are}", hint=nearest(name, names))


def _show_studies(parent: Path, scenario: str | None) -> None:
    """Show the studies of a folder, the newest first."""
    from dlbench.cli.show import rows_of
    from dlbench.records import files
    from dlbench.records.outcome import Status
    from dlbench.study.attempts import statuses
    from dlbench.study.folder import studies_of

    folders = studies_of(parent, scenario)
    if not folders:
        of = f" of scenario {scenario!r}" if scenario else ""
        click.echo(f"there is no study{of} in {parent}")
        return
    rows = []
    for folder in reversed(folders):
        is_published = not (folder.path / files.RUNS_FOLDER).is_dir()
        ended = list(statuses(folder, rows_of(folder.path) if is_published else ()).values())
        counts = (len(ended), ended.count(Status.COMPLETED), ended.count(None))
        rows.append((str(folder.path), folder.record.created_at, *map(str, counts)))
    tables.show("studies", ("study", "begun at", "runs", "completed", "without outcome"), rows)


def _picked(rows: Sequence[Sequence[str]], name: str | None, what: str, key: int = 0) -> Sequence[Sequence[str]]:
    """Return the rows of this name, all where it is None; the name stands in the column `key`."""
    names = {row[key] for row in rows}
    if name is not None and name not in names:
        raise UserError(f"there is no {what} {name!r}", hint=nearest(name, names))
    return [row for row in rows if name in (None, row[key])]


def option_rows(options: "type[BaseModel]", prefix: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, default and meaning of each field."""
    schema = options.model_json_schema()
    definitions, required = schema.get("$defs", {}), schema.get("required", [])
    for name, value in schema.get("properties", {}).items():
        default = "needed" if name in required else ""
        if value.get("default") is not None:
            default = json.dumps(value["default"], ensure_ascii=False).strip('"')
        yield prefix + name, type_name(value, definitions), default, value.get("description", "")


def type_name(value: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Return a JSON Schema's type as people say it: `integer`, `list of integer`, `data or epochs`."""
    if "$ref" in value:
        return type_name(definitions[value["$ref"].rpartition("/")[2]], definitions)
    for key in ("anyOf", "oneOf", "allOf"):
        if key in value:
            return " or ".join(dict.fromkeys(type_name(each, definitions) for each in value[key]))
    if "enum" in value:
        return " or ".join(str(each) for each in value["enum"])
    if value.get("type") == "array":
        return f"list of {type_name(value.get('items', {}), definitions)}"
    return {"null": "nothing", "string": "text", "boolean": "true or false"}.get(
        value.get("type", ""), str(value.get("const", value.get("type", "anything")))
    )
