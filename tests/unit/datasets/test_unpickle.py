import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from dlbench.datasets._unpickle import Refused, load
from tests.unit.datasets import cifar


def test_what_python_2_wrote_is_read() -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(4, 6)
    found = load(cifar.pickled({b"data": pixels, b"labels": [3, 1, 2], b"name": b"a batch", b"number": 7}))
    assert found[b"data"].dtype == np.uint8
    assert np.array_equal(found.pop(b"data"), pixels)
    assert found == {b"labels": [3, 1, 2], b"name": b"a batch", b"number": 7}


def test_it_agrees_with_python() -> None:
    files = cifar.cifar10()
    for content in files.values():
        expected = pickle.loads(content, encoding="bytes")
        found = load(content)
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert np.array_equal(found[key], value)


class Hostile:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_calls_something_is_refused_and_nothing_is_called(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "called"
    for function, *arguments in ((os.system, f"touch {mark}"), (mark.touch,), (eval, f"open({str(mark)!r}, 'w')")):
        with pytest.raises(Refused):
            load(pickle.dumps({b"data": Hostile(function, *arguments)}, protocol))
    assert not mark.exists()


@pytest.mark.parametrize(
    "asked", ["numpy\nload", "numpy\nfromfile", "numpy.core.multiarray\nfrombuffer", "builtins\neval", "os\nsystem",
              "numpy\nndarray.tofile", "numpy._core.multiarray\nscalar"]
)  # fmt: skip
def test_any_other_name_is_refused(asked: str) -> None:
    with pytest.raises(Refused, match="it asks for"):
        load(b"\x80\x02c" + asked.encode() + b"\n.")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged: EOFError"),
        (cifar.pickled({b"a": 1})[:-3], "damaged"),
        (b"no pickle at all", "damaged"),
        (b"\x80\x02].", "it holds list, not a dictionary"),
        (pickle.dumps({"text": 1}, 2), "key that is str"),
        (b"\x80\x02}U\x01aPx\n0.", "damaged|outside of it"),
        (b"\x80\x02cnumpy\nndarray\n)R.", "unusual way"),
        (b"\x80\x02cnumpy\ndtype\n(U\x01OtR.", "not of uint8"),
    ],
)
def test_what_is_no_batch_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(Refused, match=message):
        load(content)


def test_arrays_of_another_type_or_of_a_wrong_size_are_refused() -> None:
    good = cifar.pickled({b"data": np.zeros((2, 3), np.uint8)})
    with pytest.raises(Refused, match="not of uint8"):
        load(good.replace(b"U\x02u1", b"U\x02O8"))
    with pytest.raises(Refused, match="damaged: ValueError"):
        load(good.replace(cifar.integers((2, 3)), cifar.integers((2, 4))))
    state = cifar.pickled({b"data": np.zeros((2, 3), np.uint8)})
    with pytest.raises(Refused, match="without content"):
        load(state[: state.rindex(cifar.MARK + cifar.integer(1) + cifar.MARK)] + b"u.")
