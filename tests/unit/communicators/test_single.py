import numpy as np
import pytest

from dlbench.communicators import _single


def test_every_operation_is_its_own_result() -> None:
    communicator = _single.connect(1)
    array, out = np.arange(3.0), np.zeros(3)
    for operation in ("sum", "max", "min"):
        out[:] = 0
        communicator.all_reduce(array, out, operation)
        np.testing.assert_array_equal(out, array)
    communicator.all_reduce(array, array)
    communicator.broadcast(array)
    communicator.barrier()
    communicator.sendrecv(array * 2, 0, out, 0)
    np.testing.assert_array_equal(out, array * 2)
    assert communicator.all_gather({"a": 1}) == [{"a": 1}]
    communicator.close()
    with pytest.raises(RuntimeError, match="2 workers need a communicator"):
        _single.connect(2)
