"""Make or continue a study, here or in the jobs of a queue."""

import os
import shutil
import threading
from dataclasses import dataclass

from dlbench.errors import UserError
from dlbench.launch.layout import plan_layout
from dlbench.launch.plan import LaunchPlan
from dlbench.launch.plan import plan as launch_plan
from dlbench.records import files
from dlbench.records.assignment import Assignment
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.cluster.allocation import refuse_several_of_us
from dlbench.study.budget import Spending
from dlbench.study.folder import create
from dlbench.study.lock import locked
from dlbench.study.plan import (
    Request,
    at_hosts,
    is_queued,
    notices,
    part_of,
    plan_study,
    require_launchable,
    with_links,
)
from dlbench.study.runner import DiskFull, StudyResult, Watcher, run_study
from dlbench.study.submit import Queue


def measure(request: Request, watcher: Watcher, stop: threading.Event) -> StudyResult:
    """Make or continue the study that a user asks for, and return how it stands.

    Args:
        request: What the user asks for.
        watcher: Receives the progress.
        stop: Set to end the current run or job cleanly and leave.

    Raises:
        UserError: Something that the user can fix.
        KeyboardInterrupt: `stop` was set before anything was launched.
    """
    refuse_several_of_us(os.environ)
    spending = Spending(request.budget)
    plan, continued = plan_study(request)
    queue = Queue(plan, request) if is_queued(plan.cluster) else None
    if queue is not None:
        queue.require_usable()
    else:
        require_launchable(plan.runs, plan.cluster)
        if continued is not None:
            with locked(continued.path):  # hosts and links are examined next, which the runs of another would feel
                pass
        plan = with_links(part_of(at_hosts(plan, request), request.part), watcher.say)
    if stop.is_set():
        raise KeyboardInterrupt
    for line in notices(plan.runs, plan.cluster):
        watcher.say(line)
    folder = continued or create(request.output, plan)
    try:
        return queue.submit(folder, watcher, stop) if queue else run_study(folder, plan, watcher, stop, spending)
    except DiskFull:
        raise
    except UserError:
        if continued is None and not (folder.path / files.RUNS_FOLDER).exists():  # nothing was ever launched in it
            shutil.rmtree(folder.path, ignore_errors=True)
        raise


@dataclass(frozen=True)
class DryRun:
    """What would be executed: endpoint, prepared data and log folder are added to each assignment at its launch.

    Attributes:
        submission: What would be submitted to a queue; empty where none is asked.
        assignments: What the processes of each run would receive, in the order of execution.
        cluster: Where they would run.
    """

    submission: str
    assignments: tuple[Assignment, ...]
    cluster: Cluster

    def launch(self, assignment: Assignment) -> LaunchPlan:
        """Return what the launch of one of the runs would execute."""
        return launch_plan(assignment, os.environ, cluster=self.cluster)


def dry_run(request: Request) -> DryRun:
    """Return exactly what each run would execute; starts nothing.

    Raises:
        UserError: Something that the user can fix.
    """
    plan, folder = plan_study(request)
    submission = Queue(plan, request).dry_run_text(folder) if is_queued(plan.cluster) else ""
    assignments = (
        Assignment(run=run, attempt=1, attempt_id="<attempt>", layout=plan_layout(run, plan.cluster))
        for run in plan.runs
    )
    return DryRun(submission, tuple(assignments), plan.cluster)
