"""Hand the strategy's sum over workers to the layers of a Keras model that need it in the forward pass."""

from collections.abc import Callable
from typing import Any

from dlbench.errors import UserError

Sum = Callable[[Any], Any]


def hand_in(model: Any, in_forward: Sum | None, num_workers: int) -> None:
    """Set the attribute `reduce` of every layer that has one, wherever it is nested, to a sum over workers.

    With one worker a layer may do without: its own batch is the whole one.

    Raises:
        UserError: A layer needs the sum of several workers and the strategy has none.
    """
    needing = [layer for layer in model._flatten_layers() if hasattr(layer, "reduce")]
    if needing and in_forward is None and num_workers > 1:
        raise UserError(
            f"the layer {needing[0].name} needs a sum over all {num_workers} workers in the forward pass "
            "(synchronised batch norm), which this strategy does not have",
            hint="use a strategy that reduces inside the step, such as horovod or mirrored, or local batch norm",
        )
    for layer in needing:
        layer.reduce = in_forward
