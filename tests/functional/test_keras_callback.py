"""The callback of Keras's `fit`: what it reports of steps, samples and scores is what was trained."""

import time
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dlbench.errors import UserError
from dlbench.records.columns import FIELD
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.trainers import Array
from dlbench.worker import step_recorder as window_module
from dlbench.worker.script import hook as hook_module
from dlbench.worker.script import recorder as recorder_module
from dlbench.worker.script.recorder import ScriptRecorder
from tests.fakes import IdleObserver, KeptReporter
from tests.unit.trainers import contract

pytestmark = pytest.mark.tensorflow


@pytest.fixture(autouse=True)
def started() -> None:
    """Start TensorFlow as dlbench's own trainers do, which other tests of this process need."""
    contract.create("keras_tensorflow", "softmax", contract.problem(2))


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.parametrize("batch", [pytest.param(10, marks=pytest.mark.soak), 16])
def test_fit_says_how_many_steps_a_call_of_it_has_made(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keras names the last batch of a whole call, also where the data ended before."""
    import keras

    from dlbench.keras import Callback

    callback, calls = Callback(), []
    monkeypatch.setattr(
        callback.run, "end_step", lambda loss, num_samples, num_steps: calls.append((num_samples, num_steps))
    )
    model, x, y = classifier(keras, steps_per_execution=3, run_eagerly=False)
    expected = {10: [(30, 3), (30, 3), (30, 3), (10, 1)], 16: [(48, 3), (48, 3), (4, 1)]}[batch]
    model.fit(x, y, batch_size=batch, epochs=2, verbose=0, callbacks=[callback])
    assert calls == 2 * expected
    calls.clear()
    unknown = ((x[start : start + batch], y[start : start + batch]) for start in range(0, 100, batch))
    model.fit(unknown, shuffle=False, verbose=0, callbacks=[callback])
    assert calls == expected
    calls.clear()
    endless = ((x[:batch], y[:batch]) for _ in iter(int, 1))
    model.fit(endless, steps_per_epoch=4, shuffle=False, verbose=0, callbacks=[callback])
    assert calls == 2 * [(3 * batch, 3)]  # Keras makes whole calls


def classifier(keras: Any, run_eagerly: bool = True, **how: Any) -> tuple[Any, Array, Array]:
    """Return a model that is ready to train, and 100 samples; tracing its steps would take most of a test's time."""
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, metrics=["accuracy"], run_eagerly=run_eagerly, **how)
    random = np.random.default_rng(0)
    return model, random.normal(size=(100, 4)), random.integers(0, 2, 100)


def reporting(**given: Any) -> tuple[Any, KeptReporter]:
    """Return a callback, and what it reports; 32 samples are a batch of its run."""
    from dlbench.keras import Callback

    callback, reporter = Callback(**given), KeptReporter()
    callback.run.recorder = ScriptRecorder(
        RunSpec(scenario="", label="", repeat=0, settings=Settings()), reporter, IdleObserver(), lambda: None
    )
    return callback, reporter


def test_what_a_script_evaluates_within_fit_is_no_training() -> None:
    """In a callback before ours its step is still open; Keras's mean of the loss is then of the evaluation."""
    import keras

    callback, reporter = reporting()
    model, x, y = classifier(keras)
    plain, plain_reporter = reporting()

    def evaluate(batch: int, logs: Any) -> None:
        if batch % 2:
            model.evaluate(np.tile(x, (3, 1)), np.tile(y, 3), verbose=0)

    evaluating = keras.callbacks.LambdaCallback(on_train_batch_end=evaluate)
    weights = model.get_weights()
    for order in ([evaluating, callback], [callback, evaluating], [plain]):
        model.set_weights(weights)
        model.fit(x, y, shuffle=False, verbose=0, callbacks=order)
    names = [FIELD["num_samples"], FIELD["loss"]]
    for each in (callback, plain):
        each.run.recorder.flush()
    expected = plain_reporter.rows[:, names]
    assert expected[:, 0].tolist() == [32, 32, 32, 4]
    np.testing.assert_allclose(reporter.rows[:, names], np.tile(expected, (2, 1)), rtol=1e-5)
    progress = callback.run.recorder.record.progress
    assert progress.evaluation_time_s > 0
    assert "evaluate" not in vars(model)


