"""From what a user asks for to the plan of a study: its runs, resolved, and where they are made."""

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.machinery import all_suffixes
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from dlbench import plugins
from dlbench.errors import UserError, joined, nearest
from dlbench.launch.environment import not_passed_on
from dlbench.records import files, parquet
from dlbench.records.columns import names
from dlbench.records.machine import describe
from dlbench.records.variables import is_digest
from dlbench.scenario.check.commands import executed
from dlbench.scenario.check.scripts import python_fault
from dlbench.scenario.cluster import Cluster, MeasuredLink, this_machine
from dlbench.scenario.cluster.allocation import allocation, refuse_unnamed_hosts
from dlbench.scenario.cluster.cluster_file import ClusterOptions
from dlbench.scenario.cluster.spread import spread
from dlbench.scenario.expand.runs import expand
from dlbench.scenario.metrics import BUILT_IN
from dlbench.scenario.placeholders import names as placeholders
from dlbench.scenario.read.scenario_file import parse, read_with_text, reference_of
from dlbench.scenario.run_spec import Phase, RunSpec
from dlbench.scenario.scenario import Repeats, Scenario, StepTable
from dlbench.study.budget import Budget
from dlbench.study.folder import (
    DEFAULT_PARENT,
    Folder,
    StudyPlan,
    newest,
    open_study,
    scenario_of,
    scenario_text,
)
from dlbench.study.resume import refuse_other_hosts

# What messages call a scenario that is a mapping, and the name of its study where it has none.
NAME_OF_A_MAPPING = "scenario.yaml"


