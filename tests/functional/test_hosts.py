"""Other hosts are asked before anything is launched: what they answer, and what is wrong with them, all at once."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dlbench.errors import UserError
from dlbench.hosts import MARK, describe
from dlbench.hosts.agent import hashes
from dlbench.hosts.describe import describe_hosts
from dlbench.hosts.remote import Agents, command
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.cluster.host_list import parse_hosts as cluster
from dlbench.study.prepare import NotPrepared, _summary
from tests.functional.executables import write_executable

LIBRARIES = {"numpy": "2.4.6", "pandas": "3.0"}
HERE = {"software": {"python": "3.11.7", "libraries": LIBRARIES, "dlbench": {"commit": "abc"}}}
SSH = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]
Ssh = Callable[..., dict[str, str]]


@pytest.fixture
def ssh(tmp_path: Path) -> Ssh:
    """Return what makes a program in ssh's place; it writes its words down and does as the host's script says."""

    def make(**scripts: str) -> dict[str, str]:
        cases = [f"{name}) {script} ;;" for name, script in scripts.items()]
        lines = [f'echo "$@" >> "{tmp_path}/words"', "case $1 in", *cases, "esac"]
        program = write_executable(tmp_path / "agent", *lines)
        return {"PRTE_MCA_plm_ssh_agent": str(program)}

    return make


def answer(cores: list[int], kernel: str = "", files: dict[str, str] | None = None, **software: Any) -> str:
    machine = {"software": {**HERE["software"], **software}}
    text = json.dumps({"cores": cores, "machine": machine, "kernel": kernel, "files": files or {}})
    return f"echo 'Welcome!'; echo '{MARK}{text}'; echo 'You have mail.'"


def test_hosts_report_their_cores_their_kernel_and_what_they_are(
    ssh: Ssh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/it is/python")
    environment = ssh(a=answer([0, 1, 2, 3], "one"), b=answer([4, 5], "two"), c=answer([0], "one"))
    found, machines = describe_hosts(cluster("a:4,localhost:1,b:2,c:1"), HERE, environment)
    assert [host.cores for host in found.hosts if not host.is_here] == [(0, 1, 2, 3), (4, 5), (0,)]
    assert found.hosts[1].cores == cluster("localhost:1").hosts[0].cores
    assert found.hosts[0].slots == 4
    # Hosts of one kernel are one machine.
    assert [host.machine for host in found.hosts] == [0, 1, 2, 0]
    assert [machine["software"] for machine in machines] == [HERE["software"]] * 3
    words = sorted((tmp_path / "words").read_text().splitlines())
    assert [word.partition(" ")[0] for word in words] == ["a", "b", "c"]
    assert all(word.endswith(f" sh {Path.cwd()} '/opt/it is/python' -P -m dlbench.hosts.agent") for word in words)


def test_everything_that_is_wrong_is_reported_at_once(
    ssh: Ssh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe, "_ANSWER_S", 2.0)
    monkeypatch.setattr(sys, "executable", "/x/python")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("x = 1\n")
    same = hashes(["mine.py"])
    answers = {
        "a": (
            "echo 'ssh: connect to host a port 22: No route to host' >&2; exit 255",
            "cannot be reached: ssh: connect",
        ),
        "l": (
            "echo '@ WARNING: THE KEY HAS CHANGED! @\n@@@\nIT IS POSSIBLE\nNo key.' >&2; exit 255",
            "cannot be reached: WARNING: THE KEY HAS CHANGED!; No key.",
        ),
        "b": ("echo 'sh: 1: /x/python: not found' >&2; exit 127", "has no /x/python: "),
        "c": (
            "echo \"ModuleNotFoundError: No module named 'dlbench'\" >&2; exit 1",
            "dlbench does not work there (exit",
        ),
        "d": (
            answer([0], "", same, libraries={"numpy": "1.26.0"}, python="3.12.1"),
            "has other versions: Python 3.12.1",
        ),
        "e": ("exec sleep 120", "no answer within 2 s"),
        "f": (answer([0], "", same), ""),
        "g": (f"echo '{MARK}{{broken'", "dlbench does not work there: its answer is not understood"),
        "h": (answer([0], "", same, dlbench={"commit": "def"}), "has other versions: dlbench's commit def (here abc)"),
        "i": (answer([0], "", {"mine.py": "other"}), "has another mine.py"),
        "j": (answer([0]), f"has no mine.py in {tmp_path}"),
        "k": (f'echo \'{MARK}{{"error": "out of luck"}}\'', "out of luck"),
    }
    environment = ssh(**{name: script for name, (script, _) in answers.items()})
    with pytest.raises(UserError) as caught:
        describe_hosts(cluster(",".join(f"{name}:1" for name in answers)), HERE, environment, files=["mine.py"])
    lines = str(caught.value).splitlines()
    expected = [f"  {name}: {problem}" for name, (_, problem) in answers.items() if problem]
    assert len(lines[1:-1]) == len(expected)
    for line, beginning in zip(lines[1:-1], expected, strict=True):
        assert line.startswith(beginning)
    assert lines[-1].endswith("agent a true  shows how it is reached")
    describe_hosts(cluster("f:1"), HERE, environment, files=["mine.py"])


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(UserError, match="/absent/agent cannot be started: No such file or directory"):
        describe_hosts(cluster("a:1"), HERE, {"PRTE_MCA_plm_ssh_agent": "/absent/agent"})


def test_hosts_are_reached_as_the_cluster_says_else_as_open_mpi_reaches_them() -> None:
    cases: list[tuple[dict[str, str], list[str]]] = [
        ({}, ["ssh", *SSH]),
        ({"OMPI_MCA_plm_rsh_agent": "ssh : rsh"}, ["ssh", *SSH]),
        ({"PRTE_MCA_plm_ssh_agent": "/x/ssh -F 'a b'"}, ["/x/ssh", "-F", "a b", *SSH]),
        ({"PRTE_MCA_plm_ssh_agent": "rsh -x", "OMPI_MCA_plm_rsh_agent": "other"}, ["rsh", "-x"]),
    ]
    for environment, argv in cases:
        assert command(cluster("a:1"), environment) == argv
    made = cluster("a:1").model_copy(update={"ssh": "ssh -p 2222"})
    assert command(made, {"PRTE_MCA_plm_ssh_agent": "other"}) == ["ssh", "-p", "2222", *SSH]


def test_cores_that_are_named_are_kept_if_the_host_has_them(ssh: Ssh) -> None:
    environment = ssh(a=answer([0, 1, 2]), b=answer([0, 1]))
    named = [host.model_copy(update={"cores": (2, 1)}) for host in cluster("a:1,b:1").hosts]
    with pytest.raises(UserError, match="b: has no core 2; its cores are 0, 1\n") as caught:
        describe_hosts(Cluster(hosts=tuple(named)), HERE, environment)
    assert " a: " not in str(caught.value)
    found, _ = describe_hosts(Cluster(hosts=(named[0],)), HERE, environment)
    assert found.hosts[0].cores == (2, 1)


def test_hosts_that_a_job_shares_have_as_many_cores_as_it_was_given(
    ssh: Ssh, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "a,b", "SLURM_JOB_CPUS_PER_NODE": "2,4"}
    environment = ssh(a=answer([0, 1, 2, 3]), b=answer([0, 1, 2, 3]))
    whole, share = (4, False), (2, True)
    for said, job, expected in [
        ("OK\n", slurm, [share, whole]),
        ("", slurm, [share, whole]),  # Slurm does not answer
        ("NO\n", slurm, [whole, whole]),
        ("OK\n", {}, [whole, whole]),
        ("OK\n", {**slurm, "SLURM_JOB_NODELIST": "c,d"}, [whole, whole]),
    ]:
        monkeypatch.setattr(describe, "ask", lambda *_, said=said: subprocess.CompletedProcess((), 0, said, ""))
        with subtests.test(said=said, job=job):
            found, _ = describe_hosts(cluster("a:2,b:2"), HERE, environment | job)
            assert [(len(host.cores), host.is_shared) for host in found.hosts] == expected


def test_the_folder_of_prepared_data_is_read_from_whatever_a_login_shell_prints() -> None:
    summary = {"folder": "/c/{d}", "checksum": "7", "doubt": ""}
    line = json.dumps(summary)
    for printed in (line, f"Welcome!\n{line}\n", f"{{on a}} $ {line}", f"{line}Bye! {{\n", f'{{"folder": 1}} {line}'):
        assert _summary(printed) == summary, printed
    with pytest.raises(NotPrepared, match="its folder was not reported"):
        _summary(f"Welcome! {line[:-1]}")


def test_this_machine_alone_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Agents, "ask", lambda *words: pytest.fail("asked"))
    monkeypatch.setattr(socket, "gethostname", lambda: "me")
    here = cluster("localhost:2,me:1")
    found, machines = describe_hosts(here, HERE, {})
    assert [host.cores for host in found.hosts] == [here.hosts[0].cores] * 2
    assert machines == ()
