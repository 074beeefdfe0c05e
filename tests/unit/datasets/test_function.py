import itertools
import sys
import textwrap

import numpy as np
import pytest

from dlbench import plugins
from dlbench.errors import UserError

NUMBERS = itertools.count()


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return a function that writes a module of the user's own and returns its name."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = []

    def write(text, name=None):
        names.append(name or f"my_data_{next(NUMBERS)}")
        (tmp_path / f"{names[-1]}.py").write_text("import numpy as np\n" + textwrap.dedent(text))
        # As in a new process, which is where data sets are prepared.
        sys.modules.pop(names[-1], None)
        plugins.load.cache_clear()
        return names[-1]

    yield write
    for name in names:
        sys.modules.pop(name, None)


def test_two_or_four_arrays(prepared, module):
    name = module("""
        def load(*, num: int = 6):
            return np.arange(num * 2.0).reshape(num, 2), np.arange(num) % 3
        def load_four():
            return [[0.0], [1.0]], [0, 1], [[2.0]], [1]
        class whole:
            "A data set with functions of its own."
            def identity(options):
                return {"version": 1}
            def prepare(options, writer):
                writer.describe(source="mine", scale=0.5)
                writer.append(np.eye(4), [0, 1, 0, 1])
    """)
    assert prepared.arrays(f"{name}:whole").scale == 0.5
    arrays = prepared.arrays(f"{name}:load", num=9)
    assert np.array_equal(arrays.x, np.arange(18.0).reshape(9, 2))
    assert arrays.num_classes == 3
    assert arrays.validation_x is None
    assert (arrays.scale, arrays.offset) == (1.0, 0.0)
    arrays = prepared.arrays(f"{name}:load_four")
    assert arrays.validation_x.tolist() == [[2.0]]
    assert arrays.validation_y.tolist() == [1]


# What a function returns, and a part of the message.
WRONG = [
    ("1", "returned int"),
    ("(1, 2, 3)", "returned 3 values"),
    ("(np.zeros((4, 1)), [0, 1, 0])", "4 samples but y has 3"),
    ("(np.zeros((2, 1)), [0, 1], np.zeros((1, 1)), [2])", "class numbers reach 2"),
]


def test_what_is_wrong_is_reported_with_the_functions_name(prepared, module):
    for returned, message in WRONG:
        name = module(f"def load():\n    return {returned}\n")
        with pytest.raises(UserError, match=f"{name}:load.*{message}"):
            prepared.entry(f"{name}:load")


def test_a_changed_source_or_option_is_prepared_again(prepared, module):
    text = "def load(*, a=0):\n    return np.eye(2) + a, [0, 1]\n"
    name = module(text)
    first = prepared.entry(f"{name}:load")
    assert prepared.entry(f"{name}:load", a=0).folder == first.folder
    assert prepared.entry(f"{name}:load", a=1).folder != first.folder
    module(text + "# changed\n", name)
    changed = prepared.entry(f"{name}:load")
    assert changed.folder != first.folder
    assert changed.meta.checksum == first.meta.checksum


def test_a_function_that_cannot_be_used_is_refused(prepared, module):
    name = module("""
        def load(*, a=0): return np.eye(2) + a, [0, 1]
        def positional(num): return np.eye(num), [0, 1]
        def homeless(): return np.eye(2), [0, 1]
        homeless.__module__ = "nowhere"
    """)
    for function, options, message in (
        ("load", {"b": 1}, r"dataset\.b"),
        ("laod", {}, "cannot import"),
        ("positional", {}, "cannot be called: missing a required argument"),
        ("homeless", {}, "no source file"),
    ):
        with pytest.raises(UserError, match=message):
            prepared.entry(f"{name}:{function}", **options)
