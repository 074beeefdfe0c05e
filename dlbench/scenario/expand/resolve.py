"""Resolve a point to an arm: every default filled in, nothing `auto` left."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from dlbench import plugins
from dlbench.errors import UserError
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.cluster.spread import starts_here
from dlbench.scenario.expand.points import Point
from dlbench.scenario.needs import SERVER
from dlbench.scenario.plugin_settings import (
    LABELS_OF_A_COMMAND,
    is_label,
    load,
    needs_of,
    num_slots,
    provides,
    trainer_of,
)
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.scenario import Scenario
from dlbench.scenario.settings import OPTION_PREFIXES, SIMULATED, Mode, Placement, Settings, value_of
from dlbench.scenario.source import Path, Source, translate

# The order in which launchers are tried where several can carry a strategy.
_PREFERRED_LAUNCHERS = ("local", "mpirun", "horovodrun", "srun")


@dataclass(frozen=True)
class PlannedArm:
    """One point, resolved.

    Attributes:
        point: What was written.
        unresolved: What was written, or the default, of the settings that are resolved.
        run: Its first repeat. `launcher` stays `auto` where none can carry the strategy; the cores of a worker depend
            on the other arms, and so does what the run is called: its label and axes are empty.
    """

    point: Point
    unresolved: Mapping[str, Any]
    run: RunSpec

    def has(self, key: str, value: Any) -> bool:
        """Whether this arm has a value, as it is written: what `exclude` asks."""
        if key in Settings.model_fields:
            return bool(self.written(key) == value_of(key, value))
        return key in self.run.options and bool(self.run.options[key] == self._as_option(key, value))

    def written(self, key: str) -> Any:
        """Return the value of a setting as it was written, or its default."""
        return self.unresolved[key] if key in self.unresolved else getattr(self.run.settings, key)

    def _as_option(self, key: str, value: Any) -> Any:
        """Return a value as its plugin reads it: `batch_norm: true` is `local`."""
        prefix, _, name = key.partition(".")
        plugin = load(OPTION_PREFIXES[prefix], getattr(self.run.settings, prefix))
        try:
            options = plugin.options.model_validate({**self.run.options_of(prefix), name: value})
        except ValidationError:
            return value
        return options.model_dump(mode="json")[name]

    def value(self, key: str) -> Any:
        """Return the resolved value of a setting or option, JSON-able; None where it has none."""
        if key in Settings.model_fields:
            return self.run.settings.model_dump(mode="json", include={key})[key]
        return self.run.options.get(key)


def resolve(point: Point, scenario: Scenario, cluster: Cluster, *, is_baseline: bool = False) -> PlannedArm:
    """Return the arm of a point; its settings were checked where the scenario was read.

    Raises:
        UserError: A value is not one of its option's.
    """
    written = Settings.model_validate({key: value for key, value in point.values.items() if "." not in key})
    resolved = _of_strategy(written, point, cluster)
    is_chosen = written.command is not None and written.launcher != "auto"
    connects_scripts = is_chosen and load("launchers", written.launcher).get("CONNECTS_SCRIPTS")
    if written.workers_inside or connects_scripts:  # by what the launcher sets: their library is not known
        resolved["collectives"] = None
    # An axis of backends goes before a trainer that `base` names for all; two that contradict each other are refused.
    if "trainer" not in point.values or (point.is_common("trainer") and not point.is_common("backend")):
        resolved["trainer"] = trainer_of(written)
    resolved |= {
        "launcher": _launcher(written, resolved["collectives"], cluster),
        "submitter": written.submitter if "submitter" in point.values else cluster.submitter,
    }
    if written.command is not None:
        # The user's own script decides them: what is left out is unknown.
        resolved |= {key: "" for key in LABELS_OF_A_COMMAND if key not in point.values}
    settings = written.model_copy(update=resolved)
    if not settings.is_simulated and settings.mode is None and settings.workers_per_host is None:
        # Workers sit on one host if they fit there, unless the scenario says otherwise.
        fits = len(cluster.hosts) == 1 or num_slots(settings) <= max(host.slots for host in cluster.hosts)
        resolved["mode"] = Mode.SCALE_UP if fits else None
        settings = settings.model_copy(update={"mode": resolved["mode"]})
    options: dict[str, Any] = {}
    for prefix, kind in OPTION_PREFIXES.items():
        name = getattr(settings, prefix)
        if name not in (None, "auto") and not is_label(settings, prefix):
            plugin = load(kind, name, scenario.source.where(point.origins.get(prefix, ())))
            options |= _options_of(plugin, prefix, point, scenario.source)
    run = RunSpec(
        scenario=scenario.name,
        label="",
        repeat=0,
        settings=settings,
        options=options,
        target=scenario.target,
        metrics=scenario.metrics,
        limits=scenario.limits,
        baseline=is_baseline,
    )
    return PlannedArm(point, {key: getattr(written, key) for key in (*resolved, "cores_per_worker")}, run)


def _of_strategy(written: Settings, point: Point, cluster: Cluster) -> dict[str, Any]:
    """Return the settings that a strategy may have: what is written, else its own choice.

    What `base` says for all arms does not reach a strategy that has no such setting.
    """
    needs = needs_of(written.strategy)

    def reaching(key: str, has_it: object) -> Any:
        is_for_others = not has_it and point.is_common(key) and not point.is_common("strategy")
        return None if is_for_others else getattr(written, key)

    def chosen(key: str, choices: Sequence[str]) -> Any:
        value = reaching(key, choices)
        return value if value is not None else next(iter(choices), None)

    can_be_simulated = needs.simulated and written.is_simulated
    communicator = chosen("communicator", (SIMULATED,) if can_be_simulated else needs.communicators)
    usable = () if communicator == SIMULATED else needs.collectives
    launchers = {name: _launcher(written, name, cluster) for name in usable}
    there = [
        name
        for name, launcher in launchers.items()
        if launcher != "auto" and name in provides(launcher, written.strategy)
    ]
    has_servers = SERVER in needs.roles
    servers, placement = reaching("servers", has_servers), reaching("server_placement", has_servers)
    if has_servers:
        servers = servers or 1
        # Real ones take no cores away from the workers that all arms have, unless asked to.
        placement = placement or (Placement.OWN if communicator == SIMULATED else Placement.BESIDE)
    return {
        "communicator": communicator,
        "algorithm": chosen("algorithm", needs.algorithms),
        "collectives": chosen("collectives", there or usable),
        "servers": servers,
        "server_placement": placement,
        "evaluator": reaching("evaluator", needs.nodes),
        "compression": reaching("compression", needs.compresses),
    }


def _launcher(settings: Settings, collectives: str | None, cluster: Cluster) -> str:
    """Return who starts the processes and provides the collectives: the cluster's launcher, else the first that can."""
    if settings.launcher != "auto":
        return settings.launcher
    if cluster.launcher is not None and (
        collectives is None or collectives in provides(cluster.launcher, settings.strategy)
    ):
        return cluster.launcher
    is_here = starts_here(cluster)
    names = [name for name in plugins.names("launchers") if is_here or load("launchers", name).get("MULTIPLE_HOSTS")]
    order = [name for name in _PREFERRED_LAUNCHERS if name in names]
    order += [name for name in names if name not in order]
    able = (name for name in order if collectives is None or collectives in provides(name, settings.strategy))
    return next(able, "auto")


