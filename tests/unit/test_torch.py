"""Steps of a device that works behind the loop; the calls of Transformers' and Lightning's trainers, as recorded."""

import contextlib
import copy
import json
import pickle
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dlbench.errors import UserError
from dlbench.scenario.run_spec import Target
from tests.fakes import KeptReporter
from tests.unit.worker.script.test_hook import METRICS, Clock, Script


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="needs PyTorch")


@pytest.fixture
def hook(torch: Any) -> Any:
    import dlbench.torch

    return dlbench.torch


class Device:
    """A queue of work: an event in it passes when what was queued before it is done."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.free_at, self.waits = clock, 0.0, 0

    def work(self, seconds: float) -> None:
        self.free_at = max(self.free_at, self.clock.now) + seconds

    def event(self, enable_timing: bool) -> Any:
        device = self

        class Event:
            at = 0.0

            def record(self) -> None:
                self.at = max(device.free_at, device.clock.now)

            def query(self) -> bool:
                return device.clock.now >= self.at

            def synchronize(self) -> None:
                device.waits += device.clock.now < self.at
                device.clock.now = max(device.clock.now, self.at)

            def elapsed_time(self, later: "Event") -> float:
                return 1000 * (later.at - self.at)

        assert enable_timing
        return Event()


@pytest.fixture
def clock(hook: Any, monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in ("dlbench.worker.script.recorder", "dlbench.worker.step_recorder", "dlbench.torch"):
        monkeypatch.setattr(f"{module}.perf_counter", made)
    return made


@pytest.fixture
def loop(torch: Any, hook: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function to a reporter, a model, its optimizer in the wrapping of accelerate, and the hook of both."""
    begin = hook.begin

    def make(**options: Any) -> Any:
        reporter = KeptReporter()
        script = script_of(reporter, clock)

        def begin_here(**given: Any) -> Any:
            run = begin(**given)
            run.recorder = script.recorder
            monkeypatch.setattr(run, "check", lambda rank, size: None)
            return run

        monkeypatch.setattr(hook, "begin", begin_here)
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

        class Wrapping(torch.optim.Optimizer):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                self.optimizer = optimizer

        return reporter, model, optimizer, hook.Hook(model, Wrapping(), **options)

    return make


