"""`dlbench run` with `submitter: sbatch` on a real Slurm: it submits, follows, collects, and ends cleanly.

Also `launcher: srun` in its jobs: processes connect by PMIx on one host and on two, or the run fails.
"""

import contextlib
import json
import os
import shlex
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess, Popen
from typing import Any

import pytest

from dlbench.records import files
from tests.cluster.cluster import Cluster
from tests.functional import paced
from tests.functional.studies import BASE, DLBENCH, Bench, rows, study, trains
from tests.functional.waiting import wait_until

ALONE = {"workers": 1, "strategy": "single"}
LONG = {"epochs": 100_000, "trainer": "paced:Trainer", "trainer.step_s": 0.05}
TIMES = {"stall_timeout_s": 30, "startup_timeout_s": 60, "orphan_timeout_s": 15}

# Name of the study whose job ends before its time limit, on the third host while the others are used.
LIMITED = "limited"
# Slurm's plugin opens this file by name; Debian's slurm-wlm does not bring it.
PMIX = sorted(Path("/usr/lib").glob("*/pmix2/lib/libpmix.so"))
needs_pmix = pytest.mark.skipif(not PMIX, reason="Slurm's PMIx has no library: apt-get install libpmix-dev")
# The hosts of the test cluster share /tmp, where each would make the same folder.
OWN_FOLDER = "environment: {SLURM_PMIX_TMPDIR: /run}"


@pytest.fixture
def made(slurm_hosts: Cluster) -> Cluster:
    return slurm_hosts


@pytest.fixture(scope="module", autouse=True)
def limited(slurm_hosts: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Popen[bytes], Path]]:
    """Begin a study that will not end before its time limit; return its process and its folder."""
    folder = tmp_path_factory.mktemp(LIMITED)
    base = LONG | ALONE
    extra = {"exclude": "node1,node2"}
    write(folder, slurm_hosts, "submitter.time_limit: '2'", base=base, extra=extra, name=LIMITED)
    with begun(slurm_hosts, folder, hosts="{count: 1, slots: 1}") as process:
        yield process, folder


@pytest.fixture
def folder(made: Cluster, tmp_path: Path) -> Iterator[Path]:
    """Return a folder with an odd name; whatever a test leaves in Slurm is ended."""
    odd = tmp_path / 'it\'s a "study" 한글'
    odd.mkdir()
    yield odd
    if jobs := queue(made):
        made.hosts[0].run(["scancel", *(job.split()[0] for job in jobs)], check=False)
    wait_until(lambda: not queue(made), "jobs are left")


def queue(made: Cluster) -> list[str]:
    """Return the jobs that wait or run, as `number name`, but for the one that waits for its time limit."""
    lines = made.hosts[0].run(["squeue", "--noheader", "--format=%i %j"], check=False).stdout.splitlines()
    return [line for line in lines if LIMITED not in line]


def write(
    folder: Path,
    made: Cluster,
    cluster: str = "",
    base: dict[str, Any] | None = None,
    extra: dict[str, str] | None = None,
    **parts: Any,
) -> None:
    """Write a scenario and a cluster file, and put the paced trainer beside them; jobs get the first two hosts."""
    scenario = {"baseline": "none", "base": BASE | {"epochs": 3} | (base or {}), **TIMES, **parts}
    (folder / "s.yaml").write_text(json.dumps(scenario))
    shutil.copy(paced.__file__, folder)
    lines = ["hosts: {count: 2, slots: 2}", "submitter: sbatch", f"ssh: {shlex.quote(str(made.ssh))}", cluster]
    lines.append(f"submitter.extra: {json.dumps({'exclude': 'node3'} | (extra or {}))}")
    (folder / "c.yaml").write_text("\n".join(lines) + "\n")


def words(folder: Path, *more: str) -> list[str]:
    named = [str(folder / "s.yaml"), "--cluster", str(folder / "c.yaml"), "--output", str(folder / "studies")]
    return [*DLBENCH, "run", *named, *more]


