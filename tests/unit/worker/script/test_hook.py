import contextlib
import importlib
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import dlbench.worker
from dlbench.analysis.metrics import rates
from dlbench.analysis.metrics.warm_up import without_warm_up
from dlbench.errors import UserError
from dlbench.records.assignment import VARIABLE
from dlbench.records.columns import STEP_PHASES, names
from dlbench.scenario.metrics import MetricDeclaration
from dlbench.scenario.run_spec import Limits, RunSpec, Target
from dlbench.scenario.settings import Settings
from dlbench.strategies._step import NAN, StepTimestamps
from dlbench.telemetry.journal import Journal
from dlbench.worker import step_recorder as window_module
from dlbench.worker.script import hook
from dlbench.worker.script import recorder as recorder_module
from dlbench.worker.script.command import arguments, values
from dlbench.worker.script.recorder import ScriptRecorder, hash_of
from dlbench.worker.train.agreement import Diverged
from tests.fakes import IdleObserver, KeptReporter
from tests.unit.launch import fakes

METRICS = {
    "perplexity": MetricDeclaration(better="lower", matters="2%"),
    "bleu": MetricDeclaration(better="higher", matters=0.5),
}


class Clock:
    """Time that passes only when it is set."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(recorder_module, "perf_counter", made)
    monkeypatch.setattr(hook, "perf_counter", made)
    monkeypatch.setattr(window_module, "perf_counter", made)
    return made


@pytest.fixture
def reporter():
    return KeptReporter()


class Script:
    """A script in which a batch takes 1 s to load, a gradient 2 s, an exchange 4 s, an update 8 s."""

    def __init__(self, reporter, clock, barrier_s=None, target=None, metrics=METRICS):
        self.clock, self.barriers = clock, 0
        self.spec = spec = RunSpec(
            scenario="", label="", repeat=0, settings=Settings(), target=target, limits=Limits(), metrics=metrics
        )
        barrier = None if barrier_s is None else lambda: self.wait(barrier_s)
        self.recorder = ScriptRecorder(spec, reporter, IdleObserver(), barrier)

    def wait(self, seconds):
        self.barriers += 1
        self.clock.now += seconds

    def step(self, loss=1.0, with_marks=True):
        self.clock.now += 1
        with hook.Step(self.recorder, 4) as step:
            self.clock.now += 2
            if with_marks:
                step.gradient_ready()
            self.clock.now += 4
            if with_marks:
                step.reduced()
            self.clock.now += 8
            step.loss = loss

    def steps(self, count, **options):
        for _ in range(count):
            self.step(**options)

    def epoch(self, evaluation_s=0.0, **scores):
        self.clock.now += evaluation_s
        return self.recorder.end_epoch(scores, None)


def test_the_parts_of_a_step_are_those_between_its_marks(reporter, clock):
    script = Script(reporter, clock)
    script.steps(3)
    script.steps(2, with_marks=False)
    with hook.Step(script.recorder, 4) as step:
        clock.now += 3
        step.data_ready()
        clock.now += 5
    script.recorder.flush()
    nan = float("nan")
    for name, seconds in (
        ("data_wait_s", [0, 1, 1, 1, 1, 3]),  # when the first batch was asked for is unknown
        ("compute_time_s", [2, 2, 2, 14, 14, 5]),
        ("communication_time_s", [4, 4, 4, nan, nan, nan]),
        ("update_time_s", [8, 8, 8, nan, nan, nan]),
        ("step_time_s", [14, 15, 15, 15, 15, 8]),
        ("started_at_s", [0, 14, 29, 44, 59, 74]),
        ("loss", [1, 1, 1, 1, 1, nan]),
    ):
        np.testing.assert_array_equal(reporter.column(name), seconds, name)


def test_pieces_open_at_barriers_are_cut_where_all_runs_are_and_close_with_the_epochs_last_step(reporter, clock):
    script = Script(reporter, clock, barrier_s=100)
    script.steps(17)
    script.epoch(evaluation_s=1000, validation_accuracy=0.5)
    script.steps(3)
    script.epoch(evaluation_s=1000, validation_accuracy=0.6)
    result = script.recorder.result(None)
    assert [(piece.steps, piece.samples) for piece in result.segments] == [(6, 24), (7, 28), (1, 4), (3, 12)]
    assert [piece.closed_at_s - piece.opened_at_s for piece in result.segments] == [6 * 15, 7 * 15, 15, 3 * 15]
    assert [piece.closing_at_s for piece in result.segments] == [piece.closed_at_s for piece in result.segments]
    assert script.barriers == 5
    phases = [STEP_PHASES[int(number)] for number in reporter.column("phase")]
    cut = ["sampled"]
    assert phases == ["first"] + ["timed"] * 6 + cut + ["timed"] * 7 + cut + ["timed"] * 4
    assert result.train_time_s == 14 + 15 * 19  # neither barriers nor evaluations
    assert result.evaluation_time_s == 2000


def test_calls_of_several_steps_are_as_many_steps_and_cut_as_a_whole(reporter, clock):
    script = Script(reporter, clock, barrier_s=100)
    for _ in range(2):
        for num_steps in (5, 5, 5, 5, 2):
            step = script.recorder.enter()
            clock.now += 15
            moments = StepTimestamps(step, step, NAN, NAN, NAN, clock.now)
            script.recorder.add(4 * num_steps, moments, 1.0, num_steps=num_steps)
        script.epoch(evaluation_s=1000, validation_accuracy=0.5)
    result = script.recorder.result(None)
    phases = [STEP_PHASES[int(number)] for number in reporter.column("phase")]
    # Steps 1 to 5 are the first call; 8, 16 and 32 are cuts, and with 50 so is each twentieth step of calls of five.
    assert phases == ["first", "sampled", "timed", "sampled", "timed", "timed", "sampled", *(["timed"] * 3)]
    assert reporter.column("num_steps").tolist() == 2 * [5, 5, 5, 5, 2]
    assert reporter.column("step").tolist() == [5, 10, 15, 20, 22, 27, 32, 37, 42, 44]
    assert (result.steps, result.samples_seen) == (44, 176)
    assert [(piece.steps, piece.samples) for piece in result.segments] == [(5, 20), (2, 8), (5, 20), (12, 48)]


def test_what_others_evaluate_is_left_out_of_the_steps_that_wait_for_it(reporter, clock):
    """One of two processes evaluates for 1000 s, within a piece and at its border; the other waits in its next step."""
    results, rows = {}, {}
    for worker, each in enumerate((reporter, KeptReporter())):
        script = Script(each, clock, barrier_s=100)
        # In a piece, before its last step, between two of them, and in the next.
        for count, longest in ((3, [0, 1000]), (2, [0, 1000]), (0, [1000, 0]), (3, [0, 1000])):
            script.steps(count)
            clock.now += 1000
            if worker == 0:
                script.recorder.pause()
            script.step()
            script.recorder.share_pauses(lambda _, longest=longest: longest)
        results[worker], rows[worker] = script.recorder.result(None), each.rows
        assert [(piece.steps, piece.seconds) for piece in results[worker].segments] == [(6, 90), (4, 60)]
        assert results[worker].train_time_s == 14 + 15 * 11
        assert results[worker].evaluation_time_s == 4000
    assert [piece.waited_s for piece in results[1].segments] == [2000, 1000]
    assert rates.between_steps(results.values(), rows.values()) == (0, 0)
    unhindered = rates.without_waits(results, rows)
    assert rates.time_in_window(unhindered, "data_wait_s") == 10


def test_an_evaluation_within_an_epoch_is_left_out_and_no_other_process_is_waited_for(reporter, clock):
    script = Script(reporter, clock, barrier_s=100)
    for count in (0, 1, 3, 3):  # before any step, before and within a piece, at its border
        script.steps(count)
        clock.now += 1000
        script.recorder.pause()
    script.steps(2)
    barriers = script.barriers
    result = script.recorder.result(None)
    assert [(piece.steps, piece.seconds) for piece in result.segments] == [(6, 90), (1, 15)]
    # Each step lies within its piece: else none of them would count.
    without, _ = without_warm_up(Journal(steps={0: reporter.rows}, results={0: result}))
    assert without.results[0].segments == result.segments
    assert rates.between_steps([result], [reporter.rows]) == (0, 0)
    assert result.train_time_s == 14 + 15 * 8
    assert result.evaluation_time_s == 3000
    assert barriers == 2
    assert list(reporter.column("data_wait_s")) == [0] + [1] * 8


def test_what_follows_a_pieces_last_step_lies_outside_it_and_a_pause_of_all_waits_for_them(
    reporter, clock, monkeypatch
):
    script = Script(reporter, clock, barrier_s=100)
    monkeypatch.setattr(window_module, "process_time", lambda: clock.now / 10)
    script.recorder.leave_out()  # before the first step nobody is waited for
    assert script.barriers == 0
    for _ in range(2):
        script.steps(3)
        clock.now += 1000
        script.recorder.pause()
        script.recorder.leave_out()
        script.epoch()
        clock.now += 1000  # a checkpoint after the epoch's row
        script.recorder.leave_out()
    result = script.recorder.result(None)
    assert [(piece.steps, piece.seconds) for piece in result.segments] == [(2, 30), (3, 45)]
    assert [piece.cpu_time_s for piece in result.segments] == pytest.approx([3, 4.5])
    assert result.train_time_s == 14 + 15 * 5
    assert (result.evaluation_time_s, script.barriers) == (2000, 3 + 2 * 2)


@pytest.mark.parametrize("name", ["jax", "torch"])
@pytest.mark.parametrize("evaluation_s", [0, 1000])
def test_what_a_device_still_computes_is_training(reporter, clock, monkeypatch, name, evaluation_s):
    queue = []

    def compute(*_):
        clock.now += sum(queue)
        waits.append(len(queue))
        queue.clear()

    waits = []
    cuda = SimpleNamespace(is_initialized=lambda: True, synchronize=compute)
    device = SimpleNamespace(cuda=cuda, live_arrays=list, block_until_ready=compute)
    for module in ("jax", "jax._src.xla_bridge", "torch"):
        monkeypatch.setitem(sys.modules, module, device if module == name else None)
    script = Script(reporter, clock, barrier_s=100)
    run = hook.Run(script.spec, (0,), 0, 1, None)
    run.recorder = script.recorder
    for length in (10, 10, 12, 30, 4):
        for _ in range(length):
            queue.append(5)
            script.step(loss=None)
        if evaluation_s and length != 4:  # it waits for the weights
            compute()
        script.epoch(evaluation_s, validation_accuracy=0.5)
    queue.append(5)
    script.step(loss=None)
    with run.pause():
        clock.now += 10000
    queue.append(5)
    script.step(loss=None)
    result = script.recorder.result(None)
    assert result.train_time_s == 14 + 67 * 15 + 68 * 5
    for piece in result.segments:
        assert piece.closed_at_s - piece.opened_at_s - piece.paused_s == piece.steps * 20
    assert max(waits) > 1  # not all steps are waited for


def test_a_device_that_has_not_begun_is_not_begun(monkeypatch):
    module = SimpleNamespace(cuda=SimpleNamespace(is_initialized=bool), backends_are_initialized=bool)
    for name in ("jax", "jax._src.xla_bridge", "torch"):
        monkeypatch.setitem(sys.modules, name, module)
    recorder_module.wait_for_devices()


def test_a_pause_outside_dlbench_is_none():
    with dlbench.worker.begin().pause():
        pass


def test_a_pause_lies_between_steps_and_ends_whatever_happens_in_it(reporter, clock):
    script = Script(reporter, clock, barrier_s=1)
    run = hook.Run(script.spec, [0], 0, 1, None)
    run.recorder = script.recorder
    script.steps(2)
    with contextlib.suppress(OSError), run.pause():
        clock.now += 1000
        raise OSError("the disk is full")
    with pytest.raises(UserError, match=r"test_hook.py:\d+: run.pause: a step is open"), run.step(4), run.pause():
        pass
    script.steps(1)
    assert script.recorder.result(None).train_time_s == 14 + 2 * 15


def test_the_runs_learning_rate_is_the_largest(clock, reporter):
    script = Script(reporter, clock)
    script.steps(1)
    for rate in (0.1, 0.5, 0.2):
        script.recorder.saw_rate(rate)
    script.recorder.end_epoch({}, 0.01)
    assert script.recorder.result(None).learning_rate == 0.5


def test_without_a_barrier_nothing_is_timed(reporter, clock):
    script = Script(reporter, clock)
    script.steps(40)
    result = script.recorder.result(None)
    assert (result.segments, result.steps) == ((), 40)
    assert {STEP_PHASES[int(number)] for number in reporter.column("phase")} == {"first", "warm-up"}


def test_workers_that_wait_inside_and_before_their_window_see_the_same_time(clock):
    """The trap: two ranks in lock step, of which one waits before its window, report rates that differ by a factor."""
    lengths = []
    for start_delay_s in (0, 500):
        reporter = KeptReporter()
        script = Script(reporter, clock, barrier_s=500 - start_delay_s)  # the early one waits for the late one
        clock.now += start_delay_s
        script.steps(63)
        lengths.append([piece.closed_at_s - piece.opened_at_s for piece in script.recorder.result(None).segments])
    assert lengths[0] == lengths[1] == [steps * 15 for steps in (6, 7, 15, 17, 13)]


def test_epoch_rows_have_only_columns_of_the_file(reporter, clock):
    script = Script(reporter, clock)
    script.steps(2)
    script.epoch(evaluation_s=7, train_loss=0.3, validation_loss=0.4)
    (message,) = [message for message in reporter.messages if message["kind"] == "epoch"]
    assert set(message["row"]) <= set(names("epochs")) - {"run_id", "attempt", "worker"}
    expected = {"epoch": 1, "steps": 2, "samples": 8, "train_time_s": 29, "ended_at_s": 29, "evaluation_time_s": 7}
    assert message["row"].items() >= expected.items()
    assert script.recorder.result(None).evaluation_time_s == 7
    script.step()
    script.epoch(evaluation_s=7, train_loss=0.3)  # nothing was evaluated
    assert reporter.messages[-1]["row"]["evaluation_time_s"] is None
    assert script.recorder.result(None).evaluation_time_s == 7


def test_the_target_and_the_best_accuracy(clock):
    for stop in (True, False):
        script = Script(KeptReporter(), clock, target=Target(metric="validation_loss", value=0.5, stop=stop))
        for loss, accuracy, ends in ((0.6, 0.5, False), (0.4, 0.8, stop), (0.9, 0.7, stop)):
            script.step()
            assert script.epoch(validation_loss=loss, validation_accuracy=accuracy) is ends
        result = script.recorder.result(None)
        assert (result.epochs_to_target, result.time_to_target_s) == (2, 29), "it is reached once"
        assert result.scores == {
            "best_validation_accuracy": 0.8,
            "validation_accuracy": 0.7,
            "validation_loss": 0.9,
        }


def test_a_loss_that_is_not_finite_ends_the_run(reporter, clock):
    script = Script(reporter, clock)
    script.step()
    with pytest.raises(Diverged, match="in step 2"):
        script.step(loss=float("nan"))


def test_a_step_that_fails_is_no_step(reporter, clock):
    script = Script(reporter, clock)

    def fail():
        with hook.Step(script.recorder, 4):
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert script.recorder.result(None).steps == 0


def test_a_script_that_never_trained_can_end(reporter, clock):
    result = Script(reporter, clock).recorder.result([np.ones(3)])
    assert (result.steps, result.train_time_s, result.num_parameters) == (0, None, 3)


def test_weights_are_hashed_bit_for_bit():
    arrays = [np.arange(6.0).reshape(2, 3), np.ones(2, np.float32)]
    other = [arrays[0].copy(), arrays[1].copy()]
    assert hash_of(arrays) == hash_of(other)
    other[1][1] = np.nextafter(np.float32(1), np.float32(2))
    assert hash_of(arrays) != hash_of(other)


def test_outside_dlbench_everything_is_silent(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    before = sys.excepthook
    run = dlbench.worker.begin(size=2, rank=1, defaults={"epochs": 7, "batch_size": 10, "batch_scope": "global"})
    assert (run.settings.epochs, run.epochs, run.rank, run.size, run.batch_size) == (7, 7, 1, 2, 5)
    with run.step(num_samples=3) as step:
        step.data_ready()
        step.gradient_ready()
        step.reduced()
        step.loss = float("nan")
    run.begin_step(num_samples=3)
    run.end_step(loss=1.0)
    with pytest.raises(UserError, match="no step has begun"):
        run.end_step()
    assert run.epoch(validation_accuracy=1.0) is False
    run.finish(weights=[np.ones(2)])
    assert sys.excepthook is before


def test_a_second_hook_in_a_process_is_refused(monkeypatch):
    """Both would hand in a result for the same worker, and the second would never be acknowledged."""
    monkeypatch.setenv(VARIABLE, "{}")
    monkeypatch.setattr(hook, "_BEGUN", [os.getpid()])
    with pytest.raises(UserError, match="this process has a hook already"):
        hook.begin()


def test_a_child_of_a_process_that_has_begun_has_its_settings_and_reports_nothing(monkeypatch):
    """As a loader of data by `spawn` that imports the script."""
    given = fakes.assignment()
    monkeypatch.setenv(VARIABLE, given.model_dump_json())
    monkeypatch.setenv("DLBENCH_BEGUN_BY", f"{given.attempt_id} {os.getppid()}")
    run = hook.begin()
    assert (run.settings, run.recorder) == (given.run.settings, None)


def test_the_hook_is_imported_only_when_used():
    assert {"begin", "Run", "Step"} <= set(dlbench.worker.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        dlbench.worker.nothing  # noqa: B018
    assert importlib.import_module("dlbench.worker.script.hook").begin is dlbench.worker.begin


def run_spec(**changes):
    settings = Settings(workers=2, learning_rate_base_batch=None, **changes)
    return RunSpec(scenario="s", label="", repeat=4, settings=settings, options={"strategy.chunk_bytes": 8, "x.y": [1]})


def test_a_command_is_filled_word_by_word():
    rows = {
        "python train.py -n {workers}": ("python", "train.py", "-n", "2"),
        "run --model={model} {seed}": ("run", "--model=my model", "7"),
        "run {strategy.chunk_bytes} {x.y}": ("run", "8", "[1]"),
        "run '{{workers}}' '{\"a\": 1}' {}": ("run", "{workers}", '{"a": 1}', "{}"),
        "run [{learning_rate_base_batch}] {jit_compile}": ("run", "[]", "false"),
    }
    known = values(run_spec(model="my model", seed=3))
    assert {command: arguments(command, known) for command in rows} == rows
    for command, message in (("", "empty"), ("'", "split into words"), ("x {wrokers}", "did you mean 'workers'")):
        with pytest.raises(UserError, match=message):
            arguments(command, known)


@pytest.mark.parametrize("value", [-1, 2.5, float("nan"), None, "many", [4], "1e400", 1e18, 2**31 + 1, 10**400])
def test_a_number_of_samples_that_is_none_is_refused_with_the_line_of_the_script(reporter, clock, value):
    with pytest.raises(
        UserError, match=r"test_hook\.py:\d+: num_samples is a whole number from 0 to 2,147,483,648, not "
    ):
        hook.Step(Script(reporter, clock).recorder, value)
    hook.Step(None, value)  # outside dlbench nothing is looked at


@pytest.mark.parametrize("value", [0, 4, 4.0, np.int64(4), np.float32(4)])
def test_a_number_of_samples_of_any_type_is_taken(reporter, clock, value):
    assert hook.Step(Script(reporter, clock).recorder, value)._num_samples == int(value)


@pytest.mark.parametrize(
    "marks", [("gradient_ready", "data_ready"), ("reduced", "gradient_ready"), ("reduced", "data_ready")]
)
def test_marks_out_of_order_are_refused_with_the_line_of_the_script(reporter, clock, marks):
    step = hook.Step(Script(reporter, clock).recorder, 4).__enter__()
    getattr(step, marks[0])()
    with pytest.raises(UserError, match=r"test_hook\.py:\d+: a step's marks come in the order"):
        getattr(step, marks[1])()


def run_of(script):
    run = hook.Run(script.spec, (0,), 0, 1, None)
    run.recorder = script.recorder
    return run


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ({"train_accuracy": 5.0}, "train_accuracy is between 0 and 1, not 5.0"),
        ({"validation_accuracy": float("nan")}, "validation_accuracy is between 0 and 1, not nan"),
        ({"train_loss": "small"}, "train_loss is a number, not 'small'"),
        ({"learning_rate": -1}, "learning_rate is a finite number, at least 0, not -1.0"),
        ({"accuracy": 0.3}, "run.epoch: the scenario declares no metric accuracy"),
    ],
)
def test_a_score_that_cannot_be_is_refused_with_the_line_of_the_script(reporter, clock, scores, said):
    run = run_of(Script(reporter, clock))
    with pytest.raises(UserError) as caught:
        run.epoch(**scores)
    assert caught.value.message == said
    assert "test_hook.py:" in caught.value.where


@pytest.mark.parametrize("accuracy", [sum([16 / 1797] * 112) + 5 / 1797, 1 + 2e-16, np.float32(1.0000001)])
def test_an_accuracy_above_1_by_rounding_is_1(reporter, clock, accuracy):
    script = Script(reporter, clock)
    script.steps(1)
    run_of(script).epoch(validation_accuracy=accuracy)
    assert reporter.of_kind("epoch")[-1]["row"]["validation_accuracy"] == 1


def test_a_metric_that_is_not_declared_has_a_suggestion(reporter, clock):
    for name, hint in (
        ("perplexty", "did you mean 'perplexity'?"),
        ("validation_acuracy", "did you mean 'validation_accuracy'?"),
        ("zeal", "`metrics: {zeal: {better: lower, matters: 2%}}`"),
    ):
        with pytest.raises(UserError) as caught:
            run_of(Script(reporter, clock)).epoch(**{name: 1.0})
        assert hint in caught.value.hint


def test_declared_metrics_are_columns_and_a_target_goes_by_them(clock):
    reporter = KeptReporter()
    script = Script(reporter, clock, target=Target(metric="perplexity", value=10.0, stop=True))
    run = run_of(script)
    script.step()
    assert run.epoch(perplexity=12.5, bleu=np.float32(0.5)) is False
    clock.now += 7
    assert run.epoch(perplexity=10) is True
    first, second = (message["row"] for message in reporter.of_kind("epoch"))
    assert (first["perplexity"], first["bleu"], second["perplexity"]) == (12.5, 0.5, 10.0)
    assert second["evaluation_time_s"] == 7, "it was measured"
    result = script.recorder.result(None)
    assert (result.epochs_to_target, result.scores["perplexity"], result.scores["bleu"]) == (2, 10.0, 0.5)
    assert reporter.accuracy is None, "the live table shows accuracies alone"


@pytest.mark.parametrize("name", ["train_loss", "validation_loss", "train_mean_squared_error", "perplexity"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_ends_the_run_as_diverged(reporter, clock, name, value):
    run = run_of(Script(reporter, clock))
    with pytest.raises(Diverged, match=rf"test_hook\.py:\d+: {name} is {value}"):
        run.epoch(**{name: value})