def test_a_device_says_when_its_steps_have_ended(
    torch: Any, hook: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop queues a step in 0.1 s, the device takes 1 s; for the 30th step data is late."""
    reporter, device = KeptReporter(), Device(clock)
    monkeypatch.setattr(torch, "get_device_module", lambda _: SimpleNamespace(Event=device.event))
    steps = hook.Steps(None)
    steps.run.recorder = Script(reporter, clock, barrier_s=100).recorder
    steps._device = torch.device("cuda")
    for number in range(1, 41):
        clock.now += 20 if number == 30 else 0.1
        steps.begin()
        steps.samples += 4
        device.work(0.75)
        steps.gradient_ready = steps.reduced = steps.now()
        device.work(0.25)
        steps.add_loss(torch.tensor(2.0), 4)
        steps.end()
        with pytest.raises(UserError, match="belongs to no step"):
            steps.add_loss(torch.tensor(2.0), 4)
    steps.epoch(None, {})
    result = steps.run.recorder.result(None)
    times, waits = reporter.column("step_time_s"), reporter.column("data_wait_s")
    # Where the device was waited for, at borders alone, the next step begins behind the loop.
    late = dict.fromkeys((1, 7, 8, 15, 16, 31, 32), 0.1) | {29: 12 * 0.1 + 20 + 0.1 - 13.1}
    np.testing.assert_allclose(waits, [late.get(step, 0.0) for step in range(40)], atol=1e-9)
    np.testing.assert_allclose(times, [1 + wait for wait in waits])
    assert device.waits == 8, "at borders, and at the end of the epoch"
    np.testing.assert_allclose(reporter.column("update_time_s"), 0.25)
    assert [piece.steps for piece in result.segments] == [6, 7, 15, 8]
    first = 1
    for piece in result.segments:
        inside = times[first : first + piece.steps]
        assert piece.closed_at_s - piece.opened_at_s == pytest.approx(inside.sum())
        first += piece.steps + 1
    assert result.train_time_s == pytest.approx(times.sum())
    assert reporter.of_kind("epoch")[-1]["row"]["train_loss"] == 2.0


def test_the_first_tensor_of_a_batch_says_how_many_samples_it_has(torch: Any, hook: Any) -> None:
    x = torch.zeros(5, 2)
    for batch, samples in (
        (x, 5), ((x, torch.zeros(7)), 5), ({"flag": True, "x": [x]}, 5), ((torch.tensor(1.0), {"x": x}), 5), ((), 0),
    ):  # fmt: skip
        assert hook.num_samples(batch) == samples
    # Another dimension is that of the first tensor which has it.
    assert [hook.num_samples((torch.zeros(7), x), dimension) for dimension in (1, -1, 2, -3)] == [2, 7, 0, 0]


@pytest.mark.parametrize(
    ("dimension", "shape", "passes", "unknown", "samples"),
    [
        (None, (35, 10, 4), 1, (), None),
        (None, (35, 10, 4), 1, ("batch_size",), 35),
        (None, (35, 10), 1, (), 35),
        (None, (10, 10), 1, (), 10),
        (None, (5, 10), 2, (), 10),
        (0, (35, 10), 1, (), 35),
        (1, (35, 10), 1, (), 10),
    ],
)
def test_samples_of_another_dimension_are_counted_or_asked_for(
    dimension: int | None,
    shape: tuple[int, ...],
    passes: int,
    unknown: tuple[str, ...],
    samples: int | None,
    torch: Any,
    loop: Any,
) -> None:
    """A batch of 10 at [time, batch, ...], not [batch, features]: one pass cannot tell, several make up the batch."""
    reporter, model, optimizer, rows = loop(batch_dimension=dimension)
    rows.run.batch_size, record = 10, rows.run.recorder.record
    record.run = record.run.model_copy(update={"unknown": unknown})
    model.forward = lambda x: x
    for _ in range(3):
        for _ in range(passes):
            model(torch.zeros(*shape))
        if samples is None:
            with pytest.raises(UserError, match="batch_dimension=1"):
                optimizer.step()
            return
        optimizer.step()
    rows.run.recorder.flush()
    assert reporter.column("num_samples").tolist() == [samples] * 3


def test_weights_are_those_that_are_trained_unless_they_are_shards(torch: Any, hook: Any) -> None:
    model = torch.nn.Linear(2, 1)
    model.bias.requires_grad = False
    model.weight.data = model.weight.data.to(torch.bfloat16)
    (weights,) = hook.weights_of(model)
    assert weights.dtype == np.float32
    np.testing.assert_array_equal(weights, model.weight.detach().float().numpy())
    model.weight.ds_id = 1  # as ZeRO marks a parameter of which each process holds a part
    assert hook.weights_of(model) is None
    sharded = torch.nn.Sequential(torch.nn.Linear(2, 1))
    sharded._fsdp_wrapped_module = sharded[0]  # as FSDP1 wraps a module
    assert hook.weights_of(torch.nn.Sequential(sharded)) is None


def test_scores_have_their_names_here(hook: Any) -> None:
    values = {"eval_accuracy": 0.5, "eval_loss": 2, "eval_runtime": 3.0, "valid_mse": 0.25, "eval_bleu": 7, "mine": 1}
    assert hook.scores_of(values, {"bleu", "mine"}) == {
        "validation_accuracy": 0.5, "validation_loss": 2, "validation_mean_squared_error": 0.25, "bleu": 7, "mine": 1,
    }  # fmt: skip


def test_what_is_declared_without_a_prefix_is_of_validation(hook: Any) -> None:
    for order in (1, -1):
        values = dict([("val_f1", 0.5), ("train_f1", 0.9)][::order])
        assert hook.scores_of(values, {"f1"}) == {"f1": 0.5}
        assert hook.scores_of(values | {"f1": 0.7}, {"f1"}) == {"f1": 0.7}  # named as declared
        assert hook.scores_of(values, {"train_f1"}) == {"train_f1": 0.9}
    assert hook.scores_of({"val/acc": 0.5, "val/f1": 0.25}, {"f1"}) == {"validation_accuracy": 0.5, "f1": 0.25}


def test_pictures_in_a_list_are_counted(torch: Any, hook: Any) -> None:
    pictures = [torch.zeros(3, 8, 9), torch.zeros(3, 7, 7)]
    assert hook.num_images((pictures, [{}])) == 2
    for args in ((), (torch.zeros(5, 3, 8, 8),), ([torch.zeros(5, 3, 8, 8)],), ([torch.zeros(5, 2)],), ([],)):
        assert hook.num_images(args) == 0


def test_a_loss_is_a_mean_over_the_samples_that_it_is_of(torch: Any, clock: Clock, loop: Any) -> None:
    """Of two passes the second alone has a loss; the rate is the step's, though a scheduler follows."""
    reporter, model, optimizer, rows = loop()
    for loss in (1.0, 4.0):
        for size in (6, 2):
            clock.now += 1
            model(torch.zeros(size, 2))
        rows.loss(torch.tensor(loss))
        optimizer.step()
    optimizer.param_groups[0]["lr"] = 0.125
    rows.epoch()
    assert reporter.column("loss").tolist() == [1, 4]
    assert reporter.column("num_samples").tolist() == [8, 8]
    model.forward = lambda batch: torch.nn.Linear.forward(model, batch.x)
    model(SimpleNamespace(x=torch.zeros(5, 2)))  # a batch of a class of the script's: samples are not known
    rows.loss(torch.tensor(3.0))
    optimizer.step()
    rows.epoch()
    rows.run.recorder.flush()
    assert reporter.column("loss").tolist() == [1, 4, 3]
    assert epochs_of(reporter, "train_loss", "learning_rate") == [(2.5, 0.5), (3, 0.125)]
    assert rows.run.recorder.result(None).learning_rate == 0.5  # before it decays


@pytest.mark.parametrize(("every", "left_out"), [(1, 3), (2, 5)])
def test_passes_before_every_step_are_training(every: int, left_out: int, torch: Any, clock: Clock, loop: Any) -> None:
    """Before each second step they are evaluation, of which that before the first step is no time of training."""
    _, model, optimizer, rows = loop()
    for step in range(11):
        if step % every == 0:
            with torch.no_grad():
                clock.now += 2
                model(torch.zeros(4, 2))
        model(torch.zeros(4, 2))
        clock.now += 1
        optimizer.step()
    rows.epoch()
    progress = rows.run.recorder.record.progress
    counted = left_out - (every == 1)  # the first of three comes before the first step
    assert progress.evaluation_time_s == 2 * counted
    made = 10 if every == 1 else 5
    assert rows.run.recorder.result(None).train_time_s == 11 + 2 * (made - counted)


def test_the_runs_rate_is_the_one_before_it_decays_within_an_epoch(torch: Any, loop: Any) -> None:
    reporter, model, optimizer, rows = loop()
    for rate in (0.1, 0.4, 0.01):
        optimizer.param_groups[0]["lr"] = rate
        model(torch.zeros(4, 2))
        optimizer.step()
    rows.epoch()
    assert epochs_of(reporter, "learning_rate") == [(0.01,)]
    assert rows.run.recorder.result(None).learning_rate == 0.4


def test_losses_of_single_samples_and_processes_that_cannot_report_are_refused(
    torch: Any, monkeypatch: pytest.MonkeyPatch, loop: Any
) -> None:
    _, model, optimizer, rows = loop()
    model(torch.zeros(4, 2))
    with pytest.raises(UserError, match=r"loss\.mean\(\)"):
        rows.loss(torch.zeros(4))
    rows.run.size = 2
    with pytest.raises(UserError, match="init_process_group"):
        rows.follow(model, optimizer)
    rows.run.settings = rows.run.settings.model_copy(update={"workers_inside": True})
    for name, value in (("is_initialized", True), ("get_rank", 0), ("get_world_size", 2)):
        monkeypatch.setattr(torch.distributed, name, lambda value=value: value)
    with pytest.raises(UserError, match="launcher: torchrun"):
        rows.follow(model, optimizer)


def test_an_optimizer_whose_model_makes_no_pass_is_refused(loop: Any) -> None:
    _, _, optimizer, _ = loop()
    optimizer.step()  # some scripts begin so
    optimizer.step()
    with pytest.raises(UserError, match="has made 3 steps, and the model no forward pass in training mode"):
        optimizer.step()


def test_training_in_evaluation_mode_is_refused(torch: Any, loop: Any) -> None:
    """Three steps in a row after such passes are no line search and no attack on the model."""
    _, model, optimizer, rows = loop()
    for _ in range(4):
        model.eval()(torch.zeros(4, 2))
        optimizer.step()  # with what that pass has left, or nothing
        model.train()(torch.zeros(4, 2))
        for _ in range(4):
            optimizer.step()
    model.eval()(torch.zeros(4, 2))
    with pytest.raises(UserError, match=r"call `model\.train\(\)`"):
        rows.loss(torch.tensor(1.0))
    optimizer.step()
    model(torch.zeros(4, 2))
    optimizer.step()
    optimizer.step()
    model(torch.zeros(4, 2))
    with pytest.raises(UserError, match=r"call `model\.train\(\)`"):
        optimizer.step()


@pytest.mark.parametrize("made_anew", ["optimizer", "both", "within an epoch"])
def test_an_optimizer_or_a_model_made_anew_is_followed_or_refused(made_anew: str, torch: Any, loop: Any) -> None:
    def train(model: Any, optimizer: Any, steps: int = 5) -> None:
        for _ in range(steps):
            model(torch.zeros(4, 2))
            optimizer.step()

    reporter, model, optimizer, rows = loop()
    beside = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))])
    for _ in range(2):  # two optimizers, and after them a third that trains something else
        for _ in range(5):
            beside.step()
            train(model, optimizer, 1)
        train(torch.nn.Linear(2, 1), beside)
        rows.epoch()
    rows.epoch()  # a test alone
    rows._steps._refuse_others(has_stepped=True)
    if made_anew == "within an epoch":
        train(model, optimizer)
    model = torch.nn.Linear(2, 1) if made_anew == "both" else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    train(model, optimizer, 6)
    with pytest.raises(UserError, match=r"hook\.follow\(model, optimizer\)"):
        rows.epoch()
    for _ in range(2):
        rows.follow(model, optimizer)
    train(model, optimizer, 2)
    rows.epoch()
    rows.run.recorder.flush()
    assert reporter.column("num_samples").tolist()[-1] == 4
    assert epochs_of(reporter, "steps", "learning_rate")[-1] == (12 + 5 * (made_anew == "within an epoch"), 0.25)


