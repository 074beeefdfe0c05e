"""Read a scenario: YAML, every value with its line, every mistake one clear message."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dlbench.errors import UserError, shown
from dlbench.scenario import reference
from dlbench.scenario.read import document
from dlbench.scenario.read.document import read_text
from dlbench.scenario.read.values import check_values
from dlbench.scenario.reference import Reference
from dlbench.scenario.run_spec import Target
from dlbench.scenario.scenario import Scenario, name_from
from dlbench.scenario.source import Path as DataPath
from dlbench.scenario.source import Source, translate


def read(path: Path) -> Scenario:
    """Read a scenario file.

    Raises:
        UserError: It cannot be read, or holds something that is not allowed, such as a reference that is not there;
            says the file and line.
    """
    scenario = _scenario(document.parse(read_text(path, "scenario"), str(path)), name_from(path.stem))
    reference_of(scenario, path)
    return scenario


def parse(text: str, name: str) -> Scenario:
    """Read a scenario from text; `name` is what messages call it and, without its suffix, the default name.

    Whether the reference that it names is there is not asked: `reference_of` does.
    """
    return _scenario(document.parse(text, name), name_from(Path(name).stem))


def reference_of(scenario: Scenario, path: Path | None = None) -> Reference | None:
    """Return the published numbers that a scenario is compared with; None where it names none.

    Args:
        scenario: The scenario.
        path: Its file; None for one that has none.

    Raises:
        UserError: They are not there, or their file is not of the form.
    """
    if not scenario.reference:
        return None
    return reference.read(reference.find(scenario.reference, path, scenario.source.where(("reference",))))


def _scenario(found: document.Document, name: str) -> Scenario:
    data, source = found.data, found.source
    if data is None:
        raise UserError("is empty", where=source.name, hint="a scenario needs `base` or `matrix`")
    if not isinstance(data, dict):
        raise UserError(f"a scenario is a mapping of keys to values, not {shown(data)}", where=source.where())
    source = _linked_lines(data, source)
    try:
        scenario = Scenario.model_validate({"name": name} | data).written_in(source)
    except ValidationError as error:
        raise translate(error, source, _allowed) from error
    _check_target(scenario)
    check_values(scenario)
    return scenario


def _linked_lines(data: dict[str, Any], source: Source) -> Source:
    """Return the lines as if a single `zip` mapping had been written as a list of one: so the model holds it."""
    if not isinstance(data.get("zip"), dict):
        return source
    moved = {("zip", 0, *path[1:]) if path[:1] == ("zip",) else path: line for path, line in source.lines.items()}
    return Source(source.name, moved)


def _allowed(path: DataPath) -> Iterable[str]:
    """Return the keys allowed where `path` stands: the scenario's own, or the target's."""
    return Target.model_fields if len(path) > 1 else Scenario.model_fields


def _check_target(scenario: Scenario) -> None:
    target = scenario.target
    if target is None:
        return
    where = scenario.source.where(("target", "value"))
    if target.metric.endswith("accuracy") and not 0 < target.value <= 1:
        raise UserError(f"an accuracy lies between 0 and 1; {target.value} is never the target", where=where)
    if target.metric.endswith("loss") and target.value < 0:
        raise UserError(f"a loss is never negative; {target.value} cannot be reached", where=where)
