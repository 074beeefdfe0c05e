"""Jobs of queues whose hosts are not taken by themselves."""

from pathlib import Path

import pytest

from dlbench.errors import UserError
from dlbench.scenario.cluster.queues import refuse_unnamed_hosts


def test_a_job_of_several_hosts_is_refused_with_the_option_that_names_them(tmp_path: Path) -> None:
    nodes, pairs = tmp_path / "nodes", tmp_path / "pairs"
    nodes.write_text("a\na\nb\nb\n")
    pairs.write_text("a 4 all.q@a UNDEFINED\nb 4 all.q@b UNDEFINED\n")
    for variables, said in (
        ({"PBS_NODEFILE": str(nodes)}, ["PBS", f"PBS_NODEFILE={nodes}", '--hostfile "$PBS_NODEFILE"']),
        ({"COBALT_NODEFILE": str(nodes)}, ["Cobalt", '--hostfile "$COBALT_NODEFILE"']),
        ({"LSB_DJOB_HOSTFILE": str(nodes), "LSB_HOSTS": "a b"}, ["LSF", '--hostfile "$LSB_DJOB_HOSTFILE"']),
        ({"LSB_MCPU_HOSTS": "a 4 b 2", "LSB_HOSTS": "a a a a b b"}, ["LSF", "--hosts a:4,b:2"]),
        ({"LSB_HOSTS": "a a b"}, ["LSF", "--hosts a:2,b:1"]),
        ({"PE_HOSTFILE": str(pairs)}, ["Grid Engine", '--hostfile "$PE_HOSTFILE"']),
        ({"PBS_NODEFILE": str(tmp_path / "gone")}, ["may have several hosts", '--hostfile "$PBS_NODEFILE"']),
        ({"OAR_NODEFILE": str(nodes)}, ["OAR", '--hostfile "$OAR_NODEFILE"']),
        ({"PJM_O_NODEINF": str(nodes)}, ["Fujitsu", '--hostfile "$PJM_O_NODEINF"']),
        ({"HQ_NODE_FILE": str(nodes)}, ["HyperQueue", '--hostfile "$HQ_NODE_FILE"']),
        ({"LOADL_HOSTFILE": str(nodes)}, ["LoadLeveler", '--hostfile "$LOADL_HOSTFILE"']),
        ({"LSB_DJOB_HOSTFILE": "", "LSB_HOSTS": "a b"}, ["LSF", "--hosts a:1,b:1"]),
        ({"SLURM_NODELIST": "a[1-2]"}, ["Slurm", "no SLURM_JOB_NODELIST", "--hosts"]),
        ({"SLURM_NODELIST": "a[1-2]", "SLURM_JOB_NODELIST": ""}, ["Slurm", "no SLURM_JOB_NODELIST"]),
        ({"SLURM_JOB_ID": "1", "SLURM_NNODES": "2"}, ["Slurm", "SLURM_NNODES=2 and no SLURM_JOB_NODELIST"]),
        ({"SLURM_JOBID": "1", "SLURM_NODELIST": "", "SLURM_JOB_NUM_NODES": "2"}, ["Slurm", "SLURM_JOB_NUM_NODES=2"]),
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
        {"LSB_MCPU_HOSTS": "a 4", "LSB_HOSTS": "a a a a"},
        {"SLURM_NODELIST": "a1"},
        {"SLURM_NODELIST": "", "SLURM_JOB_ID": "1", "SLURM_NNODES": "1"},
        {"SLURM_NNODES": "2"},
        {"FLUX_URI": ""},
        {"SLURM_NODELIST": "a[1-2]", "SLURM_JOB_NODELIST": "a[1-2]"},
        {"FLUX_JOB_ID": "f2", "FLUX_JOB_NNODES": "1"},
    ):
        refuse_unnamed_hosts(variables)