def _options_of(plugin: plugins.Plugin, prefix: str, point: Point, source: Source) -> dict[str, Any]:
    """Return the options that a point gives to one plugin, and the defaults of its others."""
    is_chosen = not point.is_common(prefix) or point.values.get(prefix, "auto") == "auto"
    written = {}
    for key, value in point.values.items():
        start, dot, name = key.partition(".")
        # What `base` says for all reaches the plugins that have it where an axis (or `auto`) chooses the plugin.
        is_for_others = is_chosen and point.is_common(key) and name not in plugin.options.model_fields
        if dot and start == prefix and not is_for_others:
            written[name] = value
    origins = {name: point.origins[f"{prefix}.{name}"] for name in written}

    def place(location: Path) -> Path:
        if not location or location[0] not in origins:
            return (*point.origins.get(prefix, ()), *location[:1])
        return (*origins[str(location[0])], *location[1:])

    try:
        options = _complete(plugin.options, json.dumps(written))
    except ValidationError as error:
        allowed = [f"{prefix}.{name}" for name in plugin.options.model_fields]
        refusal, detail = translate(error, source, lambda _: allowed, place), error.errors()[0]
        key = ".".join(map(str, (prefix, *detail["loc"])))
        if detail["type"] == "extra_forbidden":
            message = f"{plugin.name} has no option {key}"
            raise UserError(message, hint=refusal.hint, where=refusal.where) from error
        if detail["type"] == "missing":
            raise UserError(f"{plugin.name} needs {key}", hint=f"add `{key}`", where=refusal.where) from error
        raise refusal from error
    return {f"{prefix}.{name}": value for name, value in options.items()}


@lru_cache(maxsize=1024)
def _complete(options: type[plugins.Options], written: str) -> Mapping[str, Any]:
    """Return a plugin's options with their defaults: most arms of a study have the same."""
    return options.model_validate(json.loads(written)).model_dump(mode="json")
