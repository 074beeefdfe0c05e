"""Which layers get the sum over workers; the layers are plain objects."""

from types import SimpleNamespace
from typing import Any

import pytest

from dlbench.errors import UserError
from dlbench.trainers._keras_trainer import set_reduce


def model(*layers: Any) -> Any:
    return SimpleNamespace(_flatten_layers=lambda: layers)


def test_only_layers_that_have_the_attribute_get_it() -> None:
    needing, other = SimpleNamespace(name="norm", reduce=None), SimpleNamespace(name="dense")
    set_reduce(model(other, needing), abs, 2)
    assert needing.reduce is abs
    assert not hasattr(other, "reduce")
    set_reduce(model(other, needing), None, 1)
    assert needing.reduce is None


def test_several_workers_without_a_sum_are_refused() -> None:
    with pytest.raises(UserError, match="the layer norm needs a sum over all 3 workers"):
        set_reduce(model(SimpleNamespace(name="norm", reduce=None)), None, 3)
    set_reduce(model(SimpleNamespace(name="dense")), None, 3)