def test_a_copy_of_the_model_counts_no_samples_and_a_saved_one_nothing(torch: Any, clock: Clock, loop: Any) -> None:
    """A deep copy is an average of weights that evaluates, or a peer that is trained beside."""
    reporter, model, optimizer, rows = loop()
    copied, saved = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    for _ in range(5):
        for beside in (model, copied, saved):
            beside(torch.zeros(4, 2))
        clock.now += 1
        optimizer.step()
    saved.eval()(torch.zeros(4, 2))
    clock.now += 10  # is no evaluation that anything shows
    model(torch.zeros(4, 2))
    optimizer.step()
    copied.eval()(torch.zeros(4, 2))
    clock.now += 100
    model(torch.zeros(4, 2))
    optimizer.step()
    rows.epoch()
    assert reporter.column("num_samples").tolist() == [4] * 7
    assert rows.run.recorder.record.progress.evaluation_time_s == 100
    assert rows.run.recorder.result(None).train_time_s == 15


def test_a_pause_is_no_training_whatever_is_called_in_it(torch: Any, clock: Clock, loop: Any) -> None:
    reporter, model, optimizer, rows = loop()
    for step in range(6):
        model(torch.zeros(4, 2))
        clock.now += 1
        rows.loss(torch.tensor(2.0))
        optimizer.step()
        if step % 3 == 1:
            with rows.pause():
                clock.now += 100
                rows.loss(model(torch.zeros(8, 2)).mean())  # a search for a rate, say
                optimizer.step()
    rows.epoch()
    assert reporter.column("num_samples").tolist() == [4] * 6
    assert epochs_of(reporter, "train_loss", "steps") == [(2, 6)]
    result = rows.run.recorder.result(None)
    assert (result.train_time_s, result.evaluation_time_s) == (6, 200)


