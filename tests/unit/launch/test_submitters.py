"""What submitters say of themselves, what they ask a queue for, and how they read its answers."""

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from pydantic import ValidationError

from dlbench.errors import UserError
from dlbench.launch.submission import Job, JobStatus, Stage, Submission, cluster_text
from dlbench.launch.submitters import _slurm_script, direct, sbatch
from dlbench.launch.submitters.sbatch import job_status
from dlbench.records import files
from dlbench.scenario.cluster import Cluster, Host, Prices, cluster_file

TWO = Cluster(hosts=tuple(Host(address=f"queue-{n}", slots=4) for n in range(2)), submitter="sbatch")
OURS = {"SLURM_JOB_ID": "7", "DLBENCH_SUBMITTED": "7"}
JOB = {**OURS, "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NTASKS": "6", "SLURM_TASKS_PER_NODE": "3(x2)"}


def submission(folder: Path, **parts: Any) -> Submission:
    given: dict[str, Any] = {"study": folder, "number": 1, "cluster": TWO, "about": "all runs"}
    return Submission(**given | parts)


def within(cluster: Cluster, environment: Mapping[str, str] = JOB) -> Cluster:
    found = sbatch.inside(cluster, environment)
    assert found is not None
    return found


def test_outside_of_the_job_that_dlbench_was_submitted_as_there_are_no_hosts() -> None:
    assert direct.inside(TWO, {}) == TWO, "that is always inside"
    interactive = {name: value for name, value in JOB.items() if name != "DLBENCH_SUBMITTED"}
    for environment in ({}, interactive, {**interactive, "DLBENCH_SUBMITTED": "6"}):
        assert sbatch.inside(TWO, environment) is None, environment


def test_in_a_job_its_hosts_take_the_place_of_those_asked_for_and_all_else_stays() -> None:
    cluster = TWO.model_copy(update={"prices": Prices(currency="EUR"), "ssh": "ssh -p 2222", "interface": "eth1"})
    found = within(cluster)
    assert [(host.address, host.slots) for host in found.hosts] == [("n1", 3), ("n2", 3)]
    assert found.model_copy(update={"hosts": TWO.hosts}) == cluster
    # A job of one host is this machine, with the slots that were asked for.
    alone = {**OURS, "SLURM_JOB_NODELIST": "n1", "SLURMD_NODENAME": "n1"}
    (host,) = within(TWO.model_copy(update={"hosts": TWO.hosts[:1]}), alone).hosts
    assert (host.address, host.slots, set(host.cores)) == ("localhost", 4, os.sched_getaffinity(0))
    # Cores that were said are those of every host; those of a host that is not in this job are not those of another.
    for name, cores in (("queue-", (4, 5)), ("m", ())):
        asked = tuple(Host(address=f"{name}{number}", slots=4, cores=(4, 5)) for number in range(2))
        assert {host.cores for host in within(TWO.model_copy(update={"hosts": asked})).hosts} == {cores}


NAMED = (Host(address="n2", slots=3, cores=(0, 1, 2)), Host(address="n1", slots=3, cores=(5, 4, 3)))


@pytest.mark.parametrize(("launcher", "order"), [(None, ["n2", "n1"]), ("srun", ["n1", "n2"])])
def test_hosts_with_names_have_their_cores_in_the_job_and_the_order_of_the_cluster_file(
    launcher: str | None, order: list[str]
) -> None:
    asked = TWO.model_copy(update={"hosts": NAMED, "launcher": launcher})
    read = cluster_file.parse(cluster_text(asked, sbatch.OPTIONS()), "cluster.yaml")
    found = within(read)
    assert [host.address for host in found.hosts] == order
    assert {host.address: host.cores for host in found.hosts} == {"n1": (5, 4, 3), "n2": (0, 1, 2)}


def test_all_cores_of_this_machine_are_not_asked_for_by_number() -> None:
    (here,) = cluster_file.parse("hosts: [{address: localhost, slots: 1}]\nsubmitter: sbatch\n", "c").hosts
    assert here.cores
    assert "cores" not in cluster_text(TWO.model_copy(update={"hosts": (here,)}), sbatch.OPTIONS())
    other = here.model_copy(update={"cores": (*here.cores, max(here.cores) + 1)})
    assert "cores" in cluster_text(TWO.model_copy(update={"hosts": (other,)}), sbatch.OPTIONS())


