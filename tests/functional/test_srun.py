"""`launcher: srun` in jobs of a real Slurm: processes meet by PMIx, on one host and on two; without it none trains."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.testing import cluster
from tests.functional.test_sbatch import rows, run, write
from tests.functional.test_several_hosts import give_cores

# Slurm's plugin opens this file by name; Debian's slurm-wlm does not bring it.
PMIX = sorted(Path("/usr/lib").glob("*/pmix2/lib/libpmix.so"))
needs_pmix = pytest.mark.skipif(not PMIX, reason="Slurm's PMIx has no library: apt-get install libpmix-dev")
# The hosts of the test cluster share /tmp, where each would make the same folder.
OWN_FOLDER = "environment: {SLURM_PMIX_TMPDIR: /run}"


@pytest.fixture(scope="module")
def made() -> Iterator[Cluster]:
    with cluster(2, slurm=True) as slurm:
        give_cores(slurm)
        yield slurm


@needs_pmix
@pytest.mark.mpi
def test_processes_meet_on_one_host_and_on_two(made: Cluster, tmp_path: Path) -> None:
    write(
        tmp_path, made, OWN_FOLDER, base={"launcher": "srun", "epochs": 30}, matrix={"mode": ["scale-up", "scale-out"]}
    )
    done = run(made, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {row["mode"]: row for row in rows(tmp_path)}
    assert {mode: (row["status"], row["hosts"], row["launcher"]) for mode, row in found.items()} == {
        "scale-up": ("completed", "1", "srun"),
        "scale-out": ("completed", "2", "srun"),
    }
    assert {row["workers_agree"] for row in found.values()} == {"exact"}
    assert len({row["train_loss"] for row in found.values()}) == 1
    # Gradients cross the wire between two hosts only.
    out, up = found["scale-out"], found["scale-up"]
    assert int(out["network_bytes"]) > int(out["steps"]) * 8 * 650 > int(up["network_bytes"])


@pytest.mark.mpi
def test_processes_that_do_not_meet_are_a_failed_run(made: Cluster, tmp_path: Path) -> None:
    write(tmp_path, made, base={"launcher": "srun", "launcher.mpi": "none", "mode": "scale-out"})
    done = run(made, tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    (row,) = rows(tmp_path)
    assert row["status"] == "failed"
    assert "2 MPI ranks were to meet, but 1 did" in row["reason"], row["reason"]
    assert "use `srun --mpi=pmix`" in row["reason"], row["reason"]


@needs_pmix
@pytest.mark.mpi
def test_named_hosts_keep_their_order(made: Cluster, tmp_path: Path) -> None:
    """Slurm itself sorts hosts by name; a worker that is not where its layout has it ends the run."""
    arms = [{"workers": 3, "workers_per_host": 2}, {"workers": 1, "workers_per_host": 1}]
    write(tmp_path, made, OWN_FOLDER, base={"launcher": "srun", "epochs": 30}, include=arms)
    hosts = ",".join(f"{host.name}:2" for host in reversed(made.hosts))
    text = (tmp_path / "c.yaml").read_text()
    (tmp_path / "c.yaml").write_text(text.replace("hosts: {count: 2, slots: 2}", f"hosts: {hosts}"))
    done = run(made, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {(row["status"], row["workers"], row["hosts"]) for row in rows(tmp_path)} == {
        ("completed", "3", "2"),
        ("completed", "1", "1"),
    }