@pytest.mark.parametrize("how", ["passes", "pause", "pauses"])
def test_evaluation_within_accumulation_is_no_training(how: str, torch: Any, clock: Clock, loop: Any) -> None:
    """Of four passes a step, one in ten is followed by an evaluation of an hour, in an open step or between two."""
    reporter, model, optimizer, rows = loop()

    def evaluate() -> None:
        clock.now += 10 if how == "pauses" else 0
        with torch.no_grad():
            model(torch.zeros(8, 2))
        clock.now += 3600 - 10 * (how == "pauses")

    for number in range(1, 41):
        clock.now += 1  # its batch
        model(torch.zeros(4, 2))
        clock.now += 1
        if number % 4 == 0:
            optimizer.step()
        if number % 10 == 0 and how == "passes":
            evaluate()
        elif number % 10 == 0:
            with rows.pause(), rows.pause() if how == "pauses" else contextlib.nullcontext():
                evaluate()
    rows.run.recorder.flush()
    assert reporter.column("num_samples").tolist() == [16] * 10
    result = rows.run.recorder.result(None)
    assert sum(piece.seconds for piece in result.segments) < 80
    # With passes alone the wait for the next batch cannot be told from evaluation, nor what follows the last step.
    assert result.train_time_s == (79 - 3 if how == "passes" else 79 - 1)
    assert result.evaluation_time_s // 3600 == 3


