"""Which variables are named as not passed on to workers."""

import pytest

from dlbench.launch.environment import not_passed_on
from dlbench.scenario.cluster import Cluster, Host
from tests.unit.launch.fakes import FAR

HERE = Cluster(hosts=(Host(address="localhost", slots=2),))
REMOVED = ["HOROVOD_CYCLE_TIME", "MPICH_GPU_SUPPORT_ENABLED", "OMPI_MCA_btl", "OMP_NUM_THREADS", "TF_CONFIG"]
SET = {
    "HOROVOD_CYCLE_TIME": "5", "OMP_NUM_THREADS": "4", "OMPI_MCA_btl": "tcp", "NCCL_DEBUG": "INFO", "UCX_TLS": "rc",
    "MPICH_GPU_SUPPORT_ENABLED": "1", "TF_CONFIG": "{}",
}  # fmt: skip
# Neither is a user's wish.
NOISE = {
    "PATH": "/bin", "OMPI_COMM_WORLD_RANK": "0", "PMIX_RANK": "0", "SLURM_JOB_ID": "7", "DLBENCH_RANK": "0",
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile", "PRTE_MCA_plm_ssh_agent": "ssh", "KMP_INIT_AT_FORK": "FALSE",
    "PYTHONPATH": "/x", "PYTHONSTARTUP": "x", "I_MPI_HYDRA_BOOTSTRAP": "slurm", "I_MPI_PMI_LIBRARY": "/x",
    "PMIX_MCA_gds": "hash", "MPICH_INTERFACE_HOSTNAME": "a", "OMPI_MCA_PREFIXES": "mca,opal", "OMPI_MCA_num_procs": "1",
    "OMPI_MCA_cpu_type": "x86_64", "OMPI_MCA_initial_wdir": "/x", "OMPI_MCA_ess_base_jobid": "1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("cluster", "launchers", "names"),
    [
        (HERE, {"mpirun", "local"}, REMOVED),
        (FAR, {"srun"}, REMOVED),
        (FAR, {"srun", "mpirun"}, sorted(SET)),
        (FAR.model_copy(update={"environment": SET | {"UCX_TLS": "tcp"}}), {"mpirun"}, []),
    ],
)
def test_variables_that_workers_do_not_get_are_named(cluster: Cluster, launchers: set[str], names: list[str]) -> None:
    line = not_passed_on(SET | NOISE, cluster, launchers)
    assert [name for name in sorted(SET | NOISE) if name in line.replace("PYTHONPATH", "")] == names
    assert ("`cores_per_worker`" in line) == ("options of its strategy" in line) == bool(names)


def test_relative_entries_of_pythonpath_are_named_and_nothing_where_nothing_is_set() -> None:
    assert not_passed_on(NOISE, HERE, {"local"}) == ""
    line = not_passed_on({"PYTHONPATH": ":/x:lib"}, HERE, {"local"})
    assert "PYTHONPATH that are not absolute ('', 'lib')" in line
    assert "`environment`" not in line
