"""Read a scenario: YAML, every value with its line, every mistake one clear message."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dlbench.errors import UserError, joined, shown
from dlbench.scenario import reference
from dlbench.scenario.read import document
from dlbench.scenario.read.document import read_text
from dlbench.scenario.read.overrides import overridden, written
from dlbench.scenario.read.packaged import located
from dlbench.scenario.read.values import AXES, mistakes
from dlbench.scenario.reference import Reference
from dlbench.scenario.run_spec import Target
from dlbench.scenario.scenario import Scenario, name_from
from dlbench.scenario.source import Path as DataPath
from dlbench.scenario.source import Source, translate
from dlbench.scenario.units import with_units


def read(path: Path, values: Mapping[str, str] | None = None) -> Scenario:
    """Read a scenario file.

    Args:
        path: The file, or the name of a scenario that comes with dlbench.
        values: What replaces its values, by key, as it is written in YAML.

    Raises:
        UserError: It cannot be read, or holds something that is not allowed, such as a reference that is not there;
            says the file and line.
    """
    return read_with_text(path, values or {})[0]


def read_with_text(path: Path, values: Mapping[str, str]) -> tuple[Scenario, str]:
    """Read a scenario file; return its text, too: verbatim, or where values are replaced one that holds those.

    Raises:
        UserError: As `read`.
    """
    path = located(path)
    text = read_text(path, "scenario")
    found = document.parse(text, str(path))
    if values:
        found = overridden(found, values)
    scenario = _scenario(found, name_from(path.stem))
    reference_of(scenario, path)
    return scenario, written(found.data, values) if values else text


def parse(text: str, name: str) -> Scenario:
    """Read a scenario from text; `name` is what messages call it and, without its suffix, the default name.

    Whether the reference that it names is there is not asked: `reference_of` does.
    """
    return _scenario(document.parse(text, name), name_from(Path(name).stem))


def reference_of(scenario: Scenario, path: Path | None = None) -> Reference | None:
    """Return the published numbers that a scenario is compared with; None where it names none.

    Args:
        scenario: The scenario.
        path: Its file, or its name where it comes with dlbench; None for one that has neither.

    Raises:
        UserError: They are not there, or their file is not of the form.
    """
    if not scenario.reference:
        return None
    beside = None if path is None else located(path)
    return reference.read(reference.find(scenario.reference, beside, scenario.source.where(("reference",))))


def _scenario(written_as: document.Document, name: str) -> Scenario:
    data, source = written_as.data, written_as.source
    if data is None:
        raise UserError("is empty", where=source.name, hint="a scenario needs `base` or `matrix`")
    if not isinstance(data, dict):
        raise UserError(f"a scenario is a mapping of keys to values, not {shown(data)}", where=source.where())
    source = _linked_lines(data, source)
    given = {"name": name} | with_units(data)
    try:
        scenario = Scenario.model_validate(given).written_in(source)
    except ValidationError as error:
        places = [detail["loc"] for detail in error.errors() if detail["loc"]]
        # Of a matrix whose one axis is wrong the others are looked at.
        wrong = {place[: 2 if place[0] == "matrix" else 1] for place in places}
        raise joined([translate(error, source, _allowed), *_others(given, wrong, source)]) from error
    if found := [*_target_mistakes(scenario), *mistakes(scenario)]:
        raise joined(found)
    return scenario


def _others(given: dict[str, Any], wrong: set[DataPath], source: Source) -> Sequence[UserError]:
    """Return what is wrong in other parts of a scenario than those that are wrong in themselves."""
    right = {
        key: {name: part for name, part in value.items() if (key, name) not in wrong}
        if isinstance(value, dict)
        else value
        for key, value in given.items()
        if (key,) not in wrong
    }
    try:
        rest = Scenario.model_validate(right)
    except ValidationError:
        return ()
    return mistakes(rest.written_in(source), is_whole=AXES.isdisjoint(path[0] for path in wrong))


def _linked_lines(data: dict[str, Any], source: Source) -> Source:
    """Return the lines as if a single `zip` mapping had been written as a list of one: so the model holds it."""
    if not isinstance(data.get("zip"), dict):
        return source
    moved = {("zip", 0, *path[1:]) if path[:1] == ("zip",) else path: line for path, line in source.lines.items()}
    return replace(source, lines=moved)


def _allowed(path: DataPath) -> Iterable[str]:
    """Return the keys allowed where `path` stands: the scenario's own, or the target's."""
    return Target.model_fields if len(path) > 1 else Scenario.model_fields


def _target_mistakes(scenario: Scenario) -> Iterator[UserError]:
    target = scenario.target
    if target is None:
        return
    where = scenario.source.where(("target", "value"))
    if target.metric.endswith("accuracy") and not 0 < target.value <= 1:
        yield UserError(f"an accuracy lies between 0 and 1; {target.value} is never the target", where=where)
    if target.metric.endswith("loss") and target.value < 0:
        yield UserError(f"a loss is never negative; {target.value} cannot be reached", where=where)
