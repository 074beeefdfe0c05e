"""Continue a study, or refuse to: with another scenario or on other hardware it would not be the same one."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dlbench.errors import UserError, first_of
from dlbench.records import files
from dlbench.records.machine import differences
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.run_spec import RunSpec
from dlbench.study.attempts import pending
from dlbench.study.folder import (
    Folder,
    StudyPlan,
    machine_fingerprint,
    public_cluster,
    scenario_of,
    scenario_text,
    write_machine,
    write_record,
)

MAX_DIFFERENCES = 8
# Words about the scenario that change nothing that is measured.
NOT_MEASURED = {"description", "reference"}


def resumed(folder: Folder, plan: StudyPlan) -> Folder:
    """Return the study with runs that are newly asked for (other `--only`, more `--repeats`) added to its record.

    Hold the study's lock.

    Raises:
        UserError: The scenario was edited, or the hardware is another; says what differs. A change that leaves what
            the scenario says as it was, such as a comment, is no change.
    """
    edited = _edited(folder, plan)
    if not edited and _waits_for_its_job(folder):
        return _begun(folder, plan)
    cluster = _other_cluster(folder, plan.cluster)
    changed = [*(edited or _resolved_otherwise(folder, plan)), *cluster, *_other_machine(folder, plan)]
    _refuse(folder, changed, _where_it_began(folder.record.cluster) if cluster else "")
    return with_runs(folder, plan.runs)


def with_runs(folder: Folder, runs: Sequence[RunSpec]) -> Folder:
    """Return the study with runs that its record lacks added to it; hold its lock.

    Those that were planned under another rule of repetition, and are still to be made, are made under this one.
    """
    recorded = {run.run_id: run for run in folder.record.runs}
    added = {run.run_id: run for run in runs if run.run_id not in recorded}
    for run in pending(folder.path, [run for run in runs if run.repeats_rule and run.run_id in recorded]):
        if (old := recorded[run.run_id]).repeats_rule != run.repeats_rule:
            added[run.run_id] = old.model_copy(update={"repeats_rule": run.repeats_rule})
    if not added:
        return folder
    record = folder.record.model_copy(update={"runs": (*(recorded | added).values(),)})
    write_record(folder.path, record)
    return replace(folder, record=record)


def refuse_edited(folder: Folder, plan: StudyPlan) -> None:
    """Refuse an edited scenario before a job waits in a queue for nothing.

    Raises:
        UserError: It was edited; says what differs.
    """
    _refuse(folder, _edited(folder, plan))


def refuse_other_hosts(folder: Folder, cluster: Cluster) -> None:
    """Refuse hosts that are not the study's before any of them is asked, and before runs are refused on them.

    Raises:
        UserError: They are others; says which option names those that it began on.
    """
    was, is_now = (_named_hosts(each, has_cores=False) for each in (folder.record.cluster, cluster))
    if was != is_now and not _waits_for_its_job(folder):
        _refuse(folder, [f"hosts: {was} -> {is_now}"], _where_it_began(folder.record.cluster))


def _where_it_began(cluster: Cluster) -> str:
    """Return the options that name the hosts of a study."""
    if not cluster.is_plain:
        return "continue it without --hosts, --hostfile and --cluster, which uses its own cluster"
    return f"continue it with --hosts {_named_hosts(cluster, has_cores=False)}"


def _refuse(folder: Folder, changes: Sequence[str], remedy: str = "") -> None:
    if not changes:
        return
    shown = first_of(changes, MAX_DIFFERENCES, "... and {} more")
    raise UserError(
        "\n  ".join([f"{folder.path} cannot be continued: it would not be the same study", *shown]),
        hint=f"{remedy or 'restore what it began with'}, or start a new study (without --resume and --study)",
    )


def _waits_for_its_job(folder: Folder) -> bool:
    """Whether a study was submitted to a queue, and no run of it was launched yet."""
    has_runs = (folder.path / files.RUNS_FOLDER).exists()
    return (folder.path / files.SUBMISSIONS_FOLDER).exists() and not has_runs


def _begun(folder: Folder, plan: StudyPlan) -> Folder:
    """Return the study as its job begins it: where it was submitted, neither cores nor machine were known."""
    update = {
        "cluster": folder.record.cluster.model_copy(update={"links": plan.cluster.links}),
        "runs": plan.runs,
        "machine_fingerprint": machine_fingerprint(plan.machine),
    }
    record = folder.record.model_copy(update=update)
    write_machine(folder.path, plan.machine)
    write_record(folder.path, record)
    return Folder(folder.path, record, plan.machine)


def _edited(folder: Folder, plan: StudyPlan) -> list[str]:
    """Return the lines that differ between two scenario files that do not say the same."""
    said_before, says_now = (
        scenario.model_dump(mode="json", exclude=NOT_MEASURED) for scenario in (scenario_of(folder), plan.scenario)
    )
    if said_before == says_now:
        return []
    before, now = scenario_text(folder).splitlines(), plan.text.splitlines()
    lines = list(difflib.unified_diff(before, now, lineterm="", n=0))[2:]
    return ["the scenario was edited (- the study's, + now):", *(line for line in lines if not line.startswith("@@"))]


def _resolved_otherwise(folder: Folder, plan: StudyPlan) -> list[str]:
    """Say how a run of the same scenario differs: by a plugin's default, or by the cores of this machine."""
    asked = {run.run_id for run in plan.runs}
    same = {run.run_id: run for run in folder.record.runs}
    gone = {(run.label, run.repeat): run for run in folder.record.runs if run.run_id not in asked}
    for now in plan.runs:
        old = same.get(now.run_id) or gone.get((now.label, now.repeat), now)
        # How often an arm is run may be asked for otherwise; metrics are as the scenario says.
        changed = set(old.unknown) ^ set(now.unknown)
        dumps = (
            run.model_dump(mode="json", exclude={"repeats_rule", "unknown", "metrics"})
            | {f"its script reads {key}": "no" if key in run.unknown else "yes" for key in sorted(changed)}
            for run in (old, now)
        )
        differences = _dict_differences(*dumps)
        if differences:
            return [f"run {now.label!r} (the study's -> now):", *differences]
    return []


