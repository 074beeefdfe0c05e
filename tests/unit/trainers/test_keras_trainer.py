"""Which layers get the sum over workers, and replicas which samples; the layers are plain objects."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dlbench.errors import UserError
from dlbench.trainers import BatchParts
from dlbench.trainers._keras_replicas import Devices, joined_parts
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


def test_a_replica_computes_the_parts_of_its_workers_slice() -> None:
    for num_samples in (38, 37, 5, 1):
        for num_replicas in (1, 2, 3):
            devices, parts = Devices(None, None, num_replicas), BatchParts(3)
            joined = joined_parts(parts, num_samples, num_replicas)
            slices = np.array_split(np.arange(num_samples), num_replicas)
            for index, own in enumerate(slices):
                computed = [devices._slice(places, index).tolist() for places in joined]
                assert computed == [own[part].tolist() for part in parts.cut(len(own))]
