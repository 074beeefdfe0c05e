"""Hold one of Keras's engines to the contract of trainers: `python -m ... keras_torch`; what fails is a traceback."""

import sys
from typing import Any

import numpy as np

from dlbench.trainers import Problem, Trainer
from tests.unit.trainers import contract
from tests.unit.trainers.contract import create

IMAGES = contract.problem(8, 8, 1)
CHARACTERS = Problem((6,), 11, vocabulary=11, target_shape=(6,))
NARROW = {"filters": (3, 4)}
# Model, its samples, options; no batch norm: samples are independent.
WHOLE: list[tuple[str, Problem, dict[str, Any]]] = [
    ("mlp", IMAGES, {"hidden": (16, 9)}),
    ("cnn", IMAGES, NARROW),
    ("lstm", CHARACTERS, {"units": 5}),
    ("transformer", CHARACTERS, {"width": 8, "num_heads": 2, "num_layers": 1}),
]
TRAJECTORIES: list[dict[str, Any]] = [
    {"optimizer": "sgd", "momentum": 0.9, "nesterov": True},
    {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.1},
    {"optimizer": "adamw", "weight_decay": 0.1},
]
# What JAX says where XLA has compiled something.
COMPILED = "/jax/core/compile/backend_compile_duration"
# The same numbers on every engine: sums of the first weights of a network with all kinds of initializers.
FIRST_WEIGHTS = ("lstm", {"units": 5}), ("resnet20", {"width": 4, "num_blocks": 1})


def main(name: str) -> None:
    """Run every check."""
    for model, what, options in WHOLE:
        trainer = create(name, model, what, options)
        first = trainer.parameters()
        for check in contract.CHECKS[: most_checks(name, model)]:
            trainer.set_parameters(first)
            check(trainer, contract.batch(what))
        contract.check_no_samples_are_zeros(trainer, contract.batch(what))
    given = contract.batch(IMAGES)

    # JAX compiles anew for each size of a batch: the smallest network will do.
    model, options = ("mlp", {"hidden": (9,)}) if name == "keras_jax" else ("cnn", NARROW)

    def make(**settings: Any) -> Trainer:
        return create(name, model, IMAGES, options, **settings)

    contract.check_a_regression_sums_squared_errors(
        create(name, "mlp", contract.regression(8, 8, 1)), contract.batch(contract.regression(8, 8, 1))
    )
    contract.check_parts_sum_to_the_whole(make, given)
    contract.check_resumes_to_the_bit(lambda: make(optimizer="nadam"), given)
    contract.check_step_is_gradient_and_apply(lambda: make(optimizer="sgd", momentum=0.9), given)
    contract.check_each_step_of_a_call_has_its_samples_its_rate_and_the_hook(lambda: make(optimizer="adam"), given)
    contract.check_seed_decides_the_weights(name, "cnn", IMAGES)
    batch_norm(name)
    for settings in TRAJECTORIES:
        trajectory(name, settings)
    dropout(name)
    half_precision(name)
    rehearsal(make(), given)
    contract.check_the_device_gathers_as_the_processor_does(make())
    for parts in (1, 2):
        contract.check_a_batch_on_the_device_trains_as_an_array(make(gradient_accumulation_steps=parts), given)
    if name == "keras_jax":
        compiles_once(make(), given)
    print("first weights", *(repr(first_weights(name, *case)) for case in FIRST_WEIGHTS))
    print("loaded", *sorted({"tensorflow", "torch", "jax"} & set(sys.modules)))


def compiles_once(trainer: Any, given: Any) -> None:
    """What the device holds binds the variables to nothing: the next step is compiled for them no more."""
    import jax

    compiled: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: compiled.append(event))
    trainer.compile(None)
    gather, size = trainer.hold(*given, None), len(given[1])
    counts = []
    for _ in range(3):
        trainer.step(*gather(np.arange(size, dtype=np.int32)[:, None]), 1 / size, 0.1)
        counts.append(compiled.count(COMPILED))
    assert counts == [counts[0]] * 3
    assert counts[0] > 0


def most_checks(name: str, model: str) -> int | None:
    """Return how many checks a model takes: JAX compiles for half a second for each model and size of a batch."""
    if name != "keras_jax" or model == "mlp":
        return None
    # Its own attention has its softmax in float32, whatever the precision: its gradient is not exact.
    return 1 if model == "transformer" else 2