@dataclass(frozen=True)
class Request:
    """What a user asks for.

    Attributes:
        scenario: Its file, its name where it comes with dlbench, or its content; None takes that of `study`.
        output: Folder of all studies.
        only: Values of settings; only runs that have all of them are made.
        where: The hosts; where it says nothing, those of the study that is continued, of the Slurm job we are in, or
            this machine.
        repeats: In place of the scenario's.
        values: Values in place of the scenario's, by key, as they are written in YAML.
        study: A study to continue.
        resume: Continue the newest study of the scenario.
        confirms: Run the arm to use and its rivals once more on fresh seeds.
        budget: The most that the runs of this call may take.
        part: Number of the one run to make, from 1 on, and how many there must be; None for all.
    """

    scenario: Path | Mapping[str, Any] | None
    output: Path = DEFAULT_PARENT
    only: Mapping[str, str] = field(default_factory=dict)
    where: ClusterOptions = field(default_factory=ClusterOptions)
    repeats: int | Repeats | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    study: Path | None = None
    resume: bool = False
    confirms: bool = False
    budget: Budget = field(default_factory=Budget)
    part: tuple[int, int] | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The options of the command line that a job needs, too, beside its runs."""
        budget = ("--budget", str(self.budget)) if self.budget.is_limited else ()
        return (*budget, *["--confirm"] * self.confirms)


def plan_study(request: Request) -> tuple[StudyPlan, Folder | None]:
    """Return what is to be measured where, and the study to continue, or None for a new one.

    Raises:
        UserError: Scenario, hosts or study are wrong.
    """
    folder = open_study(request.study) if request.study else None
    scenario, text = _scenario(request, folder)
    if folder is None and request.resume:
        folder = newest(request.output, scenario.name)
    require_tables(scenario)
    rates = None if scenario.expect.rate is None else Path(scenario.expect.rate.of)
    if rates is not None and not (rates.name == files.table("runs") and rates.is_file()):
        raise UserError(
            f"expect.rate.of: {rates} is no study's runs.csv",
            hint="the path is relative to the folder that dlbench is started in",
        )
    cluster = cluster_of(request.where, folder.record.cluster if folder else None)
    if folder is not None and not cluster.is_here:
        refuse_other_hosts(folder, cluster)
    repeats = request.repeats or _repeats_so_far(scenario, folder)
    if request.budget.is_limited and isinstance(repeats, int) and repeats > Repeats().min:
        repeats = Repeats(max=repeats)  # arms that are open go first
    runs = expand(scenario, cluster, request.only, repeats)
    # What was begun on fresh seeds is finished.
    confirms = request.confirms or any(run.phase is Phase.CONFIRM for run in (folder.record.runs if folder else ()))
    reference = None
    if request.scenario is not None:  # a study that goes on by itself has its own copy of the published numbers
        reference = reference_of(scenario, request.scenario if isinstance(request.scenario, Path) else None)
    numbers = "" if reference is None else reference.text
    where = request.where.words()
    return StudyPlan(scenario, text, runs, cluster, describe(), numbers, repeats, confirms, where), folder


def _repeats_so_far(scenario: Scenario, folder: Folder | None) -> int | Repeats:
    """Return the repeats of a scenario, or of the study that goes on, where more were asked for with it."""
    runs = folder.record.runs if folder else ()
    measured = [run for run in runs if run.phase is Phase.MEASURE]
    begun, rule = max((run.repeat + 1 for run in measured), default=0), scenario.repeats
    rules = [Repeats.of_rule(run.repeats_rule) for run in measured if run.repeats_rule]
    widest = max(rules, key=lambda rule: rule.max, default=None)
    # Of more that were planned without a rule all are made.
    if widest and all(run.repeats_rule or run.repeat < widest.min for run in measured):
        rule = widest
    return begun if begun > (rule.max if isinstance(rule, Repeats) else rule) else rule


def require_tables(scenario: Scenario) -> None:
    """Refuse a form of step rows that cannot be written here, and metrics that are called as other columns.

    Raises:
        UserError: pyarrow is missing, or there is such a column.
    """
    taken = {*names("runs"), *names("epochs"), "arm", "placement"}
    if name := next((name for name in scenario.metrics if name in taken and name not in BUILT_IN), ""):
        where = scenario.source.where(("metrics", name))
        raise UserError(f"{name} is a column of the tables already", where=where, hint="give the metric another name")
    if scenario.step_table is StepTable.PARQUET and not parquet.is_installed():
        where = scenario.source.where(("step_table",))
        raise UserError("`step_table: parquet` needs pyarrow", where=where, hint="pip install pyarrow")


def at_hosts(plan: StudyPlan, request: Request) -> StudyPlan:
    """Return the plan with the cores of all hosts known, which decide how many a worker gets; asks other hosts.

    Raises:
        UserError: A host cannot be used, or its cores are too few.
    """
    if all(host.is_here for host in plan.cluster.hosts):
        return plan
    from dlbench.hosts.describe import describe_hosts, user_files

    cluster, machines = describe_hosts(plan.cluster, plan.machine, os.environ, files=user_files(plan.runs))
    runs = expand(plan.scenario, cluster, request.only, plan.repeats)
    return replace(plan, cluster=cluster, runs=runs, machine={**plan.machine, "hosts": machines})


def with_links(plan: StudyPlan, say: Callable[[str], None]) -> StudyPlan:
    """Return the plan with the links between its hosts measured, if a run crosses them.

    Raises:
        UserError: Two hosts cannot connect, or a link is not as the cluster file declares it.
    """
    cluster = plan.cluster
    if all(len(spread(run.settings, cluster)) == 1 for run in plan.runs):
        return plan
    from dlbench.hosts.links import measure as measure_links

    say(f"measuring the links between {len(cluster.hosts)} hosts")
    measured = measure_links(cluster, os.environ)
    links = tuple(
        # What models of communication call latency is one way.
        MeasuredLink(
            hosts=(link.a, link.b), latency_s=link.round_trip_s / 2, bandwidth_bytes_per_s=link.bandwidth_bytes_per_s
        )
        for link in measured
    )
    # Hosts by their number, and what messages of each size took.
    described = [
        {
            "hosts": [link.a, link.b],
            "round_trip_s": link.round_trip_s,
            "bandwidth_bytes_per_s": link.bandwidth_bytes_per_s,
            "messages": [{**asdict(each), "rate_bytes_per_s": each.rate_bytes_per_s} for each in link.messages],
        }
        for link in measured
    ]
    machine = {**plan.machine, "links": described}
    return replace(plan, cluster=cluster.model_copy(update={"links": links}), machine=machine)


def part_of(plan: StudyPlan, part: tuple[int, int] | None) -> StudyPlan:
    """Return the plan of one run: the first number of the second, from 1 on; None returns it as it is.

    Raises:
        UserError: There are fewer runs.
    """
    if part is None:
        return plan
    if plan.is_open:
        raise UserError("one run alone cannot be made: which runs there are depends on the rows of others")
    number, total = part
    if len(plan.runs) != total or not 1 <= number <= total:
        raise UserError(f"run {number} of {total} is asked for, and the scenario has {len(plan.runs)} runs here")
    return replace(plan, runs=(plan.runs[number - 1],))


def require_launchable(runs: Sequence[RunSpec], cluster: Cluster) -> None:
    """Refuse runs whose launcher, strategy's or trainer's library, or command's program or script is not here.

    Raises:
        UserError: Says all that is missing, and the commands that install it.
    """
    missing = [
        UserError(f"the launcher {name!r} cannot be used here: {why}")
        for name in dict.fromkeys(run.settings.launcher for run in runs)
        if (why := plugins.load("launchers", name).target.available())
    ]
    for name, settings in {run.settings.strategy: run.settings for run in runs}.items():
        available = plugins.load("strategies", name).get("available")
        if available is not None and (why := available(settings)):
            missing.append(UserError(f"the strategy {name!r} cannot be used here: {why}"))
    for name in sorted({run.settings.trainer for run in runs if run.settings.command is None}):
        package = plugins.load("trainers", name).get("PACKAGE")
        if package is not None and find_spec(package) is None:
            hint = plugins.load("trainers", name).get("INSTALL")
            missing.append(UserError(f"the trainer {name!r} needs {package}, which is not installed", hint=hint))
    if cluster.is_here:
        for command in sorted({run.settings.command for run in runs if run.settings.command is not None}):
            missing += _command_missing(shlex.split(command))
    if missing:
        raise joined(missing, "things are missing")


def _command_missing(words: Sequence[str]) -> Iterator[UserError]:
    """Yield what a script's command lacks on this machine; what a setting is filled into is not known yet."""
    if not placeholders(words[0]) and _which(words[0]) is None:
        yield UserError(
            f"command: there is no program {words[0]!r} on this machine", hint="is it installed, and on PATH?"
        )
    program, module, script = executed(words)
    if placeholders(module + script):
        return
    if module and _is_module_missing(module, finds_all=words[0] in ("python", "python3")):  # `env` may set PYTHONPATH
        head = module[: module.rfind(".") + 1]
        near = nearest(module, [f"{head}{it.stem}" for it in Path(head.replace(".", "/")).glob("*.py")])
        yield UserError(f"command: there is no module {module!r} in {Path.cwd()} or installed", hint=near)
    elif script:
        yield from _script_missing(program, Path(script))


