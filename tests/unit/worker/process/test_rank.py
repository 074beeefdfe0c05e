import pytest

from dlbench.errors import UserError
from dlbench.worker.process.rank import SOURCES, identify
from tests.unit.launch.fakes import layout


def test_every_launcher_is_understood():
    for source in SOURCES:
        environment = {source.rank: "2"} | ({source.size: "4"} if source.size else {})
        assert identify(environment, layout(*"aaaa")) == 2, source.name


def test_what_is_set_inside_something_else_is_believed():
    for environment, rank in (
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "OMPI_COMM_WORLD_RANK": "3"}, 3),
        ({"DLBENCH_RANK": "1", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "7"}, 1),
        ({"DLBENCH_RANK": "", "PMI_RANK": "1"}, 1),
    ):
        assert identify(environment, layout(*"aaaa")) == rank
    assert identify({}, layout("a")) == 0, "one process needs no launcher"


def test_processes_that_are_not_those_of_the_run_are_refused():
    for environment, message in (
        ({}, "2 processes and nothing says which one this is"),
        *(({"DLBENCH_RANK": text}, "DLBENCH_RANK should be a number") for text in ("one", "-1", "1.0", "²")),
        ({"PMI_RANK": "0", "PMI_SIZE": "1"}, "MPICH says there are 1 processes, this run has 2"),
        ({"PMI_RANK": "0", "PMI_SIZE": "3"}, "(?s)3 processes, this run has 2.*not of a sub-communicator"),
        ({"DLBENCH_RANK": "2"}, "this is rank 2, this run has ranks 0 to 1"),
    ):
        with pytest.raises(UserError, match=message):
            identify(environment, layout("a", "a"))
