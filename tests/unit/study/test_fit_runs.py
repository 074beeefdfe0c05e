import threading
from typing import ClassVar

import pytest

from dlbench.errors import UserError
from dlbench.records.largest import Answer, Largest, Trial
from dlbench.scenario.expand import expand
from dlbench.scenario.largest import recipe
from dlbench.scenario.read import parse
from dlbench.scenario.run_spec import BatchOrigin
from dlbench.study import fit_runs, fit_search
from dlbench.study.continuation import continued
from dlbench.study.fit_runs import most_workers, with_found, with_known
from dlbench.study.folder import Question, create, open_study
from dlbench.study.prepare import Prepared, Stopped
from tests.unit.study.makers import MACHINE, question

TEXT = "name: s\nbase: {trainer: numpy, dataset: synthetic, batch_size: max, memory_limit_bytes: 2000000000}\n"


class FakeLaboratory:
    """Tries sizes without processes: what is above `limit` does not fit."""

    limit = 100
    samples = 10_000
    on_accelerator = False
    tried: ClassVar[list[int]]

    def __init__(self, run, cluster, data, memory_bytes, stop):
        self.data = data

    def attempt(self, size):
        type(self).tried.append(size)
        fits = size <= self.limit
        answer = Answer(
            fits=fits,
            reason="" if fits else "MemoryError",
            train_samples=self.samples,
            device_name="A device",
            on_accelerator=self.on_accelerator,
            resident_peak_bytes=1,
        )
        return Trial(batch_size=size, fits=fits, reason=answer.reason, wall_time_s=0.1), answer


@pytest.fixture
def laboratory(monkeypatch, tmp_path):
    """Replace trials and preparation; the cache is empty."""
    monkeypatch.setenv("DLBENCH_CACHE", str(tmp_path / "cache"))

    class Own(FakeLaboratory):
        tried: ClassVar[list[int]] = []

    def prepared(runs, say, stop):
        return {fit_runs.recipe_of(run): Prepared(tmp_path, "checksum") for run in runs}

    monkeypatch.setattr(fit_search, "Laboratory", Own)
    monkeypatch.setattr(fit_runs, "prepare", prepared)
    return Own


def asked(text=TEXT, **machine):
    base = question(text, asked=(), **machine)
    return Question(base.scenario, text, expand(parse(text, "s.yaml"), base.cluster), base.cluster, base.machine)


def found(asked_for, folder=None):
    said = []
    return with_found(asked_for, folder, said.append, threading.Event()), said


def test_the_number_is_found_before_run_ids_are_made(laboratory):
    settled, said = found(asked())
    (run,) = settled.runs
    assert (run.settings.batch_size, run.batch_size_origin) == (96, BatchOrigin.FOUND)
    assert "-b96-" in run.run_id
    (how,) = settled.largest_batches
    assert (how.batch_size, how.limited_by, how.device_name) == (96, "memory", "A device")
    assert [trial.batch_size for trial in how.trials] == laboratory.tried
    assert any("batch 128: does not fit: MemoryError" in line for line in said)


def test_the_next_study_knows_it(laboratory):
    found(asked())
    laboratory.tried.clear()
    settled, said = found(asked())
    assert settled.runs[0].settings.batch_size == 96
    assert laboratory.tried == []
    assert any("as found on" in line for line in said)
    assert with_known(asked()).runs == settled.runs


def test_another_machine_does_not_know_it(laboratory):
    found(asked())
    other = asked(cpu={**MACHINE["cpu"], "model": "Another CPU"})
    assert with_known(other).runs[0].batch_size_origin is BatchOrigin.OPEN


def test_nothing_is_kept_of_a_user_s_own_function(laboratory):
    run = asked(TEXT).runs[0]
    own = run.model_copy(update={"settings": run.settings.model_copy(update={"model": "os.path:join"})})
    assert fit_runs.fit_known.path_of(run, "m", 1, 1) is not None
    assert fit_runs.fit_known.path_of(own, "m", 1, 1) is None


def test_samples_of_one_worker_are_the_most(laboratory):
    laboratory.limit, laboratory.samples = 10**9, 1000
    settled, _ = found(asked(TEXT + "matrix: {strategy: [mpi], workers: [1, 4]}\nbaseline: none\n"))
    assert {run.settings.batch_size for run in settled.runs} == {248}
    assert settled.largest_batches[0].limited_by == "samples"
    assert max(laboratory.tried) <= 250


def test_on_an_accelerator_a_margin_is_taken_off_the_batch(laboratory):
    laboratory.on_accelerator = True
    settled, _ = found(asked(gpus=[{"name": "G"}]))
    assert settled.runs[0].settings.batch_size == 80
    assert settled.largest_batches[0].memory_bytes is None


def test_two_workers_on_one_gpu_are_refused(laboratory):
    laboratory.on_accelerator = True
    with pytest.raises(UserError, match="up to 2 workers and 1 GPUs"):
        found(asked(TEXT + "matrix: {strategy: [mpi], workers: [2]}\n", gpus=[{"name": "G"}]))


def test_where_nothing_fits_it_is_said(laboratory):
    laboratory.limit = 0
    with pytest.raises(UserError, match=r"not even a batch of 1 of mlp .* MemoryError"):
        found(asked())


def test_a_study_keeps_its_number(laboratory, tmp_path):
    settled, _ = found(asked())
    folder = create(tmp_path, settled)
    laboratory.limit = 50
    again, _ = found(asked(), open_study(folder.path))
    assert again.runs == settled.runs
    assert continued(open_study(folder.path), again).record.largest_batches == settled.largest_batches


def test_what_is_found_later_joins_the_record(laboratory, tmp_path):
    text = TEXT.replace("base: {", "matrix: {precision: [float32, float64]}\nbase: {")
    both = asked(text)
    first, _ = found(Question(both.scenario, text, both.runs[:1], both.cluster, both.machine))
    folder = create(tmp_path, first)
    second, _ = found(both, folder)
    continued(folder, second)
    record = open_study(folder.path).record
    assert {one.recipe for one in record.largest_batches} == {recipe(run) for run in both.runs}
    assert len(record.runs) == 2


def test_stopping_ends_the_search(laboratory, monkeypatch):
    def stopped(self, size):
        raise Stopped

    monkeypatch.setattr(laboratory, "attempt", stopped)
    with pytest.raises(Stopped):
        found(asked())


def test_a_slow_size_is_told_from_a_large_one(laboratory, monkeypatch):
    plain = laboratory.attempt

    def slow(self, size):
        trial, answer = plain(self, size)
        return (trial.model_copy(update={"is_slow": not trial.fits}), answer)

    monkeypatch.setattr(laboratory, "attempt", slow)
    assert found(asked())[0].largest_batches[0].limited_by == "time"


def test_a_damaged_file_of_the_cache_is_passed_over(laboratory, tmp_path):
    found(asked())
    (path,) = (tmp_path / "cache" / "largest-batches").iterdir()
    Largest.model_validate_json(path.read_bytes())
    path.write_text("{")
    laboratory.tried.clear()
    assert found(asked())[0].runs[0].settings.batch_size == 96
    assert laboratory.tried != []


def test_most_workers_counts_axes_base_and_points():
    text = "base: {workers: 2}\nmatrix: {epochs: [1]}\ninclude: [{workers: 3}]\n"
    assert most_workers(parse(text, "s.yaml")) == 3
    assert most_workers(parse("base: {epochs: 1}", "s.yaml")) == 1
