import pytest

from dlbench.errors import UserError
from dlbench.scenario.layout import Layout, Place
from dlbench.worker.process.rank import SOURCES, Identity, check, from_environment, identify


def layout(places):
    return Layout(
        places=tuple(Place(rank=rank, workers=(rank,)) for rank in range(places)),
        intra_op_threads=1,
        inter_op_threads=1,
    )


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_every_launcher_is_understood(source):
    environment = {source.rank: "2"}
    if source.size:
        environment |= {source.local_rank: "1", source.size: "4"}
    assert from_environment(environment) == Identity(
        2, 1 if source.local_rank else None, 4 if source.size else None, source.name
    )


def test_slurm_around_mpirun_is_not_believed():
    environment = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "OMPI_COMM_WORLD_RANK": "3"}
    assert from_environment(environment).rank == 3


def test_the_launcher_of_dlbench_is_believed_first():
    environment = {"DLBENCH_RANK": "1", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "7"}
    assert identify(environment, layout(2)) == Identity(1, source="dlbench")


def test_one_process_needs_no_launcher():
    assert identify({}, layout(1)).rank == 0


def test_several_processes_that_nobody_numbers_are_refused():
    with pytest.raises(UserError, match="2 processes and nothing says which one this is"):
        identify({}, layout(2))


@pytest.mark.parametrize("text", ["one", "-1", "1.0", "²"])
def test_a_rank_that_is_no_number_is_refused(text):
    with pytest.raises(UserError, match="DLBENCH_RANK should be a number"):
        from_environment({"DLBENCH_RANK": text})


def test_an_empty_variable_says_nothing():
    assert from_environment({"DLBENCH_RANK": "", "PMI_RANK": "1"}).source == "MPICH"


def test_jobs_of_size_one_are_refused():
    environment = {"PMI_RANK": "0", "PMI_SIZE": "1"}
    with pytest.raises(UserError, match="MPICH says there are 1 processes, this run has 2"):
        identify(environment, layout(2))


def test_a_rank_outside_the_layout_is_refused():
    with pytest.raises(UserError, match="this is rank 2, this run has ranks 0 to 1"):
        check(layout(2), 2, None, "x says")
