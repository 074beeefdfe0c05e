"""Slurm's lists of hosts and tasks, and jobs of queues whose hosts are not taken by themselves."""

from pathlib import Path

import pytest

from dlbench.errors import UserError
from dlbench.scenario.cluster.allocation import (
    allocation,
    counts_per_node,
    node_names,
    refuse_several_of_us,
    refuse_unnamed_hosts,
)


def test_lists_of_hosts(subtests: pytest.Subtests) -> None:
    for text, names in [
        ("node1", ["node1"]),
        ("a,b-2,c.example", ["a", "b-2", "c.example"]),
        ("gpu[01-03,7]", ["gpu01", "gpu02", "gpu03", "gpu7"]),
        ("gpu[098-101],login", ["gpu098", "gpu099", "gpu100", "gpu101", "login"]),
        ("r[1-2]n[1-2]x", ["r1n1x", "r1n2x", "r2n1x", "r2n2x"]),
    ]:
        with subtests.test(text=text):
            assert node_names(text) == names


TASKS = {"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_NTASKS": "5", "SLURM_TASKS_PER_NODE": "2(x2),1"}
GPU_JOB = {
    "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_JOB_CPUS_PER_NODE": "64(x2)",
    "SLURM_GPUS_ON_NODE": "4",
}  # fmt: skip


def test_the_hosts_of_a_job(subtests: pytest.Subtests) -> None:
    for environment, slots in [
        (TASKS, [2, 2, 1]),
        (TASKS | {"SLURM_JOB_CPUS_PER_NODE": "64(x3)", "SLURMD_NODENAME": "n1"}, [2, 2, 1]),
        ({"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_JOB_CPUS_PER_NODE": "8,4"}, [8, 4]),
        ({"SLURM_JOB_NODELIST": "n[1-2]"}, [1, 1]),
        (GPU_JOB, [4, 4]),
        (GPU_JOB | {"SLURM_GPUS_ON_NODE": "0"}, [64, 64]),
        (GPU_JOB | {"SLURM_NTASKS": "2", "SLURM_GPUS": "6"}, [1, 1]),
        (GPU_JOB | {"SLURM_GPUS": "a100:8"}, [4, 4]),
        (GPU_JOB | {"SLURM_GPUS_ON_NODE": "", "SLURM_GPUS_PER_NODE": "a100:2"}, [2, 2]),
        (GPU_JOB | {"SLURM_GPUS_ON_NODE": "", "SLURM_GPUS_PER_NODE": "a100:2,v100:1"}, [3, 3]),
        ({"SLURM_JOB_NODELIST": "n1", "SLURM_JOB_CPUS_PER_NODE": "8", "SLURM_GPUS": "2"}, [2]),
        ({"SLURM_JOB_NODELIST": "n1", "SLURM_JOB_CPUS_PER_NODE": "8", "SLURMD_NODENAME": "login"}, [8]),
    ]:
        with subtests.test(environment=environment):
            found = allocation(environment)
            assert found is not None
            assert [host.address for host in found.hosts] == [f"n{number + 1}" for number in range(len(slots))]
            assert [host.slots for host in found.hosts] == slots
    # Outside of a job there are none, and the one host that we are on is this machine.
    alone = {"SLURM_JOB_NODELIST": "n1", "SLURM_NTASKS": "1", "SLURMD_NODENAME": "n1"}
    for environment in ({}, {"SLURM_JOB_NODELIST": ""}, {"SLURM_TASKS_PER_NODE": "2"}, alone):
        assert allocation(environment) is None, environment


def test_gpus_that_hosts_may_have_unevenly_are_refused() -> None:
    for environment in (GPU_JOB | {"SLURM_GPUS": "6"}, GPU_JOB | {"SLURM_GPUS_ON_NODE": "", "SLURM_GPUS": "a100:8"}):
        with pytest.raises(UserError, match=r"gives [68] GPUs \(SLURM_GPUS\) to 2 hosts.*"):
            allocation(environment)


HET = {"SLURM_JOB_NODELIST_HET_GROUP_0": "n1", "SLURM_JOB_NODELIST_HET_GROUP_1": "n[2-3]"}


def test_a_job_of_several_components_is_refused() -> None:
    for own in ({"SLURM_JOB_NODELIST": "n1", "SLURMD_NODENAME": "n1"}, {"SLURM_JOB_NODELIST": "n[2-3]"}, {}):
        with pytest.raises(UserError, match=r"2 components .*_GROUP_0=n1, .*_GROUP_1=n\[2-3\]"):
            allocation(HET | own)
    # The variables of a job that this one was submitted in.
    assert allocation(HET | {"SLURM_JOB_NODELIST": "m[1-2]"}) is not None


STEP = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2", "SLURM_PROCID": "0"}


