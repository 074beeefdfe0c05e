"""Keras's own `model.fit` with one worker: the loop that people have before they distribute anything."""

from time import perf_counter
from typing import Any

from tests.bench.plain import Batches, Network, arguments, hand_in


def main() -> None:
    """Train, and hand in the rate of whole epochs."""
    options = arguments()
    batches = Batches(options)
    net = Network(options, batches)
    x, y = batches.everything(options.scale)
    epochs = max(1, round(options.steps / (len(x) // options.batch_size)))
    options.steps = epochs * (len(x) // options.batch_size)

    class Clock(net.keras.callbacks.Callback):  # type: ignore[misc, name-defined]  # keras is untyped
        started = ended = 0.0

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.started = self.started if epoch else perf_counter()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.ended = perf_counter()

    loss = net.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.model.compile(net.optimizer, loss, metrics=["accuracy"], jit_compile=False)
    net.model.fit(x, y, options.batch_size, epochs=2, verbose=0)
    clock = Clock()
    history = net.model.fit(x, y, options.batch_size, epochs=epochs, verbose=0, callbacks=[clock])
    hand_in(options, clock.ended - clock.started, history.history["loss"][-1])


if __name__ == "__main__":
    main()