def test_the_output_of_a_job_that_cannot_be_read_for_a_while_is_read_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job("7", tmp_path)
    (tmp_path / files.JOB_OUTPUT).write_text("one\n")
    assert job.output() == "one\n"

    def fails(*given: Any) -> Any:
        raise OSError(errno.ESTALE, "Stale file handle")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", fails)
        assert job.output() == ""
    with (tmp_path / files.JOB_OUTPUT).open("a") as file:
        file.write("two\n")
    assert job.output() == "two\n"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"partition": "a b"}, "is one word"),
    ({"partition": "a'b"}, "is one word"),
    ({"time_limit": 14400}, "valid string"),
    ({"time_limit": "4 hours"}, "days-hours"),
    ({"time_limit": "4:70:00"}, "days-hours"),
    ({"setup": ["a\nb"]}, "is a single line"),
    ({"extra": {"--constraint": "a"}}, "by their long names, .* not '--constraint'"),
    ({"extra": {"C": "a"}}, "by their long names, .* not 'C'"),
    ({"extra": {"": "a"}}, "by their long names"),
    ({"extra": {"mail_type": "ALL"}}, "by their long names, such as mail-type"),
    ({"extra": {"partition": "gpu"}}, "partition is decided by `submitter.partition`"),
    ({"extra": {"gres": "gpu:2"}}, "gpu:2 is decided by `submitter.gpus_per_host`"),
    ({"extra": {"gres": "nvme:1,gres/gpu:a100:2"}}, "is decided by `submitter.gpus_per_host`"),
    ({"extra": {"comment": 'a"b'}}, "holds a quote"),
    ({"extra": {"comment": "a\nb"}}, "a line break"),
    ({"gpus_per_host": -1}, "such as a100:4"),
    ({"gpus_per_host": "a100"}, "such as a100:4"),
    ({"gpus_per_host": 4.5}, "such as a100:4"),
    ({"per": "host"}, "'study' or 'run'"),
]


def test_options_that_no_script_can_hold_are_refused() -> None:
    for options, reason in REFUSED:
        with pytest.raises(ValidationError, match=reason):
            sbatch.OPTIONS.model_validate(options)


def test_an_option_that_dlbench_decides_is_refused_in_every_spelling() -> None:
    for names, decides in (
        ("gpus gpus-per-node gpus_per_node GPUS_PER_NODE --gpus gpus-per-n", "gpus_per_host"),
        ("nodelist nodefile", "`hosts: [{address"),
        ("nodes ntasks-per-node tasks-per-node overcommit", "`hosts: {count"),
        ("time --time", "submitter.time_limit"),
        ("mem mem_per_gpu", "submitter.memory"),
        ("cpus-per-task cpus_per_task", "submitter.cores_per_slot"),
        ("exclusive oversubscribe", "submitter.exclusive"),
        ("array arr", "`submitter.per: run`"),
        ("account partition qos", "submitter."),
        ("chdir output error job_name export signal requeue wait", "dlbench itself"),
    ):
        for name in names.split():
            assert decides in sbatch.instead(name), name
            with pytest.raises(ValidationError, match="is decided by"):
                sbatch.OPTIONS.model_validate({"extra": {name: "x"}})
    for name in ("extra", "mem-bind", "wait-all-nodes"):
        assert sbatch.OPTIONS.model_validate({"extra": {name: "x"}}).extra == {name: "x"}
    free = "constraint comment nice reservation exclude time-min hold no-kill mail-type gres"
    for name in free.split():
        assert sbatch.OPTIONS.model_validate({"extra": {name: "x"}}).extra == {name: "x"}
        assert f"`submitter.extra: {{{name}: ...}}`" in sbatch.instead(name)
    assert [sbatch.instead(name) for name in ("exclusiveness", "zebra")] == ["", ""]


def test_an_option_of_sbatch_beside_the_submitters_own_is_refused_with_the_setting() -> None:
    options = "submitter.nodelist: c1\nsubmitter.partiton: x\nsubmitter.per: y\n"
    text = f"hosts: {{count: 2, slots: 4}}\nsubmitter: sbatch\n{options}"
    with pytest.raises(UserError) as caught:
        cluster_file.parse(text, "c.yaml")
    errors = str(caught.value).split("\nc.yaml:")[1:]
    assert [error[0] for error in errors] == ["3", "4", "5"]
    assert "nodelist is decided by `hosts: [{address" in errors[0]
    assert "did you mean 'submitter.partition'?" in errors[1]


@pytest.mark.parametrize(
    ("text", "submitter"),
    [
        ("hosts: a:2,b:2\nsubmitter.partition: gpu\n", "sbatch"),
        ("hosts: a:2\nsubmitter.gpus_per_host: 2\n", "kubernetes` or `sbatch"),
        ("hosts: {count: 2, slots: 4}\nsubmitter: sbatch\nsubmitter.image: x\n", "kubernetes"),
    ],
)
def test_an_option_of_another_submitter_names_it(text: str, submitter: str) -> None:
    with pytest.raises(UserError) as caught:
        cluster_file.parse(text, "c.yaml")
    assert caught.value.hint == f"it is for `submitter: {submitter}`"