def run(made: Cluster, folder: Path, *more: str) -> CompletedProcess[str]:
    return made.hosts[0].run(words(folder, *more), cwd=folder, timeout_s=240, check=False)


def call(folder: Path, *more: str, code: int = 0) -> str:
    """Do as `run` in this process, where nothing is submitted: no Slurm answers here."""
    return Bench(folder).call(*words(folder, *more)[len(DLBENCH) + 1 :], code=code)


def name_hosts(folder: Path, hosts: str) -> None:
    path = folder / "c.yaml"
    path.write_text(path.read_text().replace("{count: 2, slots: 2}", hosts))


@contextlib.contextmanager
def begun(made: Cluster, folder: Path, *more: str, hosts: str = "") -> Iterator[Popen[bytes]]:
    """Start dlbench, on other hosts than those of the cluster file if these are named."""
    if hosts:
        name_hosts(folder, hosts)
    process = made.hosts[0].start(words(folder, *more), cwd=folder, output=folder / "log")
    try:
        yield process
    finally:
        for pid in callers(made, folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(timeout=60)


def callers(made: Cluster, folder: Path) -> list[int]:
    """Return the dlbench that was called, not those in jobs."""
    return processes(made, str(folder / "s.yaml").encode())


def processes(made: Cluster, word: bytes) -> list[int]:
    """Return the processes of the first host with a word at the end of one of their arguments, the oldest first.

    Those of nsenter are left out.
    """
    found = []
    for who in sorted(made.hosts[0].processes(), key=lambda who: who.started):
        with contextlib.suppress(OSError):
            argv = Path(f"/proc/{who.pid}/cmdline").read_bytes().split(b"\0")
            if any(argument.endswith(word) for argument in argv[1:]) and not argv[0].endswith(b"nsenter"):
                found.append(who.pid)
    return found


def press_ctrl_c(made: Cluster, folder: Path) -> None:
    # The oldest: what it has just started looks like itself for a moment, and ids of processes begin again.
    os.kill(callers(made, folder)[0], signal.SIGINT)


def printed(folder: Path) -> str:
    return (folder / "log").read_text()


@needs_pmix
@pytest.mark.mpi
def test_processes_connect_on_one_host_and_on_two_that_keep_their_order_in_a_job_each(
    made: Cluster, folder: Path
) -> None:
    """Slurm itself sorts hosts by name; a worker that is not where its layout has it ends the run."""
    arms = [{"mode": "scale-up"}, {"workers": 3, "workers_per_host": 2}]
    more = "submitter.per: run\n" + OWN_FOLDER
    write(folder, made, more, base={"launcher": "srun", "epochs": 10}, include=arms)
    name_hosts(folder, ",".join(f"{host.name}:2" for host in reversed(made.hosts[:2])))
    done = run(made, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    up, out = sorted(rows(folder), key=lambda row: int(row["workers"]))
    assert [(row["workers"], row["hosts"]) for row in (up, out)] == [("2", "1"), ("3", "2")]
    for row in (up, out):
        assert (row["status"], row["submitter"], row["launcher"]) == ("completed", "sbatch", "srun")
        assert row["workers_agree"] == "exact"
    # Gradients cross the link between two hosts only.
    assert int(out["network_bytes"]) > int(out["steps"]) * 8 * 650
    assert int(up["network_bytes"]) < int(up["steps"]) * 8 * 650
    assert len(list((study(folder) / files.SUBMISSIONS_FOLDER).iterdir())) == 2
    assert done.stdout.count(" runs on node[1-2]") == 2
    # The summary is shown once, and the job's own lines are shown as they come.
    assert done.stdout.count("completed repeat") == 1
    assert "workers_per_host=2, repeat 0" in done.stdout
    # Nothing is left to submit.
    assert "job " not in call(folder, "--resume")


@pytest.mark.mpi
def test_processes_of_srun_that_do_not_connect_are_a_failed_run(made: Cluster, folder: Path) -> None:
    write(folder, made, base={"launcher": "srun", "launcher.mpi": "none", "mode": "scale-out"})
    done = run(made, folder)
    assert done.returncode == 1, done.stdout + done.stderr
    (row,) = rows(folder)
    assert row["status"] == "failed"
    assert "2 MPI ranks were expected to connect, but 1 did" in row["reason"], row["reason"]
    assert "use `srun --mpi=pmix`" in row["reason"], row["reason"]


def test_one_host_is_this_machine_to_the_job_and_an_edited_scenario_is_refused_before_it_waits(
    made: Cluster, folder: Path
) -> None:
    base = ALONE | {"launcher": "local"}
    write(folder, made, base=base)
    (folder / "c.yaml").write_text("hosts: {count: 1, slots: 2}\nsubmitter: sbatch\n")
    done = run(made, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(row["status"], row["launcher"], row["hosts"]) for row in rows(folder)] == [("completed", "local", "1")]
    (folder / "s.yaml").write_text((folder / "s.yaml").read_text().replace('"epochs": 3', '"epochs": 4'))
    assert "the scenario was edited" in call(folder, "--study", str(study(folder)), code=2)
    assert len(list((study(folder) / files.SUBMISSIONS_FOLDER).iterdir())) == 1


def test_in_a_job_of_slurm_its_hosts_are_found(made: Cluster, folder: Path) -> None:
    """dlbench is called within a job, and no hosts are named."""
    write(folder, made, base={"mode": "scale-out"})
    command = shlex.join([*DLBENCH, "run", str(folder / "s.yaml"), "--output", str(folder / "studies")])
    job, output = folder / "job.sh", folder.parent / "printed"
    asked = f"--nodes=2 --exclude=node3 --ntasks-per-node=2 --overcommit --output={output}"
    job.write_text(f"#!/bin/sh\n#SBATCH {asked}\n{command}\n")
    agent = {"PRTE_MCA_plm_ssh_agent": str(made.ssh)}
    made.hosts[0].run(["sbatch", str(job)], cwd=folder, variables=agent)
    wait_until(lambda: not queue(made), "the job does not end")
    assert [(row["status"], row["hosts"]) for row in rows(folder)] == [("completed", "2")], output.read_text()


def test_ctrl_c_ends_the_run_cleanly_and_resume_submits_again(made: Cluster, folder: Path) -> None:
    write(folder, made, base=LONG | {"mode": "scale-out"})
    with begun(made, folder) as process:
        wait_until(lambda: trains(folder), "nothing trains")
        press_ctrl_c(made, folder)
        assert process.wait(timeout=60) == 130, printed(folder)
    assert "interrupted; continue with: dlbench run --study" in printed(folder)
    wait_until(lambda: not queue(made), "the job still runs")
    (row,) = rows(folder)
    assert (row["status"], row["reason"]) == ("interrupted", "interrupted")
    # Slurm's hosts are others each time: the study names none of them.
    assert "node" not in json.dumps(json.loads((study(folder) / files.STUDY).read_text())["cluster"]["hosts"])
    write(folder, made, base=LONG | {"mode": "scale-out"}, extra={"begin": "now+1hour"})
    with begun(made, folder, "--resume") as process:
        wait_until(lambda: "waits: PENDING (BeginTime)" in printed(folder), "it is not submitted again")
        press_ctrl_c(made, folder)
        assert process.wait(timeout=60) == 130, printed(folder)
    assert queue(made) == []
    assert len(list((study(folder) / files.SUBMISSIONS_FOLDER).iterdir())) == 2
    assert [row["status"] for row in rows(folder)] == ["interrupted"]


@pytest.mark.soak  # unit tests check the message
def test_a_job_that_waits_is_the_only_one_of_its_study(made: Cluster, folder: Path) -> None:
    write(folder, made, base=ALONE, extra={"begin": "now+1hour"})
    with begun(made, folder) as process:
        wait_until(lambda: "waits: PENDING (BeginTime)" in printed(folder), "it does not wait")
        other = run(made, folder, "--resume")
        assert other.returncode == 2
        assert "a job of this study is there already: job" in other.stderr
        press_ctrl_c(made, folder)
        assert process.wait(timeout=60) == 130, printed(folder)
    assert queue(made) == []
    write(folder, made, base=ALONE)
    done = run(made, folder, "--resume")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.soak  # unit tests read each of Slurm's reasons
def test_a_job_that_is_killed_leaves_a_row_with_slurms_reason(made: Cluster, folder: Path) -> None:
    write(folder, made, base=LONG | ALONE)
    with begun(made, folder) as process:
        wait_until(lambda: trains(folder), "nothing trains")
        pids = [pid for word in (b"slurm_script", b"--followed") for pid in processes(made, word)]
        # Both are held first: the script would report dlbench's end, and Slurm asks dlbench to end with the script.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                os.kill(pid, number)
        assert process.wait(timeout=90) == 1, printed(folder)
    (row,) = rows(folder)
    assert row["status"] == "interrupted"
    assert row["reason"].startswith("dlbench itself was ended while this attempt ran (Slurm reports job"), row["reason"]


def test_a_layout_that_does_not_fit_is_refused_before_it_is_submitted(made: Cluster, folder: Path) -> None:
    write(folder, made, base={"workers": 6})
    said = call(folder, code=2)
    assert "6 workers do not fit on 4 slots; at most 4 fit, or all with `hosts: {count: 2, slots: 3}`" in said
    assert not (folder / "studies").exists()


def test_a_dry_run_prints_the_script_and_submits_nothing(made: Cluster, folder: Path) -> None:
    write(folder, made, "submitter.setup: [module load cuda]")
    said = call(folder, "--dry-run")
    assert said.startswith("#!/bin/bash\n")
    assert "#SBATCH --nodes=2\n" in said
    assert "\nmodule load cuda\n" in said
    assert "queue-0:2" in said
    assert queue(made) == []
    assert not (folder / "studies").exists()


def test_a_job_without_the_studys_folder_and_what_slurm_and_dlbench_in_the_job_refuse_are_reported(
    made: Cluster, folder: Path
) -> None:
    """That a job without the folder wrote nothing is known some seconds after its end: others are refused meanwhile."""
    unseen, unknown, refused = (folder / name for name in ("unseen", "unknown", "refused"))
    for path in (unseen, unknown, refused):
        path.mkdir()
    write(unseen, made, base=ALONE, extra={"exclude": "node1,node3"})
    made.hosts[1].run(["mount", "-t", "tmpfs", "tmpfs", str(unseen)])
    try:
        with begun(made, unseen, hosts="{count: 1, slots: 1}") as process:
            write(unknown, made, "submitter.partition: nosuch")
            done = run(made, unknown)
            assert done.returncode == 2
            assert "Slurm refused the job: invalid partition specified: nosuch" in done.stderr
            assert list((unknown / "studies").iterdir()) == []

            write(refused, made, base={"mode": "scale-out"})
            (refused / "c.yaml").write_text("hosts: {count: 2, slots: 2}\nsubmitter: sbatch\nssh: /nosuch/ssh\n")
            done = run(made, refused)
            assert done.returncode == 2, done.stdout
            assert "dlbench in the job" in done.stderr
            assert "/nosuch/ssh cannot be started" in done.stderr
            assert list((refused / "studies").iterdir()) == []

            assert process.wait(timeout=60) == 1, printed(unseen)
    finally:
        made.hosts[1].run(["umount", str(unseen)])
    assert ": FAILED (NonZeroExitCode); it wrote nothing into" in printed(unseen)


def test_before_its_time_limit_a_job_ends_cleanly(limited: tuple[Popen[bytes], Path]) -> None:
    """Slurm asks it up to a minute and a half before: the other tests of this file run meanwhile."""
    process, folder = limited
    assert process.wait(timeout=200) == 1, printed(folder)
    assert "was asked to end before its runs were done: by its queue (a time limit, " in printed(folder)
    assert [row["status"] for row in rows(folder)] == ["interrupted"]
