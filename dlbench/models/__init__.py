"""The networks: one file each, or a row of `_table.py`, as the residual networks are; a row holds the same.

A model file holds a one-line doc, `OPTIONS`, and one builder for each engine that can train it:

    def keras(problem: Problem, options: Options) -> keras.Model: ...     # [n, *target_shape, num_outputs]
    def numpy(problem: Problem, options: Options) -> tuple[int, ...]: ... # widths of its hidden dense ReLU layers

(what it returns are logits, or a number where that is predicted) and, where it cannot take every data set,

    def refuse(samples: SampleSpec, options: Options) -> str: ... # why not these samples, or ""

An option `batch_norm` means the same in every model that has one (`_layers.py`). What makes N workers compute something
else than one (dropout) is an option that is off by default. A layer class of a model's own sets `has_products = False`
if it multiplies no matrices; otherwise the cost of a sample is not known.

The builders decide which trainers can train a model (a trainer's `BUILDER` names the one it calls).
A user's own `package.module:function` is called as the `keras` builder: `function(problem, **options)`. A model
that both engines build has the same flat order of weights in both: layer by layer, kernel [in, out], then bias.
"""

from typing import Protocol


class SampleSpec(Protocol):
    """What a model knows of a data set before it is built; see `dlbench.trainers.Problem`."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""

    @property
    def vocabulary(self) -> int | None:
        """Number of different tokens, where samples are tokens."""

    @property
    def target_shape(self) -> tuple[int, ...]:
        """() or (T,)."""
