"""Make or continue a study, here or in the jobs of a queue."""

import os
import threading
from collections.abc import Iterator

from dlbench.errors import UserError
from dlbench.launch.layout import plan_layout
from dlbench.launch.plan import plan as launch_plan
from dlbench.launch.plan import render
from dlbench.launch.submission import NotCollected
from dlbench.records.assignment import Assignment
from dlbench.study.folder import Folder, create, discard_unused
from dlbench.study.lock import require_free
from dlbench.study.plan import Request, StudyPlan, at_hosts, part_of, plan_study, require_launchable, with_links
from dlbench.study.runner import DiskFull, StudyResult, Watcher, run_study
from dlbench.study.submit import Queue, is_queued


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
    plan, continued = plan_study(request)
    queue = Queue(plan, request) if is_queued(plan.cluster) else None
    if queue is not None:
        queue.require_usable()
    else:
        plan = _examined(plan, request, continued, watcher)
    if stop.is_set():
        raise KeyboardInterrupt
    folder = continued or create(request.output, plan)
    try:
        return queue.submit(folder, watcher, stop) if queue else run_study(folder, plan, watcher, stop)
    except (DiskFull, NotCollected):
        raise
    except UserError:
        if continued is None:
            discard_unused(folder)
        raise


def dry_run(request: Request) -> Iterator[str]:
    """Yield exactly what each run would execute, after what would be submitted; starts nothing.

    Raises:
        UserError: Something that the user can fix.
    """
    plan, folder = plan_study(request)
    if is_queued(plan.cluster):
        yield Queue(plan, request).dry_run_text(folder)
    yield "# The endpoint (address, port, token), the prepared data and the log folder are added at the launch."
    for run in plan.runs:
        assignment = Assignment(run=run, attempt=1, attempt_id="<attempt>", layout=plan_layout(run, plan.cluster))
        launch = launch_plan(assignment, os.environ, cluster=plan.cluster)
        yield f"\n# {run.run_id}: {' '.join(run.label.split())}, repeat {run.repeat}\n{render(launch)}"


def _examined(plan: StudyPlan, request: Request, continued: Folder | None, watcher: Watcher) -> StudyPlan:
    """Return the plan with what is known once this machine, the other hosts and their links were examined."""
    require_launchable(plan.runs, plan.cluster)
    if continued is not None:
        require_free(continued.path)  # hosts are asked and links measured next, which the runs of another would feel
    return with_links(part_of(at_hosts(plan, request), request.part), watcher.say)
