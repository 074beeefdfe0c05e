"""Resolve a point to an arm: every default filled in, nothing `auto` left."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
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
        written: Its settings before they were resolved: as written, or the defaults.
        run: Its first repeat. `launcher` stays `auto` where none can carry the strategy; the cores of a worker depend
            on the other arms, and so does what the run is called: its label and axes are empty.
    """

    point: Point
    written: Settings
    run: RunSpec

    def with_run(self, **update: Any) -> "PlannedArm":
        """Return the arm with other values of its run."""
        return replace(self, run=self.run.model_copy(update=update))

    def has(self, key: str, value: Any) -> bool:
        """Whether this arm has a value, as it is written: what `exclude` asks."""
        if key in Settings.model_fields:
            return bool(getattr(self.written, key) == value_of(key, value))
        if key not in self.run.options:
            return False
        prefix, _, name = key.partition(".")
        plugin = load(OPTION_PREFIXES[prefix], getattr(self.run.settings, prefix))
        with suppress(ValidationError):  # as its plugin reads it: `batch_norm: true` is `local`
            options = plugin.options.model_validate({**self.run.options_of(prefix), name: value})
            value = options.model_dump(mode="json")[name]
        return bool(self.run.options[key] == value)

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
        settings = settings.model_copy(update={"mode": Mode.SCALE_UP if fits else None})
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
    return PlannedArm(point, written, run)


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

    def is_able(name: str) -> bool:
        return collectives is None or collectives in provides(name, settings.strategy)

    if settings.launcher != "auto":
        return settings.launcher
    if cluster.launcher is not None and is_able(cluster.launcher):
        return cluster.launcher
    is_here = starts_here(cluster)
    names = [name for name in plugins.names("launchers") if is_here or load("launchers", name).get("MULTIPLE_HOSTS")]
    order = (name for name in dict.fromkeys((*_PREFERRED_LAUNCHERS, *names)) if name in names)
    return next(filter(is_able, order), "auto")


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