def batch_norm(name: str) -> None:
    """Gradients are right through means and variances; statistics move in training alone."""
    trainer, given = create(name, "cnn", IMAGES, NARROW | {"batch_norm": True}), contract.batch(IMAGES)
    contract.check_gradient_is_that_of_the_loss(trainer, given)
    before = trainer.state("statistics")["statistics"]
    trainer.evaluate(*given)
    assert np.array_equal(trainer.state("statistics")["statistics"], before)
    trainer.gradient(*given, 1.0)
    once = trainer.state("statistics")["statistics"]
    assert not np.array_equal(once, before)
    # Where a batch comes again and again, its own means and variances are what the statistics end at.
    for _ in range(300):
        trainer.gradient(*given, 1.0)
    trainer.compile(None)
    limit = trainer.state("statistics")["statistics"]
    np.testing.assert_allclose(limit, before + (once - before) / 0.1, rtol=1e-6, atol=1e-9)


def trajectory(name: str, settings: dict[str, Any]) -> None:
    """Twenty steps from the same weights end where NumPy's do; JAX compiles for one size of a batch."""
    ours, theirs = (create(each, "mlp", IMAGES, {"hidden": (16, 9)}, **settings) for each in ("numpy", name))
    theirs.set_parameters(ours.parameters())
    first = ours.parameters()
    for step in range(20):
        given = contract.batch(IMAGES, 8 + step % 2 * (name != "keras_jax"), seed=step)
        for trainer in (ours, theirs):
            trainer.apply(trainer.gradient(*given, 1 / len(given[1]))[0], 0.02 if step < 10 else 0.01)
    np.testing.assert_allclose(ours.parameters(), theirs.parameters(), rtol=0, atol=1e-10)
    assert np.abs(ours.parameters() - first).max() > 1e-2


def dropout(name: str) -> None:
    """It is drawn anew in each step, by the seed, not in evaluation, and comes back with the trainer's state."""
    tokens = Problem((6,), 10, vocabulary=11)
    own = "tests.functional.engine_programs.contract:with_own_generator"
    for what, model, options in ((tokens, "lstm", {"units": 5, "dropout": 0.5}), (IMAGES, own, {})):
        trainer, given = create(name, model, what, options), contract.batch(what)
        start = trainer.state()
        first, second = (trainer.gradient(*given, 1.0)[1] for _ in range(2))
        assert first != second
        assert trainer.evaluate(*given) == trainer.evaluate(*given)
        trainer.set_state(start)
        assert trainer.gradient(*given, 1.0)[1] == first


def with_own_generator(problem: Problem) -> Any:
    """Return a model with a layer whose generator has a name of the user's own."""
    import keras

    class Dropping(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.rng = keras.random.SeedGenerator()

        def call(self, x: Any, training: bool = False) -> Any:
            return keras.random.dropout(x, 0.5, seed=self.rng) if training else x

    return keras.Sequential([keras.layers.Flatten(), Dropping(), keras.layers.Dense(problem.num_classes)])


def half_precision(name: str) -> None:
    """It learns in mixed precision, with parameters in float32; float16 survives what is not finite."""
    trainer, given = create(name, "mlp", IMAGES, precision="mixed_bfloat16", optimizer="adam"), contract.batch(IMAGES)
    before = trainer.evaluate(*given)["loss"]
    for _ in range(60):
        trainer.apply(trainer.gradient(*given, 1 / 12)[0], 0.01)
    assert trainer.parameters().dtype == np.float32
    assert trainer.evaluate(*given)["loss"] < 0.5 * before
    if name != "keras_torch":
        return
    trainer = create(name, "mlp", IMAGES, precision="mixed_float16")
    mean, tiny = (contract.gradient(trainer, *given, scale) for scale in (2.0**-4, 2.0**-28))
    assert np.linalg.norm(tiny * 2.0**24 - mean) <= 0.05 * np.linalg.norm(mean)
    weights = trainer.parameters()
    trainer.apply(np.full(trainer.num_parameters, np.inf, np.float32), 0.1)
    assert np.array_equal(trainer.parameters(), weights)
    trainer.apply(mean, 0.125)
    np.testing.assert_allclose(trainer.parameters(), weights - 0.125 * mean, rtol=1e-6, atol=1e-7)
    assert trainer.num_updates == 1


def rehearsal(trainer: Any, given: contract.Batch) -> None:
    """Preparing for a size of a batch leaves the state as it was."""
    before = trainer.state()
    trainer.rehearse(given[0][:3], given[1][:3], 0.25)
    contract.must_be_same(trainer, before)


def first_weights(name: str, model: str, options: dict[str, Any]) -> float:
    """Return a sum over the first weights in which their order counts."""
    weights = create(name, model, IMAGES, options, precision="float32").parameters().astype(np.float64)
    return round(float(weights @ np.arange(1, weights.size + 1)), 3)


if __name__ == "__main__":
    main(sys.argv[1])
