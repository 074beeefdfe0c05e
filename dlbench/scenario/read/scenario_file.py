"""Read a scenario: YAML, every value with its line, every mistake one clear message."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from keyword import iskeyword
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dlbench.errors import UserError, joined, nearest, shown
from dlbench.scenario import reference
from dlbench.scenario.goal import Goal, read_goal
from dlbench.scenario.metrics import BUILT_IN, MetricDeclaration, declared
from dlbench.scenario.read.document import Document, inline, parse_value, read_text
from dlbench.scenario.read.document import parse as parse_document
from dlbench.scenario.read.packaged import located
from dlbench.scenario.read.values import AXES, mistakes, uses_command
from dlbench.scenario.reference import Reference
from dlbench.scenario.run_spec import Target
from dlbench.scenario.scenario import FORMS_OF_REPEATS, Repeats, Scenario, name_from
from dlbench.scenario.settings import Settings
from dlbench.scenario.source import Path as DataPath
from dlbench.scenario.source import Source, translate

# What leaves network, data, engine, workers and evaluations as they are.
TUNED = frozenset({
    "batch_doubling_epochs", "batch_policy", "batch_policy_steps", "batch_size", "gradient_accumulation_steps",
    "largest_batch_size", "learning_rate", "learning_rate_base_batch", "learning_rate_decay",
    "learning_rate_decay_epochs", "learning_rate_decay_factor", "learning_rate_scale", "microbatch_size", "momentum",
    "nesterov", "optimizer", "server_placement", "servers", "warmup_epochs", "weight_decay",
})  # fmt: skip
NOT_TUNED = ("dataset.", "model.", "communicator.", "launcher.")
# Keys of a scenario that hold one value; all others are settings of `base` or axes.
_SECTIONS = AXES | {"exclude"}
_TOP = frozenset(Scenario.model_fields) - _SECTIONS
# A line of a hostfile, of Open MPI's form or MPICH's.
_HOSTFILE = re.compile(r"[\w.-]+(\s+slots\s*=|:\d+(\s|$))")
_Check = Callable[[Scenario], Iterable[UserError]]
_METRIC_NAME = re.compile(r"[a-z]\w{0,59}", re.ASCII | re.IGNORECASE)


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
    parsed, options = parse_document(text, str(path)), {}
    for key, value in values.items() if isinstance(parsed.data, dict) else ():
        option = f"--set {key}"
        options[_replace(parsed.data, key, parse_value(value, option, key))] = option
    parsed = Document(parsed.data, replace(parsed.source, options=options))
    scenario = _scenario(parsed, name_from(path.stem))
    reference_of(scenario, path)
    return scenario, _written(parsed.data, values) if values else text


def parse(text: str, name: str) -> Scenario:
    """Read a scenario from text; `name` is what messages call it and, without its suffix, the default name.

    Whether the reference that it names is there is not asked: `reference_of` does.
    """
    return _scenario(parse_document(text, name), name_from(Path(name).stem))


def parse_kept(text: str, name: str) -> Scenario:
    """Read a scenario that a study keeps, as `parse` does, but load none of the plugins that it names.

    Its values were checked when the study began; a user's own plugins may be elsewhere, and take long to import.
    """
    return _scenario(parse_document(text, name), name_from(Path(name).stem), ())


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


def _written(data: Mapping[str, Any], values: Mapping[str, str]) -> str:
    """Return a scenario as text that reads back to the same values, and says what was replaced."""
    options = " ".join(f"--set {key}={value}" for key, value in values.items())
    lines = [f"# With {' '.join(options.split())}"]
    for key, value in data.items():
        if isinstance(value, dict) and value:
            lines += [f"{inline(key)}:", *(f"  {inline(name)}: {inline(item)}" for name, item in value.items())]
        else:
            lines.append(f"{inline(key)}: {inline(value)}")
    return "\n".join(lines) + "\n"


def _replace(data: dict[str, Any], key: str, value: Any) -> DataPath:
    """Replace one value by that of `--set`, as if the file held it; return its path.

    A key of the scenario itself (`repeats`) is replaced there, `target.value` in the target, `tune.repeats` in the
    search, an axis in its place by one value or a list, and any other option in `base`, as is a setting; several
    values of one become an axis.

    Raises:
        UserError: The key varies together with others, so that it alone cannot change.
    """
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


def _scenario(written_as: Document, name: str, of_values: Sequence[_Check] = (mistakes,)) -> Scenario:
    data, source, where = written_as.data, written_as.source, written_as.source.where()
    if data is None:
        raise UserError("is empty", where=source.name, hint="a scenario needs `base` or `matrix`")
    if not isinstance(data, dict):
        is_hostfile = isinstance(data, str) and _HOSTFILE.match(data)
        hint = f"it looks like a hostfile: dlbench run SCENARIO --hostfile {source.name}" if is_hostfile else ""
        raise UserError(f"a scenario is a mapping of keys to values, not {shown(data)}", where=where, hint=hint)
    if "apiVersion" in data and "kind" in data:
        hint = "a cluster file with `submitter: kubernetes` makes one of a scenario (docs/queues.md)"
        raise UserError(f"it is a manifest of Kubernetes ({shown(data['kind'])})", where=where, hint=hint)
    content: dict[str, Any] = {"name": name} | data
    if isinstance(data.get("zip"), dict):
        # One mapping stands for a list of one.
        content["zip"] = [data["zip"]]
        lines = {("zip", 0, *path[1:]) if path[:1] == ("zip",) else path: line for path, line in source.lines.items()}
        source = replace(source, lines=lines)
    try:
        scenario = Scenario.model_validate(content).written_in(source)
    except ValidationError as error:
        raise joined([translate(error, source, _allowed, _place), *_others(content, error, source)]) from error
    checks = (_metric_mistakes, _target_mistakes, _goal_mistakes, _tune_mistakes, *of_values)
    if errors := [error for check in checks for error in check(scenario)]:
        raise joined(errors)
    return scenario


def _place(location: DataPath) -> DataPath:
    """Return where something was written: of what has several forms pydantic names the form, too."""
    return tuple(part for part in location if part not in FORMS_OF_REPEATS)


def _others(content: dict[str, Any], error: ValidationError, source: Source) -> Sequence[UserError]:
    """Return what is wrong in other parts of a scenario than those that have not the right form."""
    right = dict(content)
    for section, *inner in (detail["loc"] for detail in error.errors() if detail["loc"]):
        # Of a matrix whose one axis is wrong the others are looked at.
        if section == "matrix" and inner and section in right:
            right[section] = {key: axis for key, axis in right[section].items() if key != inner[0]}
        else:
            right.pop(str(section), None)
    try:
        valid = Scenario.model_validate(right)
    except ValidationError:
        return ()
    return mistakes(valid.written_in(source), is_whole=all(content.get(key) == right.get(key) for key in AXES))


def _allowed(path: DataPath) -> Iterable[str]:
    """Return the keys allowed where `path` stands: the scenario's own, a metric's or the target's."""
    if len(path) == 1:
        return Scenario.model_fields
    fields = {"metrics": MetricDeclaration.model_fields, "repeats": Repeats.model_fields}
    return fields.get(str(path[0]), Target.model_fields)


