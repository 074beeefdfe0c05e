"""Other hosts are asked before anything is launched: what they answer, and what is wrong with them, all at once."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dlbench.errors import UserError
from dlbench.launch import hosts
from dlbench.launch.hosts import look
from dlbench.launch.introduce import MARK
from dlbench.launch.remote import command
from dlbench.launch.sources import hashes
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.host_list import parse_hosts

LIBRARIES = {"numpy": "2.4.6", "pandas": "3.0"}
HERE = {"software": {"python": "3.11.7", "libraries": LIBRARIES, "dlbench": {"commit": "abc"}}}
SSH = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]
Ssh = Callable[..., dict[str, str]]


@pytest.fixture
def ssh(tmp_path: Path) -> Ssh:
    """Return what makes a program in ssh's place; it writes its words down and does as the host's script says."""

    def make(**scripts: str) -> dict[str, str]:
        program = tmp_path / "agent"
        cases = "\n".join(f"{name}) {script} ;;" for name, script in scripts.items())
        program.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/words"\ncase $1 in\n{cases}\nesac\n')
        program.chmod(0o755)
        return {"PRTE_MCA_plm_ssh_agent": str(program)}

    return make


def answer(cores: list[int], kernel: str = "", files: dict[str, str] | None = None, **software: Any) -> str:
    machine = {"software": {**HERE["software"], **software}}
    told = json.dumps({"cores": cores, "machine": machine, "kernel": kernel, "files": files or {}})
    return f"echo 'Welcome!'; echo '{MARK}{told}'; echo 'You have mail.'"


def cluster(text: str) -> Cluster:
    return parse_hosts(text)


def test_hosts_say_their_cores_and_what_they_are(ssh: Ssh, tmp_path: Path) -> None:
    environment = ssh(a=answer([0, 1, 2, 3]), b=answer([4, 5]))
    seen = look(cluster("a:4,localhost:1,b:2"), HERE, environment, python="/opt/it is/python")
    assert [host.cores for host in seen.cluster.hosts][::2] == [(0, 1, 2, 3), (4, 5)]
    assert seen.cluster.hosts[1].cores == cluster("localhost:1").hosts[0].cores
    assert seen.cluster.hosts[0].slots == 4
    assert [machine["software"] for machine in seen.machines] == [HERE["software"]] * 2
    words = sorted((tmp_path / "words").read_text().splitlines())
    assert [word.partition(" ")[0] for word in words] == ["a", "b"]
    assert all(word.endswith(f" sh {Path.cwd()} '/opt/it is/python' -m dlbench.launch.introduce") for word in words)


def test_everything_that_is_wrong_is_said_at_once(ssh: Ssh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "_ANSWER_S", 5.0)
    environment = ssh(
        a="echo 'ssh: connect to host a port 22: No route to host' >&2; exit 255",
        b="echo 'sh: 1: /x/python: not found' >&2; exit 127",
        c="echo 'Traceback' >&2; echo \"ModuleNotFoundError: No module named 'dlbench'\" >&2; exit 1",
        d=answer([0], libraries={"numpy": "1.26.0"}, python="3.12.1"),
        e="exec sleep 120",
        f=answer([0]),
        g=f"echo '{MARK}{{broken'",
        h=answer([0], dlbench={"commit": "def"}),
    )
    with pytest.raises(UserError) as caught:
        look(cluster("a:1,b:1,c:1,d:1,e:1,f:1,g:1,h:1"), HERE, environment, python="/x/python")
    lines = str(caught.value).splitlines()
    assert lines[1:-1] == [
        "  a: cannot be reached: ssh: connect to host a port 22: No route to host",
        "  b: has no /x/python: the environment must be at the same place on every host (sh: 1: /x/python: not found)",
        "  c: dlbench does not work there (exit code 1): ModuleNotFoundError: No module named 'dlbench'",
        "  d: has other versions: Python 3.12.1 (here 3.11.7), numpy 1.26.0 (here 2.4.6)",
        "  e: no answer within 5 s",
        "  g: dlbench does not work there: its answer is not understood",
        "  h: has other versions: dlbench's commit def (here abc)",
    ]
    assert lines[-1].endswith("agent a true  shows how it is reached")


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(UserError, match="/absent/agent cannot be started: No such file or directory"):
        look(cluster("a:1"), HERE, {"PRTE_MCA_plm_ssh_agent": "/absent/agent"})


@pytest.mark.parametrize(
    ("environment", "argv"),
    [
        ({}, ["ssh", *SSH]),
        ({"OMPI_MCA_plm_rsh_agent": "ssh : rsh"}, ["ssh", *SSH]),
        ({"PRTE_MCA_plm_ssh_agent": "/x/ssh -F 'a b'"}, ["/x/ssh", "-F", "a b", *SSH]),
        ({"PRTE_MCA_plm_ssh_agent": "rsh -x", "OMPI_MCA_plm_rsh_agent": "other"}, ["rsh", "-x"]),
    ],
)
def test_hosts_are_reached_as_open_mpi_reaches_them(environment: dict[str, str], argv: list[str]) -> None:
    assert command(cluster("a:1"), environment) == argv


def test_the_cluster_says_first_how_its_hosts_are_reached() -> None:
    made = cluster("a:1").model_copy(update={"ssh": "ssh -p 2222"})
    assert command(made, {"PRTE_MCA_plm_ssh_agent": "other"}) == ["ssh", "-p", "2222", *SSH]


def test_hosts_of_one_kernel_are_one_machine(ssh: Ssh) -> None:
    environment = ssh(a=answer([0], "one"), b=answer([0], "two"), c=answer([0], "one"))
    seen = look(cluster("a:1,b:1,c:1"), HERE, environment)
    assert [host.machine for host in seen.cluster.hosts] == [0, 1, 0]


def test_cores_that_were_said_are_kept_if_the_host_has_them(ssh: Ssh) -> None:
    environment = ssh(a=answer([0, 1, 2]), b=answer([0, 1]))
    said = [host.model_copy(update={"cores": (2, 1)}) for host in cluster("a:1,b:1").hosts]
    with pytest.raises(UserError, match="b: has no core 2; its cores are 0, 1\n") as caught:
        look(Cluster(hosts=tuple(said)), HERE, environment)
    assert " a: " not in str(caught.value)
    seen = look(Cluster(hosts=(said[0],)), HERE, environment)
    assert seen.cluster.hosts[0].cores == (2, 1)


def test_this_machine_alone_is_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "_ask", lambda *words: pytest.fail("asked"))
    monkeypatch.setattr(socket, "gethostname", lambda: "me")
    here = cluster("localhost:2,me:1")
    seen = look(here, HERE, {})
    assert [host.cores for host in seen.cluster.hosts] == [here.hosts[0].cores] * 2
    assert seen.machines == ()


def test_files_of_the_users_own_must_be_the_same_everywhere(
    ssh: Ssh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("x = 1\n")
    same = hashes(["mine.py"])
    environment = ssh(a=answer([0], files=same), b=answer([0], files={"mine.py": "other"}), c=answer([0]))
    look(cluster("a:1"), HERE, environment, files=["mine.py"])
    with pytest.raises(UserError) as caught:
        look(cluster("a:1,b:1,c:1"), HERE, environment, files=["mine.py"])
    assert str(caught.value).splitlines()[1:-1] == [
        "  b: has another mine.py",
        f"  c: has no mine.py in {tmp_path}",
    ]
