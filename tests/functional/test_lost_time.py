"""Where the time of several workers goes: causes that are put into real runs are named."""

from pathlib import Path

import pytest

from dlbench import load_study
from dlbench.analysis.metrics.lost_time import lost_time, sentence
from tests.functional.studies import Bench

TEXT = """\
base:
  {{trainer: "tests.functional.paced:Trainer", model: softmax, dataset: digits, strategy: mpi, workers: 2, epochs: 2,
    batch_size: 32, extend_window: true, cores_per_worker: 1, trainer.step_s: 0.01, {cause}}}
"""


@pytest.mark.alone
@pytest.mark.parametrize(
    ("cause", "name", "share"),
    [
        # `test_measured_times` measures the wait, and unit tests name it.
        pytest.param("trainer.straggler_s: 0.02", "waiting for the slowest", 0.2, marks=pytest.mark.soak),
        ("trainer.shared_input_s: 0.02", "input", 0.4),
    ],
)
def test_a_cause_is_named(tmp_path: Path, cause: str, name: str, share: float) -> None:
    with Bench(tmp_path) as work:
        path = tmp_path / "s.yaml"
        path.write_text(TEXT.format(cause=cause))
        said = work.call(path)
        study = load_study(work.study())
    (arm,) = (arm for arm in study.report_data.arms if arm.workers == 2)
    lost = lost_time(arm)
    assert lost is not None
    assert 0 < sum(lost.values()) < 1
    text = sentence(arm, lost)
    assert f"{name.capitalize()} takes" in text, lost
    # Of training alone, without the start-up of a run that is so short.
    once = sum(lost[part] for part in ("start-up", "first step"))
    assert lost[name] / (1 - once) > share, lost
    assert text in said