def _metric_mistakes(scenario: Scenario) -> Iterator[UserError]:
    """Yield what is wrong with names of metrics; `dlbench.study.plan` refuses those of other columns."""
    for name, declaration in scenario.metrics.items():
        where = scenario.source.where(("metrics", name))
        lacking = [key for key in ("better", "matters") if getattr(declaration, key) is None]
        if mistake := declaration.mistake(name):
            yield UserError(f"metrics.{name}: {mistake}", where=where)
        elif declaration.is_taken and not uses_command(scenario):
            yield UserError(f"metrics.{name} is what a script prints or writes, and there is no `command`", where=where)
        elif name in BUILT_IN and (len(lacking) < 2 or not declaration.is_taken):
            hint = "where the script prints it: `" + name + ": 'a regular expression with (one group)'`"
            yield UserError(f"{name} is known: it need not be declared", where=where, hint=hint)
        elif name not in BUILT_IN and lacking:
            hint = f"such as `{name}: {{better: lower, matters: 2%}}`; known are: {', '.join(BUILT_IN)}"
            yield UserError(f"metrics.{name}.{lacking[0]} is missing", where=where, hint=hint)
        elif not _METRIC_NAME.fullmatch(name) or iskeyword(name):
            hint = "letters, digits and _, as in `run.epoch(top5_accuracy=0.9)`"
            yield UserError(f"{shown(name)} cannot name a metric", where=where, hint=hint)


