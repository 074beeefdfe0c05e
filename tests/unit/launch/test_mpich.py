"""The commands and variables of `mpirun` where it is MPICH's."""

from itertools import pairwise
from typing import Any

import pytest

from dlbench.errors import UserError
from dlbench.launch.launchers import mpirun
from dlbench.launch.plan import plan
from dlbench.records.mpi import Mpi
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.settings import Settings
from tests.unit.launch.fakes import assignment, layout

PROGRAM = ("/p/python", "-P", "-m", "dlbench.worker")
VARIABLES = ("DLBENCH_ASSIGNMENT", "PATH")
MPI = Settings.model_validate({"strategy": "mpi"})
PYTHON = "/opt/env/bin/python"


@pytest.fixture(autouse=True)
def mpich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpirun, "mpi_of", lambda path: Mpi("MPICH", "5.0.2"))
    monkeypatch.setattr(mpirun, "executable", lambda: "/opt/env/bin/mpirun")


def argv(*hosts: str, **parts: Any) -> tuple[str, ...]:
    return mpirun.argv(layout(*hosts, **parts), PROGRAM, mpirun.OPTIONS(), MPI, VARIABLES)


def test_hosts_are_listed_with_their_processes() -> None:
    words = argv("a", "a", "b")
    assert words[words.index("-hosts") + 1] == "a:2,b:1"
    assert words[words.index("-launcher") + 1] == "ssh"
    assert "-iface" not in words


@pytest.mark.parametrize(("interface", "is_said"), [("ib0", True), ("10.1.0.0/16", False)])
def test_an_interface_is_said_by_its_name(interface: str, is_said: bool) -> None:
    words = argv("a", "b", interface=interface)
    assert (("-iface", interface) in pairwise(words)) == is_said
    assert "-iface" not in argv("localhost", "localhost", interface=interface)


def test_where_ranks_share_cores_they_give_them_away_on_every_host() -> None:
    name = "MPIR_CVAR_ENABLE_HEAVY_YIELD"
    crowded = layout("a", "b", emulated=("oversubscribed",))
    assert mpirun.environment(crowded, mpirun.OPTIONS(), MPI) == {name: "1"}
    words = argv("a", "b", emulated=("oversubscribed",))
    assert name in words[words.index("-genvlist") + 1].split(",")
    assert mpirun.environment(layout("a", "b"), mpirun.OPTIONS(), MPI) == {name: "0"}


@pytest.mark.parametrize("family", ["MPICH", "Intel MPI", "Open MPI"])
def test_only_open_mpi_takes_its_own_parameters(monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    monkeypatch.setattr(mpirun, "mpi_of", lambda path: Mpi(family, "5"))
    said = mpirun.refuse(mpirun.OPTIONS(mca={"btl": "tcp"}), MPI)
    refusal = f"launcher.mca is for Open MPI, and the mpirun here is {family}'s"
    assert said == "" if family == "Open MPI" else said.startswith(refusal)
    assert mpirun.refuse(mpirun.OPTIONS(), MPI) == ""


def reached(command: str | None = None, **base: str) -> dict[str, str]:
    """Return the variables of a plan on other hosts that say how these are reached."""
    far = Cluster(hosts=(Host(address="a", slots=1), Host(address="b", slots=1)), ssh=command or "")
    made = plan(assignment(workers=2, launcher="mpirun"), base, PYTHON, far)
    assert "HYDRA_LAUNCHER_EXEC" not in made.files["plan.json"], "a path of this machine"
    assert not [name for name in made.env if name.startswith(("OMPI_", "PRTE_"))]
    return {name: value for name, value in made.env.items() if name.startswith("HYDRA_")}


def test_other_hosts_are_reached_as_the_cluster_or_the_user_says() -> None:
    assert reached() == {}
    assert reached("'/a b/ssh'") == {"HYDRA_LAUNCHER_EXEC": "/a b/ssh"}
    said = {"HYDRA_LAUNCHER_EXEC": "ssh", "HYDRA_LAUNCHER_EXTRA_ARGS": "-F x -p 22"}
    assert reached("ssh -F x -p 22") == said
    assert reached(**said) == said
    assert reached(PRTE_MCA_plm_ssh_agent="ssh -F x -p 22") == said


def test_intel_mpi_stays_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpirun, "mpi_of", lambda path: Mpi("Intel MPI", "2021.19.0"))
    assert "-n" in argv("localhost", "localhost")
    with pytest.raises(UserError, match=r"Intel MPI's mpirun .* on this machine alone"):
        argv("a", "b")


def test_an_argument_with_a_space_is_refused() -> None:
    for odd in ("a b", ""):
        with pytest.raises(UserError, match=f"MPICH cannot give ssh the argument '{odd}'"):
            reached(f"ssh -F '{odd}'")