def _other_cluster(folder: Folder, now: Cluster) -> list[str]:
    """Return what differs between the cluster of the study and the one it would go on with."""
    before = folder.record.cluster
    was, is_now = _named_hosts(before), _named_hosts(now)
    cluster = [] if was == is_now else [f"hosts: {was} -> {is_now}"]
    left_out = {"hosts", "links", "options", "ssh"}
    dumps = (public_cluster(each).model_dump(mode="json", exclude=left_out) for each in (before, now))
    return cluster + _dict_differences(*dumps)


def _other_machine(folder: Folder, plan: StudyPlan) -> list[str]:
    """Return what differs between the hardware of the study and that which it would go on with."""
    if not folder.machine:
        return [f"{files.MACHINE} is missing or damaged: the hardware that the study began on is unknown"]
    lines = differences(dict(folder.machine), dict(plan.machine))
    old, new = ([dict(host) for host in machine.get("hosts", ())] for machine in (folder.machine, plan.machine))
    if len(old) == len(new):  # else it is said of the hosts themselves, or no host could be asked
        for number, pair in enumerate(zip(old, new, strict=True), start=1):
            lines += [f"other host {number}: {line}" for line in differences(*pair)]
    return lines


def _named_hosts(cluster: Cluster, *, has_cores: bool = True) -> str:
    if cluster.submitter != "direct":
        # A queue gives other hosts each time; that they are alike, their description says.
        return f"{len(cluster.hosts)} with {cluster.hosts[0].slots} slots each"
    return ",".join(
        f"{host.address}:{host.slots}{_shown_cores(host.cores) if has_cores else ''}" for host in cluster.hosts
    )


def _shown_cores(cores: tuple[int, ...]) -> str:
    if not cores:
        return ""
    is_range = cores == tuple(range(cores[0], cores[-1] + 1))
    return f" (cores {cores[0]}-{cores[-1]})" if is_range else f" (cores {' '.join(map(str, cores))})"


def _dict_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    old, new = dict(_flat(before)), dict(_flat(after))
    return [
        f"{name}: {old.get(name, 'absent')} -> {new.get(name, 'absent')}"
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]


def _flat(value: Any, name: str = "") -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{name}.{key}" if name else str(key))
    else:
        yield name, value