def test_passes_left_over_at_the_end_of_an_epoch_are_training_of_the_next_step(
    torch: Any, clock: Clock, loop: Any
) -> None:
    """Of seven passes an epoch four are an update; what is evaluated behind them is no training."""
    for evaluation_s in (0, 3600):
        reporter, model, optimizer, rows = loop()
        for _ in range(4):
            for number in range(1, 8):
                clock.now += 1
                model(torch.ones(4, 2)).sum().backward()
                clock.now += 1
                if number % 4 == 0:
                    optimizer.step()
            if evaluation_s:
                with torch.no_grad():
                    model(torch.ones(100, 2))
            clock.now += evaluation_s
            rows.epoch(validation_accuracy=0.5)
        rows.run.recorder.flush()
        assert reporter.column("num_samples").tolist() == [16, 28, 28, 28]
        result = rows.run.recorder.result(None)
        # But for the first batch, which is waited for before training.
        assert (result.train_time_s, result.evaluation_time_s) == (4 * 7 * 2 - 1, 4 * evaluation_s)


def test_passes_after_the_last_step_of_an_epoch_are_evaluation_unless_they_are_learned_from(
    torch: Any, clock: Clock, loop: Any
) -> None:
    """In training mode and with gradients, as a script that forgets `model.eval()` has it."""
    for is_learned in (False, True):
        reporter, model, optimizer, rows = loop()
        for _ in range(2):
            for _ in range(2):
                clock.now += 1
                model(torch.ones(4, 2)).sum().backward()
                clock.now += 1
                optimizer.step()
            loss = model(torch.ones(100, 2)).sum()
            clock.now += 5
            if is_learned:
                loss.backward()
            rows.epoch(validation_accuracy=0.5)
        rows.run.recorder.flush()
        assert reporter.column("num_samples").tolist() == [4, 4, 104 if is_learned else 4, 4]
        result = rows.run.recorder.result(None)
        assert is_learned or (result.samples_seen, result.train_time_s, result.evaluation_time_s) == (16, 7, 10)


