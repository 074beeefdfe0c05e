"""Can this run be? Everything that needs more than one value to know, found before anything is started."""

import json
import shlex
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING

from dlbench import plugins
from dlbench.errors import UserError, nearest, shorten, shown
from dlbench.scenario import augmentation, engine
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.needs import Needs
from dlbench.scenario.placeholders import names
from dlbench.scenario.queued import starts_here
from dlbench.scenario.resolve import is_label, needs_of, provides
from dlbench.scenario.run_spec import BatchOrigin, RunSpec
from dlbench.scenario.settings import BatchScope, Divide, LearningRateScale, Mode, Settings
from dlbench.scenario.spread import spread

if TYPE_CHECKING:
    from dlbench.datasets._description import Description


# What data sets have said already, so that each is asked only once for the same options.
Descriptions = MutableMapping[str, "Description | None"]


@dataclass(frozen=True)
class _Case:
    """A run with what its plugins say of themselves."""

    run: RunSpec
    cluster: Cluster
    seen: Descriptions

    @property
    def settings(self) -> Settings:
        return self.run.settings

    @cached_property
    def needs(self) -> Needs:
        return needs_of(self.settings.strategy)

    @cached_property
    def trainer(self) -> plugins.Plugin | None:
        return None if is_label(self.settings, "trainer") else plugins.load("trainers", self.settings.trainer)

    @cached_property
    def description(self) -> "Description | None":
        key = json.dumps([self.settings.dataset, self.run.options_of("dataset")])
        if key not in self.seen:
            self.seen[key] = describe(self.run)
        return self.seen[key]


def impossible(run: RunSpec, cluster: Cluster, seen: Descriptions | None = None) -> str:
    """Return why a run cannot be, or an empty string.

    Args:
        run: The run; its repeat does not matter.
        cluster: Where it would be.
        seen: What data sets said in calls before; is added to.

    Raises:
        UserError: The data set refuses its options, such as a folder that is not there.
    """
    case = _Case(run, cluster, {} if seen is None else seen)
    checks = _COMMAND_CHECKS if run.settings.command is not None else _CHECKS
    return next((reason for check in checks if (reason := check(case))), "")


def describe(run: RunSpec) -> "Description | None":
    """Return what is known of a run's data set before it is prepared; None where nothing is.

    Raises:
        UserError: The data set refuses its options.
    """
    plugin = plugins.load("datasets", run.settings.dataset)
    function = plugin.get("describe") if isinstance(plugin.target, ModuleType) else None
    if function is None:
        return None
    try:
        found: Description | None = function(plugin.options(**run.options_of("dataset")))
    except OSError as error:
        raise UserError(
            f"the data set {plugin.name} cannot be read: {shorten(error.strerror or str(error))}"
        ) from error
    return found


def num_training_samples(settings: Settings, description: "Description") -> int:
    """Return how many samples are trained on in an epoch."""
    available = description.num_train
    if not description.num_validation:
        available -= max(1, round(available * settings.validation_fraction))
    return min(available, settings.train_samples or available)


def _workers(case: _Case) -> str:
    needs, workers = case.needs, case.settings.workers
    if workers < needs.min_workers:
        return f"the strategy {case.settings.strategy} needs at least {needs.min_workers} workers"
    if needs.max_workers is not None and workers > needs.max_workers:
        most = f"{needs.max_workers} worker{'s' if needs.max_workers > 1 else ''}"
        return f"the strategy {case.settings.strategy} is for at most {most}"
    return ""


def _algorithm(case: _Case) -> str:
    return engine.choice(
        "algorithm", case.settings.algorithm, case.needs.algorithms, f"strategy {case.settings.strategy}"
    )


def _driver(case: _Case) -> str:
    return engine.choice("driver", case.settings.driver, case.needs.drivers, f"strategy {case.settings.strategy}")


def _collectives(case: _Case) -> str:
    settings = case.settings
    return engine.choice("collectives", settings.collectives, case.needs.collectives, f"strategy {settings.strategy}")


def _submitter(case: _Case) -> str:
    said, there = case.settings.submitter, case.cluster.submitter
    if said == there:
        return ""
    return f"`submitter: {said}` is said in a cluster file, beside the hosts to ask for; here it is {there}"