def test_one_of_several_dlbench_is_refused() -> None:
    for environment, launcher in (
        (STEP, "srun"),
        (STEP | {"SLURM_PROCID": "1", "SLURM_PTY_PORT": "1"}, "srun"),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "mpirun"),
        ({"PMI_SIZE": "2"}, "mpiexec"),
        (STEP | {"PMI_SIZE": "2"}, "srun"),
        (STEP | {"SLURM_PTY_PORT": "1", "OMPI_COMM_WORLD_SIZE": "2"}, "mpirun"),
        (STEP | {"SLURM_PTY_PORT": "1", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"}, "torchrun"),
        ({"HOROVOD_SIZE": "2"}, "horovodrun"),
    ):
        with pytest.raises(UserError, match=rf"one of 2 tasks that {launcher} has started") as caught:
            refuse_several_of_us(environment)
        assert caught.value.hint == f"start it once, without {launcher}: it starts the workers itself"
    for environment in (
        {},
        {"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_JOB_ID": "1"},  # a script of sbatch, a shell of salloc
        STEP | {"SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "1"},
        STEP | {"SLURM_NTASKS": "1"},  # a job that was submitted within a step
        STEP | {"SLURM_PTY_PORT": "1", "PMI_SIZE": "2"},  # srun -n2 --pty bash
        {"OMPI_COMM_WORLD_SIZE": "1", "PMI_SIZE": "1"},
        {"WORLD_SIZE": "2", "RANK": "0"},
        {"WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "none"},
    ):
        refuse_several_of_us(environment)


def test_what_is_no_list_of_hosts(subtests: pytest.Subtests) -> None:
    for text in ["a,", ",a", "a,,b", "a[", "a]", "a[1-]", "a[x]", "a[]", "a[1,a[2]]", "a,a", "a[2-1]", "[", "a[٣]"]:
        with subtests.test(text=text), pytest.raises(UserError, match="SLURM_JOB_NODELIST"):
            node_names(text)
    # Refused at once.
    for text in ["n[1-999999999]", "n[1-9999]m[1-9999]"]:
        with subtests.test(text=text), pytest.raises(UserError, match="more than 100000 hosts"):
            node_names(text)


def test_lists_of_tasks(subtests: pytest.Subtests) -> None:
    assert counts_per_node("2(x3),1", "X") == [2, 2, 2, 1]
    for text in ["", "2(x", "2(x0)", "0", "-1", "2,", "2(x3)1"]:
        with subtests.test(text=text), pytest.raises(UserError, match="X="):
            counts_per_node(text, "X")
    with pytest.raises(UserError, match=r"names 2 hosts .* counts for 3"):
        allocation(TASKS | {"SLURM_JOB_NODELIST": "n[1-2]"})


def test_a_job_of_several_hosts_is_refused_with_the_option_that_names_them(tmp_path: Path) -> None:
    nodes, pairs = tmp_path / "nodes", tmp_path / "pairs"
    nodes.write_text("a\na\nb\nb\n")
    pairs.write_text("a 4 all.q@a UNDEFINED\nb 4 all.q@b UNDEFINED\n")
    for variables, said in (
        ({"PBS_NODEFILE": str(nodes)}, ["PBS", f"PBS_NODEFILE={nodes}", '--hostfile "$PBS_NODEFILE"']),
        ({"LSB_DJOB_HOSTFILE": str(nodes)}, ["LSF", "has 2 hosts", '--hostfile "$LSB_DJOB_HOSTFILE"']),
        ({"PE_HOSTFILE": str(pairs)}, ["Grid Engine", '--hostfile "$PE_HOSTFILE"']),
        ({"PBS_NODEFILE": str(tmp_path / "gone")}, ["may have several hosts", '--hostfile "$PBS_NODEFILE"']),
        ({"LSB_MCPU_HOSTS": "a 4 b 2", "LSB_HOSTS": "a a a a b b"}, ["LSF", "has 2 hosts", "--hosts a:4,b:2"]),
        ({"LSB_MCPU_HOSTS": "l 1 a 2 b 2"}, ["has 3 hosts", "first host may only launch", "--hosts a:2,b:2"]),
        (
            {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "2"},
            ["Slurm", "SLURM_JOB_NUM_NODES=2 and no SLURM_JOB_NODELIST"],
        ),
        ({"FLUX_JOB_ID": "f2", "FLUX_JOB_NNODES": "2"}, ["Flux", "--hosts"]),
        ({"FLUX_URI": "local:///x"}, ["Flux", "--hosts"]),
    ):
        with pytest.raises(UserError) as caught:
            refuse_unnamed_hosts(variables)
        assert [words for words in (*said, "--hosts localhost:") if words not in str(caught.value)] == [], variables


def test_a_job_of_one_host_is_taken(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes"
    nodes.write_text("a\na\n\n")
    for variables in (
        {},
        {"PBS_NODEFILE": str(nodes)},
        {"PBS_NODEFILE": ""},
        {"FLUX_URI": ""},
        {"LSB_MCPU_HOSTS": "a 4"},
        {"SLURM_JOB_NUM_NODES": "1"},
        {"SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "a[1-2]"},
        {"FLUX_JOB_ID": "f2", "FLUX_JOB_NNODES": "1"},
    ):
        refuse_unnamed_hosts(variables)