def _which(program: str) -> str | None:
    """Return the path of a command's program as a worker finds it: it looks beside its Python first."""
    places = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return shutil.which(program, path=os.pathsep.join(places))


def _is_module_missing(module: str, *, finds_all: bool) -> bool:
    """Whether a module cannot be executed: it is in no package here, and this Python has no package of its name."""
    path = Path(*module.split("."))
    if any(Path(f"{file}{suffix}").exists() for file in (path, path / "__main__") for suffix in all_suffixes()):
        return False
    package = Path(path.parts[0])
    is_here = (package / "__init__.py").exists()
    return is_here or (finds_all and find_spec(package.name) is None)


def _script_missing(program: str, path: Path) -> Iterator[UserError]:
    is_python = Path(program).name.startswith("python")
    if path.is_dir():
        if not (is_python and (path / "__main__.py").exists()):
            yield UserError(f"command: {path} is a folder, not a script")
    elif not path.exists() and (is_python or shutil.which(path) is None):
        near = nearest(str(path), [it.name for it in Path().glob(f"*{path.suffix}")])
        yield UserError(f"command: there is no script {str(path)!r} in {Path.cwd()}", hint=near)
    elif path.suffix == ".ipynb":
        hint = f"make one of it: jupyter nbconvert --to script {shlex.quote(str(path))}"
        yield UserError(f"command: {path} is a notebook, not a script", hint=hint)
    elif program not in ("python", "python3") or path.suffix in (".pyc", ".pyz", ".zip"):
        return
    elif fault := python_fault(path):
        yield UserError(f"command: {path} does not compile: {fault}")


