"""Slurm's lists of hosts and tasks, valid and invalid."""

import pytest

from dlbench.errors import UserError
from dlbench.scenario.cluster.allocation import allocation, counts_per_node, node_names


def test_lists_of_hosts(subtests: pytest.Subtests) -> None:
    for text, names in [
        ("node1", ["node1"]),
        ("a,b-2,c.example", ["a", "b-2", "c.example"]),
        ("gpu[01-03,7]", ["gpu01", "gpu02", "gpu03", "gpu7"]),
        ("gpu[098-101],login", ["gpu098", "gpu099", "gpu100", "gpu101", "login"]),
        ("r[1-2]n[1-2]x", ["r1n1x", "r1n2x", "r2n1x", "r2n2x"]),
        ("a[1],b[2-2]", ["a1", "b2"]),
    ]:
        with subtests.test(text=text):
            assert node_names(text) == names


def test_tasks_of_each_host(subtests: pytest.Subtests) -> None:
    for text, counts in [("4", [4]), ("2(x3),1", [2, 2, 2, 1]), ("1,1(x2)", [1, 1, 1])]:
        with subtests.test(text=text):
            assert counts_per_node(text, "X") == counts


TASKS = {"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_NTASKS": "5", "SLURM_TASKS_PER_NODE": "2(x2),1"}


def test_the_hosts_of_a_job(subtests: pytest.Subtests) -> None:
    for environment, slots in [
        (TASKS, [2, 2, 1]),
        (TASKS | {"SLURM_JOB_CPUS_PER_NODE": "64(x3)", "SLURMD_NODENAME": "n1"}, [2, 2, 1]),
        ({"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_JOB_CPUS_PER_NODE": "8,4"}, [8, 4]),
        ({"SLURM_JOB_NODELIST": "n[1-2]"}, [1, 1]),
        ({"SLURM_JOB_NODELIST": "n1", "SLURM_JOB_CPUS_PER_NODE": "8", "SLURMD_NODENAME": "login"}, [8]),
    ]:
        with subtests.test(environment=environment):
            found = allocation(environment)
            assert found is not None
            assert [host.address for host in found.hosts] == [f"n{number + 1}" for number in range(len(slots))]
            assert [host.slots for host in found.hosts] == slots


def test_a_job_of_the_one_host_we_are_on_is_this_machine() -> None:
    assert allocation({"SLURM_JOB_NODELIST": "n1", "SLURM_NTASKS": "1", "SLURMD_NODENAME": "n1"}) is None


def test_outside_of_a_job_there_are_none(subtests: pytest.Subtests) -> None:
    for environment in [{}, {"SLURM_JOB_NODELIST": ""}, {"SLURM_TASKS_PER_NODE": "2"}]:
        with subtests.test(environment=environment):
            assert allocation(environment) is None


def test_what_is_no_list_of_hosts(subtests: pytest.Subtests) -> None:
    for text in [
        "a,",
        ",a",
        "a,,b",
        "a[",
        "a]",
        "a[1-]",
        "a[x]",
        "a[]",
        "a[1,a[2]]",
        "a,a",
        "a[2-1]",
        "a[2-1],b",
        "[",
        " ,",
        "a[٣]",
    ]:
        with subtests.test(text=text), pytest.raises(UserError, match="SLURM_JOB_NODELIST"):
            node_names(text)


def test_what_is_no_list_of_tasks(subtests: pytest.Subtests) -> None:
    for text in ["", "x", "2(x", "2(x0)", "0", "-1", "2,", "2(x3)1"]:
        with subtests.test(text=text), pytest.raises(UserError, match="X="):
            counts_per_node(text, "X")


def test_numbers_that_do_not_fit_are_said() -> None:
    with pytest.raises(UserError, match=r"names 2 hosts .* counts for 3"):
        allocation(TASKS | {"SLURM_JOB_NODELIST": "n[1-2]"})


def test_a_list_without_end_is_refused_at_once(subtests: pytest.Subtests) -> None:
    for text in ["n[1-999999999]", "n[1-9999]m[1-9999]"]:
        with subtests.test(text=text), pytest.raises(UserError, match="more than 100000 hosts"):
            node_names(text)