def test_a_model_that_does_not_count_its_samples_says_how_many_there_are() -> None:
    """Its training is not cut short: `fit` takes a StopIteration for the end of the data."""
    import keras
    import tensorflow as tf

    class OwnLosses(keras.Model):  # type: ignore[misc]
        def __init__(self, name: str) -> None:
            super().__init__()
            self.dense, self.mean = keras.layers.Dense(1), keras.metrics.Mean(name=name)

        def call(self, x: Any) -> Any:
            return self.dense(x)

        @property
        def metrics(self) -> list[Any]:
            return [self.mean]

        def train_step(self, data: Any) -> dict[str, Any]:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(self(data[0]) ** 2)
            variables = self.trainable_variables
            self.optimizer.apply(tape.gradient(loss, variables), variables)
            self.mean.update_state(loss)
            return {"loss": self.mean.result()}

    x, y = np.ones((100, 4)), np.zeros(100)
    for name in ("g_loss", "loss"):
        model = OwnLosses(name)
        model.compile("sgd")
        with pytest.raises(UserError, match="does not count samples"):
            model.fit(x, y, batch_size=25, verbose=0, callbacks=[reporting()[0]])
        callback, reporter = reporting(batch_size=25)
        model.fit(x, y, batch_size=25, verbose=0, callbacks=[callback])
        assert int(model.optimizer.iterations) == 1 + 4
        callback.run.recorder.flush()
        assert reporter.rows[:, FIELD["num_samples"]].tolist() == [25] * 4
        assert np.isnan(reporter.rows[:, FIELD["loss"]]).all() == (name == "g_loss")


def test_what_runs_between_epochs_and_fits_is_no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the order of callbacks: a checkpoint, a prediction, another `fit`, here of an hour each."""
    import keras

    late = [0.0]
    for module in (recorder_module, window_module, hook_module):
        monkeypatch.setattr(module, "perf_counter", lambda: time.perf_counter() + late[0])

    def hour(*_: Any) -> None:
        late[0] += 3600.0

    callback, _ = reporting()
    model, x, y = classifier(keras)
    for _ in range(2):
        saving = keras.callbacks.LambdaCallback(on_epoch_end=hour)
        model.fit(x, y, epochs=2, verbose=0, callbacks=[callback, saving])
        hour()
    result = callback.run.recorder.result(None)
    assert result.steps == 2 * 2 * 4
    assert result.train_time_s < 3600
    assert all(piece.seconds < 3600 for piece in result.segments)


def test_a_fit_that_goes_on_says_so_and_one_without_a_step_is_refused() -> None:
    import keras

    model, x, y = classifier(keras)
    callback, _ = reporting()
    with pytest.raises(UserError, match="has made no step"):
        model.fit(x, y, epochs=2, initial_epoch=2, verbose=0, callbacks=[callback])
    for first, notes in ((0, []), (1, ["`fit` began with epoch 2"])):
        callback, _ = reporting()
        for initial in (first, 1):  # the second `fit` goes on where the first has ended
            model.fit(x, y, epochs=2, initial_epoch=initial, verbose=0, callbacks=[callback])
        assert [note[:24] for note in callback.run.recorder.notes] == notes


def test_fits_of_several_models_are_noted_once() -> None:
    import keras

    callback, _ = reporting()
    model, x, y = classifier(keras)
    joined = keras.Sequential([model, keras.layers.Dense(2)])  # goes on with its layers
    joined.compile("sgd", "sparse_categorical_crossentropy", run_eagerly=True)
    for each in (model, model, joined):
        each.fit(x, y, verbose=0, callbacks=[callback])
    notes = callback.run.recorder.notes
    assert notes == []
    for _ in range(2):
        classifier(keras)[0].fit(x, y, verbose=0, callbacks=[callback])
    assert [note[:55] for note in notes] == ["`fit` began with another model after epoch 3: times, st"]


def test_a_learning_rate_is_that_of_a_schedules_last_step_and_a_runs_the_largest() -> None:
    import keras

    model, x, y = classifier(keras)
    schedule = keras.optimizers.schedules.CosineDecay(0.0, 4, warmup_target=0.5, warmup_steps=2)
    model.compile(keras.optimizers.SGD(schedule), "sparse_categorical_crossentropy", run_eagerly=True)
    callback, _ = reporting()
    model.fit(x, y, verbose=0, callbacks=[callback])  # 4 steps
    (row,) = callback.run.recorder.record.progress.rows
    assert row["learning_rate"] == pytest.approx(float(schedule(3)))
    assert callback.run.recorder.result(None).learning_rate == pytest.approx(0.5)


def test_a_rate_that_a_callback_changes_with_every_batch_or_epoch_and_one_that_makes_no_update() -> None:
    import keras

    class Cycle(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.model.optimizer.learning_rate.assign([0.1, 0.5, 0.2, 0.01][batch])

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.optimizer.learning_rate = 0.7  # for the next epoch

    callback, _ = reporting()
    model, x, y = classifier(keras)
    model.fit(x, y, verbose=0, callbacks=[Cycle(), callback])
    assert callback.run.recorder.record.progress.rows[0]["learning_rate"] == pytest.approx(0.01)
    assert callback.run.recorder.result(None).learning_rate == pytest.approx(0.5)

    class Others(keras.Sequential):  # type: ignore[misc]
        def train_step(self, data: Any) -> dict[str, Any]:
            return self.test_step(data)  # another optimizer of the script's makes the updates

    callback, _ = reporting()
    model = Others([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), run_eagerly=True)
    model.fit(x, y, verbose=0, callbacks=[callback])
    assert callback.run.recorder.result(None).learning_rate is None


def test_numbers_that_replicas_mirror_are_read() -> None:
    import keras
    import tensorflow as tf

    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model, x, y = classifier(keras, run_eagerly=False)
    callback, reporter = reporting()
    model.fit(x, y, verbose=0, callbacks=[callback])
    callback.run.recorder.flush()
    assert reporter.rows[:, FIELD["num_samples"]].tolist() == [32, 32, 32, 4]
    assert callback.run.recorder.result(None).learning_rate == pytest.approx(0.01)


def test_samples_that_processes_of_a_mesh_count_together_are_not_all_of_each() -> None:
    """JAX's arrays name the devices that hold them; those of a mesh are of several processes."""
    import keras

    class Shared(float):
        devices = tuple(SimpleNamespace(process_index=index) for index in (0, 0, 1, 2))
        value = SimpleNamespace(sharding=SimpleNamespace(device_set=devices))

    samples = []
    for rank in range(3):
        callback, reporter = reporting()
        callback.set_model(classifier(keras)[0])
        callback.run.rank, callback._tracker = rank, lambda: SimpleNamespace(total=50.0, count=Shared(100))
        callback.on_train_batch_begin(0)
        callback.on_train_batch_end(0)
        callback.run.recorder.flush()
        samples += reporter.rows[:, FIELD["num_samples"]].tolist()
    assert samples == [33, 33, 34]


