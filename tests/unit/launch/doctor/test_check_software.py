"""Reached, Python, versions, MPI and Horovod."""

from typing import Any

import pytest

from dlbench.launch.doctor.check_software import horovod, mpi, python, reached, versions
from dlbench.scenario.cluster import Host
from tests.unit.launch.doctor.facts import facts, of, two


@pytest.mark.parametrize(
    ("problem", "mend"),
    [
        ("cannot be reached: root@b: Permission denied (publickey).", "ssh-copy-id b"),
        ("cannot be reached: Host key verification failed.", "ssh-keyscan b >> ~/.ssh/known_hosts"),
        (
            "cannot be reached: ssh: Could not resolve hostname b: Name or service not known",
            "echo 'ADDRESS b' | sudo tee -a /etc/hosts",
        ),
        ("cannot be reached: ssh: connect to host b port 22: No route to host", "ssh -v b true"),
        ("no answer within 18 s", "ssh -v b true"),
        ("has no /env/bin/python: the environment", "rsync -a --relative /env /work/dlbench b:/"),
        ("dlbench does not work there (exit code 1)", "rsync -a --relative /env /work/dlbench b:/"),
    ],
)
def test_why_a_host_does_not_answer_decides_what_mends_it(problem: str, mend: str) -> None:
    found = two(problem=problem)
    assert of(reached(found, found.hosts[1])) == [("fail", problem, mend)]


def test_the_environment_is_copied_once_where_dlbench_is_in_it() -> None:
    found = two(problem="has no /env/bin/python")
    inside = found.__class__(**{**vars(found), "root": "/env/lib/site-packages"})
    assert inside.copying(inside.hosts[1]) == "rsync -a --relative /env b:/"
    around = found.__class__(**{**vars(found), "prefix": "/work/dlbench/.venv"})
    assert around.copying(around.hosts[1]) == "rsync -a --relative /work/dlbench b:/"


def test_another_python() -> None:
    found = two(told={"machine/software/python": "3.12.1"})
    (remark,) = of(python(found, found.hosts[1]))
    assert remark[:2] == ("fail", "Python is 3.12.1, here 3.11.7: runs need the same")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"machine/software/libraries": {"numpy": "1.26"}}, [("fail", "other versions: numpy 1.26 (here 2.4.6)")]),
        ({"machine/software/libraries": {}}, [("fail", "other versions: numpy absent (here 2.4.6)")]),
        (
            {"machine/software/libraries": {"numpy": "2.4.6", "jax": "0.9"}},
            [("fail", "other versions: jax 0.9 (here absent)")],
        ),
        ({"machine/software/dlbench": {"commit": None}}, [("fail", "dlbench's commit is unknown, here abc")]),
        (
            {"machine/software/dlbench": {"commit": "abc", "dirty": True}},
            [("warn", "dlbench's code was changed since its commit, on one of the two only")],
        ),
    ],
)
def test_other_versions(told: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    found = two(told=told)
    assert [remark[:2] for remark in of(versions(found, found.hosts[1])) if remark[0] != "pass"] == expected


@pytest.mark.parametrize(
    ("told", "verdict", "said"),
    [
        ({}, "pass", "Open MPI v5.0.11 (/env/lib/libmpi.so.40), /env/bin/mpirun"),
        ({"mpi/mpirun_version": "mpirun (Open MPI) 5.0.3"}, "pass", "Open MPI v5.0.11 "),
        (
            {"mpi/mpirun_version": "mpirun (Open MPI) 4.1.4"},
            "fail",
            "mpirun (Open MPI) 4.1.4, but mpi4py loads Open MPI",
        ),
        ({"mpi/mpirun_version": "HYDRA build details:"}, "fail", "HYDRA build details:, but mpi4py loads Open MPI"),
        (
            {"mpi/mpirun_version": "HYDRA build details:", "mpi/library_version": "MPICH Version:      4.2.1"},
            "pass",
            "MPICH Version:      4.2.1",
        ),
        ({"mpi/mpirun": ""}, "fail", "no mpirun beside Python or on PATH"),
        ({"mpi/problem": "cannot load MPI library"}, "fail", "mpi4py loads no MPI library: cannot load MPI library"),
        ({"mpi": {"error": "no answer within 8 s"}}, "warn", "nobody knows whether MPI works: no answer within 8 s"),
        ({"mpi/error": "it is not loaded within 6 s"}, "warn", "nobody knows whether MPI works: it is not loaded"),
    ],
)
def test_launcher_and_library_belong_together(told: dict[str, Any], verdict: str, said: str) -> None:
    found = two(told={"mpi/on_path": "", **told})
    (remark,) = of(mpi(found, found.hosts[1]))
    assert remark[0] == verdict
    assert said in remark[1]


def test_without_mpi_one_machine_does_with_a_warning() -> None:
    found = facts(Host(address="localhost", slots=2), told={"mpi/mpirun": ""})
    assert [remark[0] for remark in of(mpi(found, found.hosts[0]))] == ["warn"]


def test_another_mpirun_first_on_the_path() -> None:
    told = {"mpi/on_path": "/usr/bin/mpirun", "mpi/on_path_version": "mpirun (Open MPI) 4.1.4"}
    found = two(told=told)
    remarks = of(mpi(found, found.hosts[1]))
    assert [remark[0] for remark in remarks] == ["pass", "warn"]
    assert remarks[1][2] == "ssh b 'sed -i '\"'\"'1i export PATH=/env/bin:$PATH'\"'\"' ~/.bashrc'"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"horovod": {"library": "", "operations": []}}, ["warn"]),
        ({"horovod/operations": ["MPI"]}, ["warn"]),
        ({"machine/gpus": [{"name": "H100"}]}, ["warn"]),
        ({"machine/gpus": [{"name": "H100"}], "horovod/operations": ["MPI", "Gloo", "NCCL"]}, ["pass"]),
        ({"horovod": {"error": "no answer within 8 s"}}, ["warn"]),
    ],
)
def test_what_moves_horovods_bytes(told: dict[str, Any], expected: list[str]) -> None:
    found = two(told=told)
    assert [remark[0] for remark in of(horovod(found, found.hosts[1]))] == expected


def test_a_slow_host_is_not_said_to_lack_horovod() -> None:
    found = two(told={"horovod": {"error": "no answer within 8 s"}})
    (remark,) = of(horovod(found, found.hosts[1]))
    assert remark[1] == "nobody knows whether Horovod works: no answer within 8 s"
    assert "make" not in remark[2]
