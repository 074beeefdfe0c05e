"""Whether a run is possible: what depends on more than one value, found before anything is started.

A check yields why a run cannot be. The first reason counts, and ends all checks: what follows it relies on it.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from glob import iglob

from dlbench import plugins
from dlbench.errors import UserError, shorten, shown
from dlbench.scenario.check.case import Case, Descriptions
from dlbench.scenario.check.script_warnings import missing_replicas, nested_launcher
from dlbench.scenario.check.training import TRAINING_CHECKS, choice
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.cluster.spread import slots_in_words, spread, starts_here
from dlbench.scenario.needs import SERVER
from dlbench.scenario.placeholders import ATTEMPT, names
from dlbench.scenario.plugin_settings import needs_of, num_slots, provides, trains_in_nodes
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import (
    PLUGIN_SETTINGS,
    SIMULATED,
    BatchScope,
    LearningRateScale,
    Mode,
    Precision,
    Settings,
)


def infeasibility(run: RunSpec, cluster: Cluster, seen: Descriptions, goal_score: str | None = None) -> str:
    """Return why a run cannot be, or an empty string.

    Args:
        run: The run; its repeat does not matter.
        cluster: Where it would be.
        seen: Descriptions of data sets from earlier calls; new ones are added.
        goal_score: The score that the scenario's goal names.

    Raises:
        UserError: The data set refuses its options, such as a folder that is not there.
    """
    case = Case(run, cluster, seen, goal_score)
    checks = (*_CHECKS, *(TRAINING_CHECKS if run.settings.command is None else (_command,)))
    return next((reason for check in checks for reason in check(case) if reason), "")


def _needs(case: Case) -> Iterator[str]:
    settings, needs, who = case.settings, case.needs, f"strategy {case.settings.strategy}"
    if settings.workers < needs.min_workers:
        yield f"the {who} needs at least {needs.min_workers} workers"
    if needs.max_workers is not None and settings.workers > needs.max_workers:
        most = f"{needs.max_workers} worker{'s' if needs.max_workers > 1 else ''}"
        yield f"the {who} is for at most {most}: others are for more, such as `strategy: mpi`"
    communicators = (*needs.communicators, SIMULATED) if needs.simulated else needs.communicators
    yield choice("algorithm", settings.algorithm, needs.algorithms, who)
    yield choice("communicator", settings.communicator, communicators, who)
    yield choice("collectives", settings.collectives, () if settings.is_simulated else needs.collectives, who)
    for key in ("servers", "server_placement"):
        if SERVER not in needs.roles and getattr(settings, key) is not None:
            yield f"the {who} has no servers: remove `{key}`"


def _compression(case: Case) -> Iterator[str]:
    """Refuse what gradients that are compressed would not honour."""
    settings, who = case.settings, f"the strategy {case.settings.strategy}"
    if settings.compression is None:
        return
    if not case.needs.compresses or settings.command is not None:
        able = [name for name in plugins.names("strategies") if needs_of(name).compresses]
        what = "a script of your own" if settings.command is not None else who
        yield f"{what} sends gradients as it does: `compression` is for {', '.join(able)}"
    if settings.precision is Precision.MIXED_FLOAT16:
        yield "`compression` keeps what gradients leave out, which mixed_float16 may have to skip: use mixed_bfloat16"
    if case.needs.nodes and plugins.load("compressors", settings.compression).get("create") is None:
        yield f"`compression: {settings.compression}` is no message by itself: it is for the strategy mpi"
    if settings.algorithm != next(iter(case.needs.algorithms), None):
        yield f"`compression: {settings.compression}` is exchanged by dlbench's own messages: remove `algorithm`"
    yield _refusal(case, "compression")


def _simulated(case: Case) -> Iterator[str]:
    """Refuse what a simulation would not honour."""
    settings = case.settings
    if not settings.is_simulated:
        return
    if settings.command is not None:
        yield "a script of your own cannot be simulated: its workers are processes (communicator simulated)"
    if settings.mode is not None or settings.workers_per_host is not None:
        yield "`mode` and `workers_per_host` place real workers: use `communicator.workers_per_host` for simulated ones"
    if case.needs.shares_memory and case.run.options_of("communicator")["workers_per_host"] < settings.workers:
        yield (
            f"simulated workers of {settings.strategy} share one host's memory: set "
            f"communicator.workers_per_host to {settings.workers}"
        )
    yield _refusal(case, "communicator")


def _nodes(case: Case) -> Iterator[str]:
    """Refuse what nodes that send messages, real or simulated, would not honour."""
    settings, target = case.settings, case.run.target
    if settings.evaluator is not None and (settings.is_simulated or not case.needs.nodes):
        what = "a simulation is evaluated in no time" if settings.is_simulated else "its workers evaluate together"
        yield f"{what} (strategy {settings.strategy}): remove `evaluator`"
    if not trains_in_nodes(settings):
        return
    who = "a simulation" if settings.is_simulated else f"the strategy {settings.strategy}"
    if settings.command is not None:
        yield f"the strategy {settings.strategy} trains models of dlbench, not a script of your own"
    if settings.checkpoint_every is not None:
        yield f"{who} makes no checkpoints: remove checkpoint_every"
    if settings.extend_window:
        yield f"{who} does not go on after training: remove extend_window, and train more epochs"
    stops_by = target.metric if target and target.stop and not settings.is_simulated else ""
    if stops_by and settings.evaluator is None:
        yield (
            f"{who} is evaluated after training, so that no worker waits for it: `stop` of a target needs a process "
            "that evaluates while workers train: set `evaluator: own`, or `beside`"
        )
    if stops_by.startswith("train_"):
        other = stops_by.replace("train_", "validation_")
        yield f"the evaluator of {who} knows no {stops_by}: let `stop` go by {other}"
    optimizers = case.trainer.get("FLAT_OPTIMIZERS")
    if optimizers is None:
        yield f"{who} needs the optimizer on flat vectors, which the trainer {settings.trainer} does not have"
    if settings.precision is Precision.MIXED_FLOAT16:
        yield f"{who} scales no losses, as mixed_float16 needs it: use mixed_bfloat16 or float32"
    yield choice("optimizer", settings.optimizer, optimizers, f"trainer {settings.trainer}, for {who},")


def _start(case: Case) -> Iterator[str]:
    settings, there = case.settings, case.cluster.submitter
    if settings.submitter != there:
        wanted = f"`submitter: {settings.submitter}`"
        yield f"{wanted} belongs in a cluster file, beside the hosts to request; here it is {there}"
    if settings.workers_inside and settings.command is None:
        yield "`workers_inside: true` is for a `command`, which alone can start workers itself"
    name, needed = settings.launcher, settings.collectives
    if name == "auto":
        yield f"no launcher provides what the strategy {settings.strategy} needs: {needed}"
    if needed is not None and needed not in provides(name, settings.strategy):
        yield f"the launcher {name} does not provide {needed} to the strategy {settings.strategy}"
    yield _refusal(case, "launcher")
    yield _refusal(case, "strategy")


def _refusal(case: Case, key: str) -> str:
    """Return why the plugin that a setting names refuses its own options, or an empty string."""
    plugin = plugins.load(PLUGIN_SETTINGS[key], getattr(case.settings, key))
    refuse: Callable[..., str] | None = plugin.get("refuse")
    return "" if refuse is None else refuse(plugin.options(**case.run.options_of(key)), case.settings)


def _layout(case: Case) -> Iterator[str]:
    settings, cluster, per_host = case.settings, case.cluster, case.settings.workers_per_host
    if settings.mode is Mode.SCALE_OUT and per_host not in (None, 1):
        yield f"mode scale-out means one worker per host, workers_per_host says {per_host}"
    if settings.mode is Mode.SCALE_UP and per_host is not None and per_host < num_slots(settings):
        yield f"mode scale-up means all {slots_in_words(settings)} on one host, workers_per_host says {per_host}"
    try:
        counts = spread(settings, cluster)
    except UserError as error:
        yield error.message
        return
    if not cluster.is_here:
        yield _lacking_slots(settings, counts, cluster)
    others = [host.address for host, _ in counts if not host.is_here]
    launcher = plugins.load("launchers", settings.launcher)
    can_reach = starts_here(cluster) or launcher.get("MULTIPLE_HOSTS", False)
    if others and not can_reach:
        able = [name for name in plugins.names("launchers") if plugins.load("launchers", name).get("MULTIPLE_HOSTS")]
        name = f"the launcher {settings.launcher} starts nothing on other hosts, such as {others[0]}"
        yield f"{name}; {' and '.join(able)} do"
    elif others and (refuse := launcher.get("refuse_hosts")) is not None:
        yield refuse(others)


def _lacking_slots(settings: Settings, counts: Sequence[tuple[Host, int]], cluster: Cluster) -> str:
    """Return what has too few slots, and what would fit: fewer workers, or hosts with more; or an empty string."""
    if all(count <= host.slots for host, count in counts):
        return ""
    per_host, slots = settings.workers_per_host, sum(host.slots for host, _ in counts)
    where = f"on {slots} slots"
    if per_host is not None:
        smaller = [host.slots for host in cluster.hosts if host.slots < per_host]
        slots = per_host * (len(cluster.hosts) - len(smaller)) + max(smaller, default=0)
        where = f"with {per_host} on each host"
    elif settings.mode is Mode.SCALE_UP and len(cluster.hosts) > 1:
        where += " of one host"
    needed = per_host or -(-num_slots(settings) // len(counts))
    hosts = f"hosts with {needed} slots each"
    if cluster.submitter != "direct":
        hosts = f"all with `hosts: {{count: {len(cluster.hosts)}, slots: {needed}}}`"
    return f"{slots_in_words(settings)} do not fit {where}; at most {slots} fit, or {hosts}"


def _numbers(case: Case) -> Iterator[str]:
    settings, cores = case.settings, case.settings.cores_per_worker
    numbers = [case.cluster.num_cores(host) for host in case.cluster.hosts]
    most = max((number for number in numbers if number is not None), default=0)
    if cores is not None and None not in numbers and cores > most:
        yield f"a worker cannot have {cores:g} cores where a host has {most}"
    if settings.learning_rate_scale is not LearningRateScale.NONE and settings.learning_rate_base_batch is None:
        yield f"learning_rate_scale: {settings.learning_rate_scale} needs learning_rate_base_batch"
    if settings.batch_scope is BatchScope.GLOBAL and settings.batch_size < settings.workers:
        yield f"a global batch of {settings.batch_size} does not give each of {settings.workers} workers a sample"


def _command(case: Case) -> Iterator[str]:
    command = case.settings.command or ""
    try:
        words = shlex.split(command)
    except ValueError as error:
        yield f"the command {shown(command)} cannot be split into words: {error}"
        return
    if not words:
        yield "the command is empty"
    if _ASSIGNMENT.match(words[0]):
        yield f"the command begins with a variable: write `env {shorten(command)}`"
    if operator := next((word for word in _WORD.findall(command) if _is_of_a_shell(word)), ""):
        yield (
            f"the command has {shown(operator)}, and is started without a shell: write "
            f"`bash -c {shlex.quote(command)}`, or quote the word where it is meant as it is"
        )
    # That any of the scenario's points has it was checked.
    for name in names(" ".join([command, *(it.file for it in case.run.metrics.values())])):
        if name not in {*Settings.model_fields, *case.run.options, ATTEMPT}:
            yield f"the command or a file of `metrics` has {{{shorten(name)}}}, which is no option of this run"
    yield nested_launcher(case)
    yield missing_replicas(case)
    if case.settings.checkpoint_every is not None:
        yield "dlbench cannot make checkpoints of a script: remove checkpoint_every; the command makes its own"
    if case.settings.extend_window:
        yield "dlbench cannot let a script continue after training: remove extend_window, and let it train longer"


def _is_of_a_shell(word: str) -> bool:
    """Whether a shell would not pass on a word of a command as it is; one with quotes is meant so."""
    if set(word) & set("'\"\\"):
        return False
    return _SHELL_SYNTAX.fullmatch(word) is not None or ("*" in word and any(iglob(word)))  # noqa: PTH207 - of a whole path


_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
# The words of a command with their quotes, and those without any that a shell reads in its own way.
_WORD = re.compile(r"""(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\])+""", re.DOTALL)
_SHELL_SYNTAX = re.compile(r"\|.*|&&.*|&|.*;|(?:\d|&)?>.*|<[^>]*|~/.*|.*(?:\$[A-Za-z_({]|`).*")
_CHECKS = (_needs, _compression, _simulated, _nodes, _start, _layout, _numbers)
