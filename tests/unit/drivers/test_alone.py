import numpy as np
import pytest

from dlbench.drivers import _alone


def test_every_operation_is_its_own_result() -> None:
    driver = _alone.connect(1)
    array, out = np.arange(3.0), np.zeros(3)
    for operation in ("sum", "max", "min"):
        out[:] = 0
        driver.all_reduce(array, out, operation)
        np.testing.assert_array_equal(out, array)
    driver.all_reduce(array, array)
    driver.broadcast(array)
    driver.barrier()
    driver.exchange(array * 2, 0, out, 0)
    np.testing.assert_array_equal(out, array * 2)
    assert driver.all_gather({"a": 1}) == [{"a": 1}]
    driver.close()


def test_there_is_no_peer() -> None:
    with pytest.raises(ValueError, match="no peer 1"):
        _alone.connect(1).exchange(np.zeros(1), 1, np.zeros(1), 0)


def test_it_refuses_company() -> None:
    with pytest.raises(RuntimeError, match="2 workers cannot meet"):
        _alone.connect(2)
