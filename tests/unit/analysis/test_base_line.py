"""A base line is the equal of its arm in every setting that decides the time of a step."""

from typing import Any

import pandas as pd
import pytest

from dlbench.analysis.arms import EQUAL, arms, equal_columns
from dlbench.analysis.groups import varying
from dlbench.records.columns import names
from dlbench.scenario.settings import Affects, Settings, settings_of

ALONE: dict[str, Any] = dict.fromkeys(names("runs")) | {
    "run_id": "alone-1-r0", "attempt": 1, "label": "alone", "status": "completed", "strategy": "single", "workers": 1,
    "samples_per_s": 100.0, "samples_per_s_per_worker": 100.0, "model.filters": "[8]",
}  # fmt: skip
PAIR = ALONE | {"run_id": "pair-1-r0", "label": "pair", "strategy": "mpi", "workers": 2, "samples_per_s": 160.0}


def has_base_line(pair: dict[str, Any]) -> bool:
    return next(arm for arm in arms([ALONE, pair]) if arm.name == "pair-1").efficiency is not None


def test_an_arm_and_its_base_line_differ_in_nothing_that_decides_a_step(subtests: pytest.Subtests) -> None:
    assert has_base_line(PAIR)
    assert {"input", "augmentation", "gradient_accumulation_steps", "nesterov", "weight_decay"} < set(EQUAL)
    for name in (*EQUAL, "model.filters"):
        with subtests.test(name=name):
            assert not has_base_line(PAIR | {name: "synthetic" if name == "input" else "other"})


def test_every_other_setting_may_differ(subtests: pytest.Subtests) -> None:
    others = settings_of(Affects.TRAINING, Affects.DISTRIBUTION, Affects.OBSERVATION)
    for name in (*others, "strategy.chunk_bytes"):
        if name not in ("epochs", "strategy", "workers"):
            with subtests.test(name=name):
                assert has_base_line(PAIR | {name: "other"})
    assert set(EQUAL) - set(Settings.model_fields) == {"dataset_checksum"}
    assert equal_columns(["model.filters", "strategy.chunk_bytes", "trainer.x"]) == ("model.filters", "trainer.x")


def test_runs_that_differ_in_a_setting_are_told_apart(subtests: pytest.Subtests) -> None:
    compared = settings_of(Affects.STEP, Affects.ARITHMETIC, Affects.TRAINING, Affects.DISTRIBUTION)
    for name in set(compared) - {"learning_rate", "mode", "workers_per_host", "seed", "launcher"}:
        with subtests.test(name=name):
            rows = [PAIR | {"emulated": None, name: value} for value in ("one", "other")]
            assert varying(pd.DataFrame(rows)) == (name,)