def test_labels_of_a_teacher_within_a_step_are_training(torch: Any, clock: Clock, loop: Any) -> None:
    """A copy of the model makes a pass in each step, after the pass of the model itself."""
    _, model, optimizer, rows = loop()
    teacher = copy.deepcopy(model)
    for _ in range(10):
        model(torch.zeros(4, 2))
        with torch.no_grad():
            teacher(torch.zeros(4, 2))
        clock.now += 1
        optimizer.step()
    result = rows.run.recorder.result(None)
    assert (result.train_time_s, result.evaluation_time_s) == (10, 0)


def test_a_generator_makes_a_step_after_many_of_its_critic(torch: Any, clock: Clock, loop: Any) -> None:
    """Also where an epoch ends before its first one; the time between two models that it follows is no training."""
    _, model, optimizer, rows = loop()
    critic = torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=0.1)
    for number in range(1, 15):
        model(torch.zeros(4, 2))
        clock.now += 1
        critic.step()
        if number % 5 == 0:
            optimizer.step()
        if number == 4:
            rows.epoch()
    model(torch.zeros(4, 2))
    optimizer.step()
    clock.now += 3600
    rows.follow(model, optimizer)
    model(torch.zeros(4, 2))
    clock.now += 1
    optimizer.step()
    result = rows.run.recorder.result(None)
    assert (result.steps, result.train_time_s) == (4, 15)


