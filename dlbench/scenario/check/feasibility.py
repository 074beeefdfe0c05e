"""Whether a run is possible: what depends on more than one value, found before anything is started."""

import re
import shlex
from collections.abc import Callable, Sequence
from glob import iglob

from dlbench import plugins
from dlbench.errors import UserError, shorten, shown
from dlbench.scenario.check.case import Case, Descriptions
from dlbench.scenario.check.scripts import missing_replicas, nested_launcher
from dlbench.scenario.check.training import TRAINING_CHECKS, choice
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.cluster.spread import slots_in_words, spread, starts_here
from dlbench.scenario.needs import SERVER
from dlbench.scenario.placeholders import names
from dlbench.scenario.plugin_settings import num_slots, provides
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


def infeasibility(run: RunSpec, cluster: Cluster, seen: Descriptions | None = None) -> str:
    """Return why a run cannot be, or an empty string.

    Args:
        run: The run; its repeat does not matter.
        cluster: Where it would be.
        seen: Descriptions of data sets from earlier calls; new ones are added.

    Raises:
        UserError: The data set refuses its options, such as a folder that is not there.
    """
    case = Case(run, cluster, {} if seen is None else seen)
    checks = (*_CHECKS, *(TRAINING_CHECKS if run.settings.command is None else _COMMAND_CHECKS))
    return next((reason for check in checks if (reason := check(case))), "")


def _workers(case: Case) -> str:
    needs, workers = case.needs, case.settings.workers
    if workers < needs.min_workers:
        return f"the strategy {case.settings.strategy} needs at least {needs.min_workers} workers"
    if needs.max_workers is not None and workers > needs.max_workers:
        most = f"{needs.max_workers} worker{'s' if needs.max_workers > 1 else ''}"
        return f"the strategy {case.settings.strategy} is for at most {most}"
    return ""


def _choices(case: Case) -> str:
    settings, needs = case.settings, case.needs
    communicators = (*needs.communicators, SIMULATED) if needs.simulated else needs.communicators
    collectives = () if settings.is_simulated else needs.collectives
    allowed = {"algorithm": needs.algorithms, "communicator": communicators, "collectives": collectives}
    who = f"strategy {settings.strategy}"
    reasons = (choice(what, getattr(settings, what), choices, who) for what, choices in allowed.items())
    return next(filter(None, reasons), "")


def _servers(case: Case) -> str:
    settings = case.settings
    if SERVER in case.needs.roles or (settings.servers is None and settings.server_placement is None):
        return ""
    key = "server_placement" if settings.servers is None else "servers"
    return f"the strategy {settings.strategy} has no servers: remove `{key}`"


def _simulated(case: Case) -> str:
    """Refuse what a simulation would not honour."""
    settings = case.settings
    if not settings.is_simulated:
        return ""
    if settings.command is not None:
        return "a script of your own cannot be simulated: its workers are processes (communicator simulated)"
    if settings.mode is not None or settings.workers_per_host is not None:
        return (
            "`mode` and `workers_per_host` place real workers: use `communicator.workers_per_host` for simulated ones"
        )
    options = case.run.options_of("communicator")
    if case.needs.shares_memory and options["workers_per_host"] < settings.workers:
        return (
            f"simulated workers of {settings.strategy} share one host's memory: set "
            f"communicator.workers_per_host to {settings.workers}"
        )
    return _refusal(case, "communicator")


def _nodes(case: Case) -> str:
    """Refuse what nodes that send messages, real or simulated, would not honour."""
    settings, target = case.settings, case.run.target
    if settings.evaluator is not None and (settings.is_simulated or not case.needs.nodes):
        what = "a simulation is evaluated in no time" if settings.is_simulated else "its workers evaluate together"
        return f"{what} (strategy {settings.strategy}): remove `evaluator`"
    if not (case.needs.nodes or settings.is_simulated):
        return ""
    who = "a simulation" if settings.is_simulated else f"the strategy {settings.strategy}"
    if settings.command is not None:
        return f"the strategy {settings.strategy} trains models of dlbench, not a script of your own"
    if settings.checkpoint_every is not None:
        return f"{who} makes no checkpoints: remove checkpoint_every"
    if settings.extend_window:
        return f"{who} does not go on after training: remove extend_window, and train more epochs"
    if target and target.stop and not settings.is_simulated and settings.evaluator is None:
        return (
            f"{who} is evaluated after training, so that nobody waits for it: `stop` of a target needs a process that "
            "does so meanwhile: set `evaluator: own`, or `beside`"
        )
    if target and target.stop and not settings.is_simulated and target.metric.startswith("train_"):
        other = target.metric.replace("train_", "validation_")
        return f"the evaluator of {who} knows no {target.metric}: let `stop` go by {other}"
    optimizers = case.trainer.get("FLAT_OPTIMIZERS")
    if optimizers is None:
        return f"{who} needs the optimizer on flat vectors, which the trainer {settings.trainer} does not have"
    if settings.precision is Precision.MIXED_FLOAT16:
        return f"{who} scales no losses, as mixed_float16 needs it: use mixed_bfloat16 or float32"
    return choice("optimizer", settings.optimizer, optimizers, f"trainer {settings.trainer}, for {who},")


def _submitter(case: Case) -> str:
    wanted, there = case.settings.submitter, case.cluster.submitter
    if wanted == there:
        return ""
    return f"`submitter: {wanted}` belongs in a cluster file, beside the hosts to request; here it is {there}"


def _launcher(case: Case) -> str:
    name, needed = case.settings.launcher, case.settings.collectives
    if name == "auto":
        return f"no launcher provides what the strategy {case.settings.strategy} needs: {needed}"
    if needed is not None and needed not in provides(name):
        return f"the launcher {name} does not provide {needed} to the strategy {case.settings.strategy}"
    return _refusal(case, "launcher")


