"""What Horovod's autotuning settled on, read from logs as it writes them."""

from pathlib import Path

import pytest

from dlbench.strategies._autotune import settled

HEADER = (
    "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,cycle_time_ms,"
    "tensor_fusion_threshold,score\n"
)
SAMPLES = "0,0,0,1,5,4,20.5\n0,0,0,1,50,32,10\n0,0,0,1,7.25,16.5,31.25\n0,0,0,0,7.25,16.5,30\n"
BEST = "0,0,0,1,7.25,16.5,31.25\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "autotune.csv"


def test_the_best_parameters_are_the_last_line(log: Path) -> None:
    log.write_text(HEADER + SAMPLES + BEST)
    assert settled(str(log)) == {"autotuned_fusion_threshold_mb": 16.5, "autotuned_cycle_time_ms": 7.25}


@pytest.mark.parametrize(
    "text", ["", HEADER, HEADER + SAMPLES, HEADER + SAMPLES + BEST[:-1], "score\n1\n1\n", HEADER + "a,b\na,b\n"]
)
def test_a_search_that_has_not_ended_settled_nothing(log: Path, text: str) -> None:
    log.write_text(text)
    assert settled(str(log)) == {}


def test_no_log_is_nothing(tmp_path: Path) -> None:
    assert settled("") == {}
    assert settled(str(tmp_path / "none.csv")) == {}
