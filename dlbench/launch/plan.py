"""The plan of an attempt: exactly what is executed, and what `--dry-run` prints. Pure."""

import json
import shlex
import sys
from collections.abc import Collection, Mapping

from pydantic import BaseModel, ConfigDict, Field

from dlbench import plugins
from dlbench.launch.environment import (
    LOCAL_VARIABLES,
    LOGGING_VARIABLES,
    agent,
    cleaned,
    search_paths,
    thread_variables,
)
from dlbench.records import files
from dlbench.records.assignment import ATTEMPT_VARIABLE, VARIABLE, Assignment
from dlbench.scenario.cluster import Cluster, Host
from dlbench.search_path import PATH_VARIABLE, inherited, program

_HIDDEN_TOKEN = "<token>"  # noqa: S105
_PROGRAM = program("dlbench.worker")
# A cluster with no settings.
_NOWHERE = Cluster(hosts=(Host(address="localhost", slots=1),))


class LaunchPlan(BaseModel):
    """What one attempt executes.

    Attributes:
        argv: The command.
        env: The whole environment of the launcher process.
        files: Text files of the attempt's folder, by name; the token is not in them.
        added: Variables that the plan adds to its base environment or changes, with the token replaced.
        removed: Names of variables of the base environment that it takes out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    argv: tuple[str, ...]
    env: dict[str, str]
    files: dict[str, str]
    added: dict[str, str] = Field(default_factory=dict)
    removed: tuple[str, ...] = ()


def plan(
    assignment: Assignment, base: Mapping[str, str], python: str = sys.executable, cluster: Cluster = _NOWHERE
) -> LaunchPlan:
    """Return the plan of an attempt in a base environment (`os.environ`).

    Args:
        assignment: The attempt; its layout and its run's settings decide nearly everything.
        base: The environment to start from.
        python: The interpreter of every worker.
        cluster: Says how other hosts are reached, and variables of every process.

    Raises:
        UserError: The launcher cannot reach the hosts.
    """
    settings, layout = assignment.run.settings, assignment.layout
    launcher = plugins.load("launchers", settings.launcher)
    options = launcher.options(**assignment.run.options_of("launcher"))
    # What every process needs, on whatever host.
    common = thread_variables(layout) | LOGGING_VARIABLES
    strategy = plugins.load("strategies", settings.strategy)
    if (of_strategy := strategy.get("environment")) is not None:
        common |= of_strategy(strategy.options(**assignment.run.options_of("strategy")), assignment)
    common |= {VARIABLE: assignment.model_dump_json(), ATTEMPT_VARIABLE: assignment.attempt_id}
    # Every host has the same; a shell there may set others.
    paths = {"PATH"} if layout.is_here else {"PATH", PATH_VARIABLE}
    passed = tuple(sorted({*common, *cluster.environment, *paths}))
    argv = launcher.target.argv(layout, (python, *_PROGRAM), options, settings, passed)
    env = cleaned(base, keep_slurm=launcher.name == "srun") | search_paths(base, python) | common
    if (daemons := launcher.get("daemons")) is not None:
        ssh = "" if cluster.is_here else agent(cluster, base)
        carried = f"{ATTEMPT_VARIABLE}={assignment.attempt_id}"
        env |= daemons(layout, ssh, assignment.run.limits.orphan_timeout_s, carried)
    env |= launcher.target.environment(layout, options, settings)
    env = inherited(env | cluster.environment)
    env |= dict.fromkeys(paths - env.keys(), "")
    endpoint = assignment.endpoint and assignment.endpoint.model_copy(update={"token": _HIDDEN_TOKEN})
    hidden = assignment.model_copy(update={"endpoint": endpoint})
    added = {name: env[name] for name in sorted(env) if base.get(name) != env[name]}
    added[VARIABLE] = hidden.model_dump_json()
    removed = tuple(sorted(set(base) - set(env)))
    # Records are without token and local paths.
    kept = {name: value for name, value in added.items() if name not in {*LOCAL_VARIABLES, VARIABLE}}
    record = {"argv": argv, "added": kept, "removed": removed}
    texts = {
        files.ASSIGNMENT: hidden.model_dump_json(indent=2) + "\n",
        files.PLAN: json.dumps(record, indent=2, ensure_ascii=False) + "\n",
    }
    return LaunchPlan(argv=argv, env=env, files=texts, added=added, removed=removed)


def render(plan: LaunchPlan, but: Collection[str] = ()) -> str:
    """Return a plan as a command line of a shell; of the assignment stands that it is there.

    Args:
        plan: The plan.
        but: Variables that are left out: added or removed for several plans, so that they are shown once.
    """
    removed = [f"-u {shlex.quote(name)}" for name in plan.removed if name not in but]
    shown = {**plan.added, VARIABLE: "{...}"}
    added = [f"{name}={shlex.quote(value)}" for name, value in shown.items() if name not in but]
    return " \\\n  ".join(["env", *removed, *added, shlex.join(plan.argv)]) + "\n"
