"""`launcher: srun` in jobs of a real Slurm: processes connect by PMIx on one host and on two, or the run fails."""

from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.functional.studies import rows
from tests.functional.test_sbatch import run, write

# Slurm's plugin opens this file by name; Debian's slurm-wlm does not bring it.
PMIX = sorted(Path("/usr/lib").glob("*/pmix2/lib/libpmix.so"))
needs_pmix = pytest.mark.skipif(not PMIX, reason="Slurm's PMIx has no library: apt-get install libpmix-dev")
# The hosts of the test cluster share /tmp, where each would make the same folder.
OWN_FOLDER = "environment: {SLURM_PMIX_TMPDIR: /run}"


@needs_pmix
@pytest.mark.mpi
def test_processes_connect_on_one_host_and_on_two_that_keep_their_order(slurm_hosts: Cluster, tmp_path: Path) -> None:
    """Slurm itself sorts hosts by name; a worker that is not where its layout has it ends the run."""
    arms = [{"mode": "scale-up"}, {"workers": 3, "workers_per_host": 2}]
    write(tmp_path, slurm_hosts, OWN_FOLDER, base={"launcher": "srun", "epochs": 10}, include=arms)
    hosts = ",".join(f"{host.name}:2" for host in reversed(slurm_hosts.hosts[:2]))
    text = (tmp_path / "c.yaml").read_text()
    (tmp_path / "c.yaml").write_text(text.replace("hosts: {count: 2, slots: 2}", f"hosts: {hosts}"))
    done = run(slurm_hosts, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    up, out = sorted(rows(tmp_path), key=lambda row: int(row["workers"]))
    assert [(row["workers"], row["hosts"], row["launcher"]) for row in (up, out)] == [
        ("2", "1", "srun"),
        ("3", "2", "srun"),
    ]
    assert [(row["status"], row["workers_agree"]) for row in (up, out)] == [("completed", "exact")] * 2
    # Gradients cross the link between two hosts only.
    assert int(out["network_bytes"]) > int(out["steps"]) * 8 * 650
    assert int(up["network_bytes"]) < int(up["steps"]) * 8 * 650


@pytest.mark.mpi
def test_processes_that_do_not_connect_are_a_failed_run(slurm_hosts: Cluster, tmp_path: Path) -> None:
    write(tmp_path, slurm_hosts, base={"launcher": "srun", "launcher.mpi": "none", "mode": "scale-out"})
    done = run(slurm_hosts, tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    (row,) = rows(tmp_path)
    assert row["status"] == "failed"
    assert "2 MPI ranks were expected to connect, but 1 did" in row["reason"], row["reason"]
    assert "use `srun --mpi=pmix`" in row["reason"], row["reason"]
