"""Keras's engines keep the contract of trainers; that all train alike is tested in `test_replica_runs`."""

import os
import subprocess
import sys

import pytest

from tests.functional.mpi_programs.launch import QUICK_XLA, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


# They compile for long.
@pytest.mark.soak
@pytest.mark.parametrize("engine", ["torch", "jax"])
def test_an_engine_keeps_the_contract_and_loads_no_other(engine: str) -> None:
    program = [sys.executable, "-m", "tests.functional.engine_programs.contract", f"keras_{engine}"]
    ended = subprocess.run(
        program, cwd=ROOT, env=os.environ | QUICK_XLA, capture_output=True, text=True, check=False, timeout=280
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    first_weights, loaded = ended.stdout.splitlines()[-2:]
    assert first_weights == "first weights 741.166 152204.401"  # on every engine
    assert loaded == f"loaded {engine}"
    assert "Warning" not in ended.stderr
