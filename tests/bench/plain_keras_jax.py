"""The fast script that needs no dlbench: Keras on JAX in one process, each step one compiled call."""

import os

from tests.bench.plain import Batches, arguments, measure


def main() -> None:
    """Train, and hand in the rate."""
    options = arguments()
    os.environ["KERAS_BACKEND"] = "jax"
    import jax
    import keras

    from dlbench import plugins
    from dlbench.trainers import Problem

    batches = Batches(options)
    plugin = plugins.load("models", options.model)
    model = plugin.get("keras")(Problem(batches.x.shape[1:], batches.num_classes), plugin.options())
    optimizer = keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)

    def objective(trainable, others, x, y):  # type: ignore[no-untyped-def]
        logits, others = model.stateless_call(trainable, others, x.astype("float32") * options.scale, training=True)
        losses = -jax.numpy.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1)
        return losses.mean(), (others, (logits.argmax(1) == y).sum())

    def update(trainable, others, state, x, y):  # type: ignore[no-untyped-def]
        (loss, (others, hits)), gradients = jax.value_and_grad(objective, has_aux=True)(trainable, others, x, y)
        trainable, state = optimizer.stateless_apply(state, gradients, trainable)
        return trainable, others, state, jax.numpy.stack([loss, hits.astype("float32")])

    compiled = jax.jit(update, donate_argnums=(0, 1, 2))
    groups = model.trainable_variables, model.non_trainable_variables, optimizer.variables
    held = [[variable.value for variable in group] for group in groups]

    def step() -> float:
        batches.next()
        *held[:], sums = compiled(*held, batches.x, batches.y)
        return float(sums[0])

    measure(options, step, lambda: None)


if __name__ == "__main__":
    main()