def test_what_a_script_asks_slurm_for(tmp_path: Path) -> None:
    for options, gres in (
        ({"gpus_per_host": 2, "extra": {"gres": "nvme:1"}}, ["gpu:2,nvme:1"]),
        ({"gpus_per_host": "a100:4"}, ["gpu:a100:4"]),
        ({"gpus_per_host": 0, "extra": {"gres": "lscratch:100"}}, ["lscratch:100"]),
        ({"extra": {"nice": 1}}, []),
    ):
        asked = _slurm_script.asked(submission(tmp_path), sbatch.OPTIONS.model_validate(options))
        assert [value for name, value in asked if name == "gres"] == gres, options
    for limit in ("30", "30:00", "4:00:00", "1-0", "1-12:30", "2-00:00:00"):
        assert ("time", limit) in _slurm_script.asked(submission(tmp_path), sbatch.OPTIONS(time_limit=limit))
    cluster = Cluster(hosts=(Host(address="a", slots=1), Host(address="b", slots=2)), submitter="sbatch")
    with pytest.raises(UserError, match="as many slots each"):
        sbatch.text(submission(tmp_path, cluster=cluster), sbatch.OPTIONS())


def test_variables_that_win_over_the_script_are_kept_from_sbatch() -> None:
    base = {"SBATCH_TIMELIMIT": "1", "SBATCH_PARTITION": "p", "SBATCH_OUTPUT": "x", "SBATCH_WAIT": "1", "PATH": "/bin"}
    assert sbatch._environment({"time", "output"}, base) == {"SBATCH_PARTITION": "p", "PATH": "/bin"}


def test_what_a_job_is_given_can_be_read_by_its_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sbatch, "ask", lambda *argv, **_: CompletedProcess(argv, 0, "7\n", ""))
    cluster = TWO.model_copy(update={"environment": {"MY_TOKEN": "opensesame"}})
    given = submission(tmp_path, cluster=cluster)
    given.folder.mkdir(parents=True)
    assert sbatch.submit(given, sbatch.OPTIONS()) == "7"
    modes = {path.name: path.stat().st_mode & 0o777 for path in given.folder.iterdir()}
    assert modes == {"cluster.yaml": 0o600, "job.sh": 0o600}
    assert "opensesame" in (given.folder / "cluster.yaml").read_text()


def test_a_cluster_reads_back_from_the_file_that_a_job_gets() -> None:
    options = sbatch.OPTIONS(partition="gpu", setup=("module load 'a b'",), extra={"nice": 3})
    hosts = tuple(host.model_copy(update={"cores": (0, 2)}) for host in TWO.hosts)
    cluster = TWO.model_copy(
        update={
            "hosts": hosts, "launcher": "mpirun", "ssh": "ssh -F 'a b'", "interface": "eth0",
            "environment": {"A": "1: 한글\n"}, "prices": Prices(currency="USD", host_hour=2.5),
            "options": options.model_dump(mode="json"), "emulated": ("throttled-link",),
        }
    )  # fmt: skip
    assert cluster_file.parse(cluster_text(cluster, options), "cluster.yaml") == cluster
    named = cluster.model_copy(update={"hosts": (Host(address="gpu-a", slots=2), Host(address="gpu-b", slots=2))})
    assert cluster_file.parse(cluster_text(named, options), "cluster.yaml") == named


@pytest.mark.parametrize(
    ("state", "reason", "hosts", "stage", "text"),
    [
        ("PENDING", "Resources", "", Stage.WAITING, "job 7 waits: PENDING (Resources)"),
        ("CONFIGURING", "None", "n1", Stage.WAITING, "job 7 waits: CONFIGURING"),
        ("RUNNING", "None", "n[1-2]", Stage.RUNNING, "job 7 runs on n[1-2]"),
        ("COMPLETING", "TimeLimit", "n1", Stage.RUNNING, "job 7 runs on n1 (TimeLimit)"),
        ("TIMEOUT", "TimeLimit", "n1", Stage.ENDED, "Slurm reports job 7: TIMEOUT (TimeLimit)"),
        ("NODE_FAIL", "None", "", Stage.ENDED, "Slurm reports job 7: NODE_FAIL"),
        ("OUT_OF_MEMORY", "", "", Stage.ENDED, "Slurm reports job 7: OUT_OF_MEMORY"),
        ("CANCELLED", "None", "", Stage.ENDED, "Slurm reports job 7: CANCELLED"),
    ],
)
def test_the_words_of_slurm_are_read(state: str, reason: str, hosts: str, stage: Stage, text: str) -> None:
    assert job_status("7", state, reason, hosts) == JobStatus(stage, text)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("BadConstraints", "`submitter.extra`"),
        ("PartitionConfig", "`submitter.gpus_per_host`"),
        ("PartitionTimeLimit", "lower `submitter.time_limit`"),
        ("PartitionNodeLimit", "lower `hosts`"),
    ],
)
def test_a_job_that_may_wait_for_ever_says_what_to_change(reason: str, cause: str) -> None:
    status = job_status("7", "PENDING", reason, "")
    assert status.stage is Stage.WAITING
    assert status.text.startswith(f"job 7 waits: PENDING ({reason}): ")
    assert all(word in status.text for word in (cause, "Ctrl-C"))