def test_what_ddp_wraps_evaluates(torch: Any, hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrapping(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.module = torch.nn.Linear(2, 1)

        def forward(self, x: Any) -> Any:
            return self.module(x)

    monkeypatch.setattr(torch.nn.parallel, "DistributedDataParallel", Wrapping)
    steps, model = hook.Steps(None), Wrapping()
    steps.count_passes(model)
    model(torch.zeros(4, 2))
    assert (steps.samples, steps._has_other_pass) == (4, False)
    steps._begun = None
    with torch.no_grad():
        model.module(torch.zeros(4, 2))
    assert (steps.samples, steps._has_other_pass) == (4, True)


def callback(name: str, parts: dict[str, Any], script: Script | None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a callback that reports to a script's recorder, or to none; of its library there are only these parts."""
    library = ModuleType(name)
    vars(library).update(parts)
    monkeypatch.setitem(sys.modules, name, library)
    monkeypatch.delitem(sys.modules, f"dlbench.{name}", raising=False)
    made = getattr(__import__(f"dlbench.{name}"), name).Callback()
    made.run.recorder = script and script.recorder
    return made


def script_of(reporter: KeptReporter, clock: Clock) -> Script:
    target = Target(metric="validation_accuracy", value=0.9, stop=True)
    return Script(reporter, clock, barrier_s=0, target=target)


def epochs_of(reporter: KeptReporter, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(message["row"][name] for name in columns) for message in reporter.of_kind("epoch")]


@pytest.mark.parametrize("is_outside", [False, True])
def test_what_transformers_calls_is_reported(
    torch: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch, is_outside: bool
) -> None:
    """Its Trainer ends an epoch, then logs the loss, then evaluates; an update has two batches, the last is smaller."""
    reporter = KeptReporter()
    script = None if is_outside else script_of(reporter, clock)
    rows = callback("transformers", {"TrainerCallback": object}, script, monkeypatch)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    state, control = SimpleNamespace(global_step=0), SimpleNamespace(should_log=False, should_evaluate=False)
    control.should_training_stop = False

    def evaluate(accuracy: float) -> None:
        model.eval()
        with torch.no_grad():
            model(torch.zeros(50, 2))
        model.train()
        clock.now += 1000
        rows.on_log(None, state, control, logs={"eval_loss": 0.5})
        control.should_evaluate = False
        rows.on_evaluate(None, state, control, metrics={"eval_accuracy": accuracy, "eval_runtime": 9.0})

    rows.on_train_begin(None, state, control, model=model)
    for epoch, accuracy in ((1, 0.5), (2, 0.95)):
        rows.on_epoch_begin(None, state, control)
        for sizes in ((4, 4), (4, 3)):
            rows.on_step_begin(None, state, control, optimizer=optimizer)
            for size in sizes:
                clock.now += 1
                model(input=torch.zeros(size, 2))
                clock.now += 2
            state.global_step += 1
            optimizer.param_groups[0]["lr"] /= 2  # by a scheduler, for the next step
            rows.on_step_end(None, state, control)
            if sizes == (4, 4):
                control.should_evaluate = True
                rows.on_log(None, state, control, logs={"loss": 3.0 / epoch})
                evaluate(0.99)
        control.should_log = control.should_evaluate = True
        rows.on_epoch_end(None, state, control)
        control.should_log = False
        rows.on_log(None, state, control, logs={"loss": 1.0 / epoch})
        evaluate(accuracy)
        clock.now += 500
        rows.on_save(None, state, control)
        assert control.should_training_stop == (epoch == 2 and script is not None)
    rows.on_train_end(None, state, control)
    if script is None:
        return
    columns = ("samples", "steps", "train_loss", "validation_accuracy", "learning_rate")
    assert epochs_of(reporter, *columns) == [(15, 2, 2.0, 0.5, 0.25), (15, 4, 1.0, 0.95, 0.0625)]
    result = script.recorder.result(rows._steps.weights())
    assert (result.num_parameters, result.learning_rate) == (3, 0.5)
    assert list(reporter.column("num_samples")) == [8, 7, 8, 7]
    # The first batch after an evaluation within an epoch, or after a checkpoint, is left out with it.
    assert (result.train_time_s, result.evaluation_time_s) == (5 + 5 + 5 + 5, 4002 + 501)


def test_of_several_evaluation_sets_of_transformers_each_counts_in_its_epoch(
    torch: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter, metrics = KeptReporter(), dict.fromkeys(("eval_a_loss", "eval_b_loss"), METRICS["perplexity"])
    script = Script(reporter, clock, metrics=metrics)
    rows = callback("transformers", {"TrainerCallback": object}, script, monkeypatch)
    rows.run.metrics = metrics
    control = SimpleNamespace(should_log=False, should_evaluate=False)
    for epoch in (1, 2):
        rows.on_epoch_begin(None, None, control)
        script.step()
        control.should_evaluate = True
        rows.on_epoch_end(None, None, control)
        for name, loss in (("a", epoch), ("b", epoch + 4)):
            scores = {f"eval_{name}_loss": loss, f"eval_{name}_runtime": 9.0}
            rows.on_log(None, None, control, logs=scores)
            control.should_evaluate = False
            rows.on_evaluate(None, None, control, metrics=scores)
    rows.on_train_end(None, None, control)
    assert epochs_of(reporter, *metrics) == [(1, 5), (2, 6)]


@pytest.mark.parametrize("is_outside", [False, True])
def test_what_lightning_calls_is_reported(
    torch: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch, is_outside: bool
) -> None:
    """Its Trainer divides losses by the batches of an update, validates, then ends the epoch."""
    reporter = KeptReporter()
    script = None if is_outside else script_of(reporter, clock)
    parts = {"pytorch": SimpleNamespace(Callback=object)}
    rows = callback("lightning", parts, script, monkeypatch)
    module = torch.nn.Linear(2, 1)
    module.automatic_optimization = True
    module.on_train_epoch_end = None
    logs: dict[str, Any] = {}

    def log() -> None:
        trainer.callback_metrics = trainer.callback_metrics | logs

    def end_epoch() -> None:
        """Callbacks come before the module, which may log then."""
        module.on_train_epoch_end = log
        rows.on_train_epoch_end(trainer, module)
        module.on_train_epoch_end()
        assert "on_train_epoch_end" not in vars(module)

    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    trainer = SimpleNamespace(
        global_step=0, accumulate_grad_batches=2, optimizers=[optimizer], callback_metrics={}, should_stop=False
    )

    def validate() -> None:
        rows.on_validation_start(trainer, module)
        clock.now += 1000
        rows.on_validation_end(trainer, module)

    validate()  # its check before training
    rows.on_train_start(trainer, module)
    for epoch, accuracy in ((1, 0.5), (2, 0.95)):
        for number, size in enumerate((4, 4, 4, 3)):
            clock.now += 1
            batch = [torch.zeros(size, 2), torch.zeros(size)]
            rows.on_train_batch_start(trainer, module, batch, number)
            if number == 2:
                validate()  # within a step
            clock.now += 2
            trainer.global_step += number % 2
            rows.on_train_batch_end(trainer, module, {"loss": torch.tensor(float(size)) / 2}, batch, number)
            if number == 1:
                validate()
        trainer.callback_metrics = {"val_acc": torch.tensor(accuracy), "train_loss": torch.tensor(7.0)}
        logs = {"train_acc": torch.tensor(accuracy / 2)}
        validate()
        optimizer.param_groups[0]["lr"] = 0.25  # by a scheduler, for the next epoch
        end_epoch()
        clock.now += 500
        rows.on_save_checkpoint(trainer, module, {})
        assert trainer.should_stop == (epoch == 2 and script is not None)
    # Lightning keeps the scores of an earlier validation.
    end_epoch()
    rows.on_train_end(trainer, module)
    if script is None:
        return
    late = reporter.of_kind("epoch")[-1]
    assert "validation_accuracy" not in late["row"]
    reporter.messages.remove(late)
    loss = (3 * 4 * 4 + 3 * 3) / 15
    assert [row[:3] for row in epochs_of(reporter, "samples", "steps", "learning_rate")] == [
        (15, 2, 0.5),
        (15, 4, 0.25),
    ]
    columns = ("train_loss", "train_accuracy", "validation_accuracy")
    for row, accuracy in zip(epochs_of(reporter, *columns), (0.5, 0.95), strict=True):
        assert row == pytest.approx((loss, accuracy / 2, accuracy))
    result = script.recorder.result(rows._steps.weights())
    assert result.num_parameters == 3
    assert list(reporter.column("num_samples")) == [8, 7, 8, 7]
    np.testing.assert_allclose(reporter.column("loss"), [4, (16 + 9) / 7] * 2)
    # The first batch after an evaluation within an epoch, or after a checkpoint, is left out with it.
    assert (result.train_time_s, result.evaluation_time_s) == (5 + 5 + 5 + 5, 6002 + 501)
    assert result.learning_rate == 0.5


def test_outside_dlbench_a_loop_works_as_before(
    torch: Any, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # Hooks of other tests of this process would count its steps.
    module = sys.modules["torch.optim.optimizer"]
    monkeypatch.setattr(module, "_global_optimizer_post_hooks", {})
    monkeypatch.chdir(tmp_path)
    words = ["--epochs", "1", "--batch-size", "50", "--lr", "0.1", "--size", "1"]
    monkeypatch.setattr(sys, "argv", ["torch_loop.py", *words])
    runpy.run_path(str(root / "tests" / "functional" / "scripts" / "torch_loop.py"), run_name="__main__")
    assert tuple(capfd.readouterr()) == ("", "")
    assert len(json.loads((tmp_path / "log-1-0.json").read_text())["steps"]) == 3
    assert vars(module)["_global_optimizer_post_hooks"] == {}