def test_replicas_in_one_process_are_as_many_as_workers() -> None:
    import keras

    model, x, y = classifier(keras)
    callback, _ = reporting()
    callback.run.settings = Settings(strategy="mirrored", workers=2)
    with pytest.raises(UserError, match="2 workers in one process, and replicas of the model there: 1"):
        model.fit(x, y, verbose=0, callbacks=[callback])
    callback.run.settings = Settings(strategy="mirrored")
    model.fit(x, y, verbose=0, callbacks=[callback])
    assert callback.run.recorder.num_replicas == 1


def test_a_model_of_another_keras_is_refused() -> None:
    from dlbench.keras import Callback

    with pytest.raises(UserError, match="one of fractions"):
        Callback().set_model(Fraction(1))


def test_a_batch_of_one_sample_is_counted() -> None:
    """Keras's own step counts samples: that its count grows by one says nothing else."""
    import keras

    callback, reporter = reporting()
    model, x, y = classifier(keras)
    model.fit(x[:5], y[:5], batch_size=1, verbose=0, callbacks=[callback])
    callback.run.recorder.flush()
    assert reporter.rows[:, FIELD["num_samples"]].tolist() == [1] * 5


def test_of_several_accuracies_the_first_counts_and_what_has_no_prefix_is_of_validation() -> None:
    callback, _ = reporting()
    callback.run.metrics = {"auc": None}
    logs = {"binary_accuracy": 0.5, "categorical_accuracy": 0.25, "auc": 0.75}
    assert callback._scores(logs) == {"train_accuracy": 0.5, "auc": 0.75}
    validated = logs | {"val_binary_accuracy": 0.4, "val_categorical_accuracy": 0.2, "val_auc": 0.6}
    assert callback._scores(validated) == {"train_accuracy": 0.5, "validation_accuracy": 0.4, "auc": 0.6}
    assert callback._scores(logs) == {"train_accuracy": 0.5}
