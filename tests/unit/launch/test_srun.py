"""What srun is told: who runs where, and nothing secret."""

import pytest

from dlbench.launch.launchers import srun
from dlbench.scenario.layout import Layout, Place
from dlbench.scenario.settings import Settings

SETTINGS = Settings(strategy="mpi", launcher="srun", workers=2)


def layout(*hosts: str) -> Layout:
    places = tuple(Place(rank=rank, workers=(rank,), host=host) for rank, host in enumerate(hosts))
    return Layout(places=places, intra_op_threads=1, inter_op_threads=1)


def words(*hosts: str, **options: str) -> tuple[str, ...]:
    return srun.argv(layout(*hosts), ("python", "-m", "x"), srun.OPTIONS(**options), SETTINGS, ("SECRET",))


def test_processes_are_put_on_their_hosts_in_the_order_of_ranks() -> None:
    found = words("n2", "n2", "n1", "n1")
    assert {"--nodes=2", "--ntasks=4", "--distribution=arbitrary", "--nodelist=n2,n2,n1,n1"} <= set(found)
    assert found[-3:] == ("python", "-m", "x")
    assert {"--mpi=pmix", "--export=ALL", "--cpu-bind=none", "--kill-on-bad-exit=1"} <= set(found)
    assert not any("SECRET" in word for word in found)


@pytest.mark.parametrize("hosts", [("n1", "n1", "n2"), ("n1", "n2", "n2"), ("n1", "n2", "n1")])
def test_hosts_may_have_different_numbers(hosts: tuple[str, ...]) -> None:
    assert {"--nodes=2", "--ntasks=3", f"--nodelist={','.join(hosts)}"} <= set(words(*hosts))


def test_the_only_host_of_a_job_needs_no_name() -> None:
    found = words("localhost", "localhost")
    assert {"--nodes=1", "--ntasks=2"} <= set(found)
    assert not any(word.startswith("--nodelist") for word in found)


def test_the_way_processes_meet_can_be_said() -> None:
    assert "--mpi=pmi2" in words("n1", mpi="pmi2")


def test_outside_of_a_job_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert "for jobs of Slurm" in srun.refuse(srun.OPTIONS(), SETTINGS)
    assert srun.refuse(srun.OPTIONS(), SETTINGS.model_copy(update={"submitter": "sbatch"})) == ""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert srun.refuse(srun.OPTIONS(), SETTINGS) == ""
