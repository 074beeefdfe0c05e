"""Keras's engines: each keeps the contract of trainers, and all train alike."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.functional.mpi_programs.launch import QUICK_XLA, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


# They compile for long; that both train as TensorFlow does is tested below.
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


SCENARIO = """
name: engines
base: {model: cnn, model.filters: [8], model.batch_norm: true, dataset: digits, train_samples: 638, epochs: 2,
       validation_samples: 200, batch_size: 50, learning_rate: 0.1, seed: 3, cores_per_worker: 1}
include:
- {backend: tensorflow}
- {backend: torch}
- {backend: jax, steps_per_execution: 5, input: device}
- {backend: torch, strategy: ddp, workers: 2, launcher: torchrun, input: device}
baseline: none
order: written
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a study of all engines."""
    folder = tmp_path_factory.mktemp("engines")
    Path(folder, "engines.yaml").write_text(SCENARIO)
    program = [sys.executable, "-m", "dlbench", "run", "engines.yaml"]
    ended = subprocess.run(
        program, cwd=folder, env=os.environ | QUICK_XLA, capture_output=True, text=True, check=False, timeout=280
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return next(folder.glob("studies/*"))


@pytest.mark.tensorflow
def test_three_engines_train_alike_from_the_same_weights(study: Path) -> None:
    epochs = pd.read_csv(study / "epochs.csv").merge(
        pd.read_csv(study / "runs.csv"), on="run_id", suffixes=("", "_run")
    )
    alone = epochs[epochs["workers"] == 1].set_index("backend")
    for column in ("train_loss", "validation_loss", "train_accuracy"):
        first = alone[alone["epoch"] == 1][column]
        assert sorted(first.index) == ["jax", "tensorflow", "torch"]
        assert first.max() - first.min() < 1e-4, column
        assert first.iloc[0] - alone[alone["epoch"] == 2][column].iloc[0] != 0


@pytest.mark.tensorflow
def test_rows_name_the_engine_and_what_moved_bytes(study: Path) -> None:
    runs = pd.read_csv(study / "runs.csv").set_index(["backend", "strategy"])
    assert set(runs["status"]) == {"completed"}
    assert set(runs.index[runs["input"] == "device"]) == {("jax", "single"), ("torch", "ddp")}
    assert runs.loc[("torch", "ddp"), "workers_agree"] == "exact"
    assert runs["validation_accuracy"].min() > 0.5
    assert runs.loc[("torch", "ddp"), "collectives"] == "gloo"
    assert runs.loc[("torch", "ddp"), "launcher"] == "torchrun"
    versions = runs.loc[("torch", "single")]
    assert versions["torch_version"]
    assert versions[["tensorflow_version", "jax_version"]].isna().all()
    assert set(runs["tf32"]) == {False}


@pytest.mark.tensorflow
def test_a_row_says_how_many_steps_its_call_has_made(study: Path) -> None:
    runs = pd.read_csv(study / "runs.csv").set_index("run_id")
    in_calls = runs["steps_per_execution"] == 5
    assert (runs["step_time_p50_s"].isna() == in_calls).all()
    steps = pd.read_csv(study / "steps.csv")
    of_calls = steps[steps["run_id"] == runs.index[in_calls][0]]
    # 638 samples are 12 batches of 50 and one of 38; the first step is made alone.
    assert of_calls["num_steps"].tolist() == [1, 5, 5, 1, 1, 5, 5, 1, 1, 1]
    assert of_calls["step"].tolist() == of_calls["num_steps"].cumsum().tolist()
    assert of_calls["num_samples"].sum() == runs["samples_seen"][in_calls].item() == 2 * 638
