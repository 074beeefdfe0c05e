"""Dropout: off unless asked for, since with it N workers no longer compute what one does.

What is dropped is drawn from the run's seed, so that workers in processes of their own, whose seeds are equal, drop the
same places of different samples in the same step.
"""

from typing import Annotated, Any

from pydantic import Field

Dropout = Annotated[float, Field(ge=0, lt=1)]


def dropped(x: Any, rate: float) -> Any:
    """Return x with this share of its numbers set to zero in training; no layer where there is nothing to drop."""
    from keras import layers

    return layers.Dropout(rate)(x) if rate > 0 else x
