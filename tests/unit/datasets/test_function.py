import functools
import itertools
import os
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from dlbench import plugins
from dlbench.datasets._cache import Recipe, lookup
from dlbench.datasets._format import open_arrays
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
        def load_pairs():
            return (np.eye(2), [0, 1]), (np.eye(2)[:1], [0])
        def load_lists_of_pairs():
            return [[np.eye(2), [0, 1]], [np.eye(2)[:1], [0]]]
        def load_bytes():
            return np.full((4, 2, 2), 9, np.uint8), [0, 1, 0, 1]
        class whole:
            "A data set with functions of its own."
            def identity(options):
                return {"version": 1}
            def prepare(options, writer):
                writer.describe(source="mine", scale=0.5)
                writer.append(np.eye(4), [0, 1, 0, 1])
    """)
    assert prepared.arrays(f"{name}:whole").scale == 0.5
    for pairs in ("load_pairs", "load_lists_of_pairs"):
        arrays = prepared.arrays(f"{name}:{pairs}")
        assert (len(arrays.x), len(arrays.validation_x)) == (2, 1)
    assert prepared.arrays(f"{name}:load_bytes").scale == 1
    assert "bytes of 0 to 9 are not scaled" in prepared.said[-1]
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
    ("((np.eye(2), [0, 1]),) * 3", "returned 3 pairs"),
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


# What changes after a function was called, in its working folder, and whether its data is prepared again.
CHANGES = {
    "nothing": (lambda here: None, False),
    "a file that it read": (lambda here: (here / "data.csv").write_text("10,1"), True),
    "one that its module read": (lambda here: (here / "top.json").write_text("{ }"), True),
    "a database": (lambda here: (here / "a.db").write_bytes(b"other"), True),
    "a database that it named by its address": (lambda here: (here / "b.db").write_bytes(b"other"), True),
    "one that it read within a thread, by NumPy": (lambda here: np.save(here / "data.npy", np.eye(3)), True),
    "one that it mapped": (lambda here: (here / "data.bin").write_bytes(b"other bytes"), True),
    "one that it read is gone": (lambda here: (here / "data.csv").unlink(), True),
    "one more in a folder that it listed": (lambda here: (here / "listed" / "more").touch(), True),
    "a module that it imported": (lambda here: (here / "my_helper.py").write_text("NUMBER = 2"), True),
    "the time alone of such a module": (lambda here: os.utime(here / "my_helper.py", (0, 0)), False),
    "the time alone of its source": (lambda here: os.utime(here.parent / "my_source.py", (0, 0)), False),
    "a file that it wrote and read": (lambda here: (here / "log.txt").write_text("more"), False),
    "one beside it": (lambda here: (here / "other.csv").touch(), False),
}


def test_where_a_file_that_it_read_has_changed_it_is_called_again(prepared, module, monkeypatch, tmp_path, subtests):
    source = """
        import importlib, os, pathlib, sqlite3, tempfile, threading
        TOP = pathlib.Path("top.json").read_text()
        def load(*, log: str):
            pathlib.Path("log.tmp").write_text("written")
            os.replace("log.tmp", log)
            pathlib.Path(log).read_text()
            np.memmap("data.bin")
            sqlite3.connect(pathlib.Path("a.db")).close()
            sqlite3.connect("file:b.db?mode=ro", uri=True).close()
            with tempfile.NamedTemporaryFile() as file:
                pathlib.Path(file.name).read_text()
            thread = threading.Thread(target=np.load, args=["data.npy"])
            thread.start()
            thread.join()
            importlib.import_module("listed.part")
            listed = os.listdir("listed")
            pathlib.Path("listed/scratch").touch()
            os.unlink("listed/scratch")
            number = importlib.import_module("my_helper").NUMBER
            numbers = pathlib.Path("data.csv").read_text().split(",")
            return np.eye(2) * number + len(listed), [int(word) for word in numbers]
    """
    for change, (apply, is_again) in CHANGES.items():
        with subtests.test(change=change):
            here = tmp_path / change
            (here / "listed").mkdir(parents=True)
            monkeypatch.chdir(here)
            monkeypatch.syspath_prepend(here)
            name = module(source, "my_source")
            for imported in ("my_helper", "listed", "listed.part"):
                sys.modules.pop(imported, None)
            for file in ("listed/part.py", "top.json", "a.db", "b.db"):
                (here / file).touch()
            (here / "my_helper.py").write_text("NUMBER = 1")
            (here / "data.csv").write_text("0,1")
            (here / "data.bin").write_bytes(b"bytes")
            np.save("data.npy", np.eye(2))
            first = prepared.entry(f"{name}:load", log="log.txt")  # the files of another working folder are others
            assert prepared.said[-1].endswith("2 samples written")
            apply(here)
            recipe = Recipe(first.meta.dataset, {}, functools.partial(getattr, first.meta, "identity"), None)
            assert (lookup(recipe, prepared.cache) is None) is is_again
    for imported in ("my_helper", "listed", "listed.part"):
        sys.modules.pop(imported, None)


def test_changed_data_lies_beside_what_runs_may_still_read(prepared, module, tmp_path):
    name = module("""
        def load(*, path: str):
            return np.loadtxt(path), [0, 1]
    """)
    data, folders = tmp_path / "data.txt", []
    for numbers in ("1 2\n3 4", "1 2\n3 5", "1 2\n3 5 ", "1 2\n3 4"):
        data.write_text(numbers)
        for _ in range(2):
            entry = prepared.entry(f"{name}:load", path=str(data))
            folders.append(entry.folder)
            assert open_arrays(entry.folder, entry.meta.checksum).x.tolist() == np.loadtxt(data).tolist()
        assert "as prepared at" in prepared.said[-1]
    first, second = folders[0], folders[2]
    assert first != second
    assert folders == [first] * 2 + [second] * 4 + [first] * 2
    assert prepared.left() == sorted({first.name, second.name})


def test_a_file_whose_name_is_no_text_is_read_again(prepared, module, tmp_path):
    name = module("""
        def load(*, folder: str):
            import os
            open(os.fsencode(folder) + b"/\\xff.csv").close()
            return np.eye(2), [0, 1]
    """)
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.csv")).touch()
    except OSError:
        pytest.skip("this file system takes only text as names")
    for _ in range(2):
        prepared.entry(f"{name}:load", folder=str(tmp_path))
        assert prepared.said[-1].endswith("2 samples written")


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