def _scenario(request: Request, folder: Folder | None) -> tuple[Scenario, str]:
    if isinstance(request.scenario, Path):
        return read_with_text(request.scenario, request.values)
    if request.scenario is not None:
        text = yaml.safe_dump(dict(request.scenario), allow_unicode=True, sort_keys=False)
        return parse(text, NAME_OF_A_MAPPING), text
    if folder is None:
        raise UserError("no scenario given", hint="dlbench run quickstart, or --study DIR to continue one")
    return scenario_of(folder, parse), scenario_text(folder)


def cluster_of(where: ClusterOptions, begun_on: Cluster | None = None) -> Cluster:
    """Return the hosts that are named; else those a study began on, or those of the Slurm job we are in, or this one.

    This machine is examined again.

    Args:
        where: What the user says.
        begun_on: The cluster of the study that is continued.

    Raises:
        UserError: What the user says names no hosts, nothing does in a job of another queue that has several, or the
            file with values of the study's variables is missing, damaged, or another user's.
    """
    if (cluster := where.named()) is not None:
        return _placed(cluster) or cluster
    if begun_on is not None and not (begun_on.is_here and begun_on.is_plain):
        if missing := [name for name, value in begun_on.environment.items() if is_digest(value)]:
            raise UserError(
                f"{files.ENVIRONMENT} of the study cannot be read, which holds the values of {', '.join(missing)}",
                hint="name the study's cluster file with --cluster",
            )
        return _placed(begun_on) or begun_on
    if (cluster := allocation(os.environ)) is None:
        refuse_unnamed_hosts(os.environ)
    return cluster or this_machine()


def notices(runs: Sequence[RunSpec], cluster: Cluster) -> Iterator[str]:
    """Yield lines about what is set up here and has no effect on runs."""
    yield from plugins.replaced()
    launchers = dict.fromkeys((run.settings.strategy, run.settings.launcher) for run in runs)
    for strategy, launcher in launchers:
        if cluster.launcher not in (None, launcher):
            yield f"`launcher: {cluster.launcher}` of the cluster does not start {strategy}: {launcher} does"
    if shared := [f"{host.address} ({len(host.cores)})" for host in cluster.hosts if host.is_shared]:
        yield (
            f"doubt: other jobs may compute on the workers' cores: Slurm gave this job part of {', '.join(shared)} "
            "and does not say which cores; `--exclusive` or `submitter.exclusive: true` gives whole hosts"
        )
    if line := not_passed_on(os.environ, cluster, {launcher for _, launcher in launchers}):
        yield line
    active = Path(os.environ.get("VIRTUAL_ENV") or sys.prefix)
    programs = {executed(shlex.split(run.settings.command))[0] for run in runs if run.settings.command}
    for name in sorted(programs & {"python", "python3", "torchrun"}):
        theirs, ours = active / "bin" / name, _which(name)
        if active.resolve() != Path(sys.prefix).resolve() and theirs.exists() and ours != str(theirs):
            way = f"write `command: {shlex.quote(str(theirs))} ...` where the script needs its packages"
            yield f"`{name}` in the command is {ours}, not the active environment's: {way}"


def _placed(cluster: Cluster) -> Cluster | None:
    """Return a cluster with the hosts that a queue has given; None where we are in no job of it."""
    placed: Cluster | None = plugins.load("submitters", cluster.submitter).target.inside(cluster, os.environ)
    return placed


def is_queued(cluster: Cluster) -> bool:
    """Return whether a cluster's hosts are still to be asked for in a queue."""
    return _placed(cluster) is None