def _strategy(case: Case) -> str:
    return _refusal(case, "strategy")


def _refusal(case: Case, key: str) -> str:
    """Return why the plugin that a setting names refuses its own options, or an empty string."""
    plugin = plugins.load(PLUGIN_SETTINGS[key], getattr(case.settings, key))
    refuse: Callable[..., str] | None = plugin.get("refuse")
    return "" if refuse is None else refuse(plugin.options(**case.run.options_of(key)), case.settings)


def _layout(case: Case) -> str:
    settings = case.settings
    if (reason := _mode(settings)) != "":
        return reason
    try:
        counts = spread(settings, case.cluster)
    except UserError as error:
        return error.message
    if not case.cluster.is_here and (reason := _room(settings, counts)) != "":
        return f"{reason}; {_fitting(counts, settings, case.cluster)}"
    return "" if starts_here(case.cluster) else _reach(settings, [host for host, _ in counts])


def _room(settings: Settings, counts: Sequence[tuple[Host, int]]) -> str:
    slots = sum(host.slots for host, _ in counts)
    if sum(count for _, count in counts) > slots:
        return f"{slots_in_words(settings)} do not fit on {slots} slots"
    crowded = [(count, host) for host, count in counts if count > host.slots]
    who = "workers" if num_slots(settings) == settings.workers else "processes"
    return f"{crowded[0][0]} {who} do not fit on {crowded[0][1].slots} slots" if crowded else ""


def _fitting(counts: Sequence[tuple[Host, int]], settings: Settings, cluster: Cluster) -> str:
    """Return what would fit: fewer workers, or hosts with more slots."""
    needed = settings.workers_per_host or -(-num_slots(settings) // len(counts))
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
    if settings.mode is Mode.SCALE_UP and per_host < num_slots(settings):
        return f"mode scale-up means all {slots_in_words(settings)} on one host, workers_per_host says {per_host}"
    return ""


def _reach(settings: Settings, hosts: Sequence[Host]) -> str:
    others = [host.address for host in hosts if not host.is_here]
    if others and not plugins.load("launchers", settings.launcher).get("MULTIPLE_HOSTS", False):
        return f"the launcher {settings.launcher} starts nothing on other hosts, such as {others[0]}"
    return ""


def _cores(case: Case) -> str:
    wanted, most = case.settings.cores_per_worker, max(host.num_cores for host in case.cluster.hosts)
    if wanted is not None and wanted > most:
        return f"a worker cannot have {wanted:g} cores where a host has {most}"
    return ""


def _learning_rate(case: Case) -> str:
    settings = case.settings
    if settings.learning_rate_scale is not LearningRateScale.NONE and settings.learning_rate_base_batch is None:
        return f"learning_rate_scale: {settings.learning_rate_scale} needs learning_rate_base_batch"
    return ""


def _batch(case: Case) -> str:
    settings = case.settings
    if settings.batch_scope is BatchScope.GLOBAL and settings.batch_size < settings.workers:
        return f"a global batch of {settings.batch_size} does not give each of {settings.workers} workers a sample"
    return ""


def _command(case: Case) -> str:
    command = case.settings.command or ""
    try:
        words = shlex.split(command)
    except ValueError as error:
        return f"the command {shown(command)} cannot be split into words: {error}"
    if not words:
        return "the command is empty"
    if _ASSIGNMENT.match(words[0]):
        return f"the command begins with a variable: write `env {shorten(command)}`"
    if operator := next((word for word in _WORD.findall(command) if _is_of_a_shell(word)), ""):
        return (
            f"the command has {shown(operator)}, and is started without a shell: write "
            f"`bash -c {shlex.quote(command)}`, or quote the word where it is meant as it is"
        )
    # That any of the scenario's points has it was checked.
    lacking = [name for name in names(command) if name not in {*Settings.model_fields, *case.run.options}]
    return f"the command has {{{shorten(lacking[0])}}}, which is no option of this run" if lacking else ""


def _is_of_a_shell(word: str) -> bool:
    """Whether a shell would not pass on a word of a command as it is; one with quotes is meant so."""
    if set(word) & set("'\"\\"):
        return False
    return _SHELL_SYNTAX.fullmatch(word) is not None or ("*" in word and any(map(bool, iglob(word))))  # noqa: PTH207 - of a whole path


def _script_checkpoints(case: Case) -> str:
    if case.settings.checkpoint_every is None:
        return ""
    return "dlbench cannot make checkpoints of a script: remove checkpoint_every; the command makes its own"


def _extended_script(case: Case) -> str:
    if case.settings.extend_window:
        return "dlbench cannot let a script continue after training: remove extend_window, and let it train longer"
    return ""


_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
# The words of a command with their quotes, and those without any that a shell reads in its own way.
_WORD = re.compile(r"""(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\])+""", re.DOTALL)
_SHELL_SYNTAX = re.compile(r"\|.*|&&.*|&|.*;|(?:\d|&)?>.*|<[^>]*|~/.*|.*(?:\$[A-Za-z_({]|`).*")
Check = Callable[[Case], str]
_CHECKS: tuple[Check, ...] = (
    _workers, _choices, _servers, _simulated, _nodes, _submitter, _launcher, _strategy, _layout, _cores,
    _learning_rate, _batch,
)  # fmt: skip
_COMMAND_CHECKS: tuple[Check, ...] = (
    _command,
    nested_launcher,
    missing_replicas,
    _script_checkpoints,
    _extended_script,
)