def _launcher(case: _Case) -> str:
    name, needed = case.settings.launcher, case.settings.collectives
    if name == "auto":
        return f"no launcher provides what the strategy {case.settings.strategy} needs: {needed}"
    if needed is not None and needed not in provides(name):
        return f"the launcher {name} does not provide {needed} to the strategy {case.settings.strategy}"
    plugin = plugins.load("launchers", name)
    refuse: Callable[..., str] | None = plugin.get("refuse")
    return "" if refuse is None else refuse(plugin.options(**case.run.options_of("launcher")), case.settings)


def _strategy(case: _Case) -> str:
    plugin = plugins.load("strategies", case.settings.strategy)
    refuse: Callable[..., str] | None = plugin.get("refuse")
    return "" if refuse is None else refuse(plugin.options(**case.run.options_of("strategy")), case.settings)


def _layout(case: _Case) -> str:
    settings = case.settings
    if (reason := _mode(settings)) != "":
        return reason
    try:
        counts = spread(settings, case.cluster)
    except UserError as error:
        return error.message
    if not case.cluster.is_here and (reason := _room(counts)) != "":
        return f"{reason}; {_fitting(counts, settings, case.cluster)}"
    return "" if starts_here(case.cluster) else _reach(settings, [host for host, _ in counts])


def _room(counts: Sequence[tuple[Host, int]]) -> str:
    workers, slots = sum(count for _, count in counts), sum(host.slots for host, _ in counts)
    if workers > slots:
        return f"{workers} workers do not fit on {slots} slots"
    crowded = [(count, host) for host, count in counts if count > host.slots]
    return f"{crowded[0][0]} workers do not fit on {crowded[0][1].slots} slots" if crowded else ""