def _goal_mistakes(scenario: Scenario) -> Iterator[UserError]:
    where = scenario.source.where(("goal",))
    try:
        goal = read_goal(scenario.goal, declared(scenario.metrics), where) if scenario.goal else Goal()
    except UserError as error:
        goal = Goal()
        yield error
    target, set_target = goal.target, scenario.target and (scenario.target.metric, scenario.target.value)
    # Runs depend on it before any answer is asked for.
    if target and target != set_target and (scenario.tune is not None or isinstance(scenario.repeats, Repeats)):
        hint = f"add `target: {{metric: {target[0]}, value: {target[1]:g}}}`"
        yield UserError("searches and repeats until decided need the goal's target as `target`", where=where, hint=hint)
    axes = dict.fromkeys(key for _, key, _ in scenario.entries())
    for place, key in enumerate(scenario.given):
        if key not in axes:
            hint = nearest(key, axes) or f"there are: {', '.join(axes)}"
            where = scenario.source.where(("given", place))
            yield UserError(f"given names {shown(key)}, which is no axis of the scenario", where=where, hint=hint)


def _tune_mistakes(scenario: Scenario) -> Iterator[UserError]:
    candidates = scenario.tune.candidates if scenario.tune else {}
    axes = {key for path, key, _ in scenario.entries() if path[0] in ("matrix", "zip", "include")}
    if scenario.tune and not candidates:
        hint = "such as `learning_rate: auto`"
        yield UserError("tune names nothing to search for", where=scenario.source.where(("tune",)), hint=hint)
    warm_ups = [value for _, key, value in scenario.entries() if key == "warmup_epochs"]
    warm_up = max((value for value in warm_ups if isinstance(value, int | float)), default=0)
    if scenario.tune and scenario.tune.epochs is not None and scenario.tune.epochs < warm_up:
        where = scenario.source.where(("tune", "epochs"))
        yield UserError(f"tune.epochs is less than warmup_epochs {warm_up:g}: no rate is ever reached", where=where)
    for key, values in candidates.items():
        where = scenario.source.where(("tune", key))
        if key in axes:
            yield UserError(f"{key} is an axis: it cannot be searched for, too", where=where)
        elif key in scenario.given:
            yield UserError(f"{key} is a condition (`given`): it cannot be searched for", where=where)
        elif (key in Settings.model_fields and key not in TUNED) or key.startswith(NOT_TUNED):
            hint = f"make it an axis; of settings there are: {', '.join(sorted(TUNED))}"
            yield UserError(f"{key} cannot be searched for: it changes what is compared", where=where, hint=hint)
        elif not values and key != "learning_rate" and (key in Settings.model_fields or "." in key):
            hint = f"write the values to try: `{key}: [..., ...]`"
            yield UserError(f"values of {key} cannot be found by themselves", where=where, hint=hint)


def _target_mistakes(scenario: Scenario) -> Iterator[UserError]:
    target = scenario.target
    if target is None:
        return
    scores = {name: metric for name, metric in declared(scenario.metrics).items() if metric.is_score}
    metric = scores.get(target.metric)
    if metric is None:
        # An accuracy means that of the samples which were not trained on.
        held_out = f"validation_{target.metric}"
        near = nearest(held_out if held_out in scores else target.metric, scores)
        hint = near or f"there are: {', '.join(scores)}; a script's own need `metrics`"
        where = scenario.source.where(("target", "metric"))
        yield UserError(f"there is no score {shown(target.metric)}", where=where, hint=hint)
        return
    worst = metric.least if metric.is_higher_better else metric.most
    if target.value == worst or not metric.least <= target.value <= metric.most:
        is_bounded = metric.most < math.inf
        limits = f"between {metric.least:g} and {metric.most:g}" if is_bounded else f"above {metric.least:g}"
        where = scenario.source.where(("target", "value"))
        yield UserError(f"{metric.title} lies {limits}: {target.value:g} is no target", where=where)
