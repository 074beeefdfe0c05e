"""Which layers get the sum over workers, with layers that are none of Keras's."""

from types import SimpleNamespace
from typing import Any

import pytest

from dlbench.errors import UserError
from dlbench.trainers._keras_forward import hand_in


def model(*layers: Any) -> Any:
    return SimpleNamespace(_flatten_layers=lambda: layers)


def test_only_layers_that_have_the_attribute_get_it() -> None:
    needing, other = SimpleNamespace(name="norm", reduce=None), SimpleNamespace(name="dense")
    hand_in(model(other, needing), abs, 2)
    assert needing.reduce is abs
    assert not hasattr(other, "reduce")
    hand_in(model(other, needing), None, 1)
    assert needing.reduce is None


def test_several_workers_without_a_sum_are_refused() -> None:
    with pytest.raises(UserError, match="the layer norm needs a sum over all 3 workers"):
        hand_in(model(SimpleNamespace(name="norm", reduce=None)), None, 3)
    hand_in(model(SimpleNamespace(name="dense")), None, 3)