def _fitting(counts: Sequence[tuple[Host, int]], settings: Settings, cluster: Cluster) -> str:
    """Say what would fit where the workers do not: fewer of them, or hosts with more slots."""
    needed = settings.workers_per_host or -(-settings.workers // len(counts))
    fewer = f"at most {sum(host.slots for host, _ in counts)} fit"
    if cluster.submitter == "direct":
        return f"{fewer}, or hosts with {needed} slots each"
    return f"{fewer}, or all with `hosts: {{count: {len(cluster.hosts)}, slots: {needed}}}`"


def _mode(settings: Settings) -> str:
    per_host = settings.workers_per_host
    if per_host is None or settings.mode is None:
        return ""
    if settings.mode is Mode.SCALE_OUT and per_host != 1:
        return f"mode scale-out means one worker per host, workers_per_host says {per_host}"
    if settings.mode is Mode.SCALE_UP and per_host < settings.workers:
        return f"mode scale-up means all {settings.workers} workers on one host, workers_per_host says {per_host}"
    return ""


def _reach(settings: Settings, hosts: Sequence[Host]) -> str:
    others = [host.address for host in hosts if not host.is_here]
    if others and not plugins.load("launchers", settings.launcher).get("MULTIPLE_HOSTS", False):
        return f"the launcher {settings.launcher} starts nothing on other hosts, such as {others[0]}"
    return ""


def _cores(case: _Case) -> str:
    wanted, most = case.settings.cores_per_worker, max(host.num_cores for host in case.cluster.hosts)
    if wanted is not None and wanted > most:
        return f"a worker cannot have {wanted:g} cores where a host has {most}"
    return ""


def _trainer(case: _Case) -> str:
    name, serves = case.settings.trainer, case.needs.trainers
    return f"the strategy {case.settings.strategy} works with {' or '.join(serves)}, not with {name}" * bool(
        serves and name not in serves
    )


def _model(case: _Case) -> str:
    assert case.trainer is not None
    builder = case.trainer.get("BUILDER")
    model = plugins.load("models", case.settings.model)
    has_it = model.get(builder) is not None if isinstance(model.target, ModuleType) else builder == "keras"
    return "" if has_it else f"the trainer {case.settings.trainer} cannot train the model {case.settings.model}"


def _engine(case: _Case) -> str:
    assert case.trainer is not None
    return engine.refusal(case.run, case.trainer, case.needs)


def _learning_rate(case: _Case) -> str:
    settings = case.settings
    if settings.learning_rate_scale is not LearningRateScale.NONE and settings.learning_rate_base_batch is None:
        return f"learning_rate_scale: {settings.learning_rate_scale} needs learning_rate_base_batch"
    return ""


def _batch(case: _Case) -> str:
    settings = case.settings
    if settings.batch_scope is BatchScope.GLOBAL and settings.batch_size < settings.workers:
        return f"a global batch of {settings.batch_size} does not give each of {settings.workers} workers a sample"
    return ""


def _largest(case: _Case) -> str:
    if case.run.batch_size_origin is not BatchOrigin.OPEN:
        return ""
    if case.settings.command is not None:
        return "batch_size: max is found with dlbench's own worker, not with a command"
    if not case.cluster.is_here:
        return "batch_size: max is found on this machine only, not on other hosts"
    return ""


def _samples(case: _Case) -> str:
    settings, description = case.settings, case.description
    if description is None:
        return ""
    available = num_training_samples(settings.model_copy(update={"train_samples": None}), description)
    if (settings.train_samples or 0) > available:
        return f"the data set {settings.dataset} has {available} training samples, not {settings.train_samples}"
    held_out = description.num_validation or description.num_train - available
    if (settings.validation_samples or 0) > held_out:
        return f"the data set {settings.dataset} has {held_out} validation samples, not {settings.validation_samples}"
    return _one_batch(case.run, settings.train_samples or available)


def _one_batch(run: RunSpec, available: int) -> str:
    if run.settings.divide is Divide.EPOCHS:
        batch, whose = run.local_batch_size(0), "of one worker"
    else:
        batch, whose = run.global_batch_size, "of all workers"
    if batch > available:
        return f"one batch {whose} is {batch} samples, and there are {available} to train on"
    return ""


def _shape(case: _Case) -> str:
    model = plugins.load("models", case.settings.model)
    refuse: Callable[..., str] | None = model.get("refuse") if isinstance(model.target, ModuleType) else None
    if refuse is None or case.description is None or case.description.input_shape is None:
        return ""
    reason = refuse(case.description, model.options(**case.run.options_of("model")))
    return f"the model {case.settings.model} refuses the data set {case.settings.dataset}: {reason}" if reason else ""


def _batch_norm(case: _Case) -> str:
    wants = case.run.options.get("model.batch_norm") == "synchronized" and case.settings.workers > 1
    return (
        f"the strategy {case.settings.strategy} reduces nothing inside the step, where `model.batch_norm: "
        "synchronized` sums its means over workers; use `local`, or a strategy such as horovod or mirrored"
    ) * bool(wants and not case.needs.reduces_in_step)


def _augmentation(case: _Case) -> str:
    return augmentation.refuse(case.settings, case.description)


def _command(case: _Case) -> str:
    command = case.settings.command or ""
    try:
        words = shlex.split(command)
    except ValueError as error:
        return f"the command {shown(command)} cannot be split into words: {error}"
    if not words:
        return "the command is empty"
    known = (*Settings.model_fields, *case.run.options)
    unknown = [name for name in names(command) if name not in known]
    near = nearest(unknown[0], known) if unknown else ""
    return f"the command has an unknown {{{shorten(unknown[0])}}}" + (f" ({near})" if near else "") if unknown else ""


def _script_checkpoints(case: _Case) -> str:
    if case.settings.checkpoint_every is None:
        return ""
    return "dlbench cannot make checkpoints of a script: leave checkpoint_every away, the command makes its own"


Check = Callable[[_Case], str]
_COMMAND_CHECKS: tuple[Check, ...] = (
    _workers, _algorithm, _driver, _collectives, _submitter, _launcher, _strategy, _layout, _cores, _learning_rate,
    _batch, _largest, _command, _script_checkpoints,
)  # fmt: skip
_CHECKS: tuple[Check, ...] = (
    _workers, _algorithm, _driver, _collectives, _submitter, _launcher, _strategy, _layout, _cores, _learning_rate,
    _batch, _largest, _trainer, _model, _engine, _samples, _shape, _batch_norm, _augmentation,
)  # fmt: skip
