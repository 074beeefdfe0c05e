import numpy as np
import pytest

from dlbench.datasets import _writer
from dlbench.datasets._verify import damage
from dlbench.datasets._writer import ArrayWriter
from dlbench.errors import UserError


def written(folder, *parts, **described):
    folder.mkdir(exist_ok=True)
    with ArrayWriter(folder, lambda line: None) as writer:
        writer.describe(source="a test", **described)
        for part in parts:
            writer.append(*part)
        return writer.finish()


def good(num=6, dtype=np.float32):
    x = np.arange(num * 4, dtype=dtype).reshape(num, 2, 2)
    return x, np.arange(num) % 3


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", "float32", "float64", ">f4", "<i8"])
def test_what_is_written_is_read_back(tmp_path, dtype):
    x, y = good(dtype=np.dtype(dtype))
    content = written(tmp_path, (x, y), (x[:2], y[:2], "validation"))
    stored = np.load(tmp_path / "x.npy")
    assert np.array_equal(stored, x)
    assert stored.dtype == np.dtype(dtype).newbyteorder("=")
    assert np.array_equal(np.load(tmp_path / "y.npy"), y)
    assert np.array_equal(np.load(tmp_path / "validation_x.npy"), x[:2])
    assert content.num_samples("train") == 6
    assert content.num_samples("validation") == 2
    assert content.class_names == ("0", "1", "2")


def test_checksum_does_not_depend_on_the_pieces(tmp_path, monkeypatch):
    x, y = good(100)
    whole = written(tmp_path / "whole", (x, y))
    pieces = written(tmp_path / "pieces", *[(x[i : i + 7], y[i : i + 7]) for i in range(0, 100, 7)])
    monkeypatch.setattr(_writer, "PIECE_BYTES", 40)
    small = written(tmp_path / "small", (x, y))
    assert whole.checksum == pieces.checksum == small.checksum
    for folder in ("pieces", "small"):
        assert (tmp_path / folder / "x.npy").read_bytes() == (tmp_path / "whole" / "x.npy").read_bytes()


@pytest.mark.parametrize("change", ["sample", "class", "order", "scale", "names", "type"])
def test_checksum_tells_any_difference(tmp_path, change):
    x, y = good()
    names = ("a", "b", "c")
    before = written(tmp_path / "before", (x, y), class_names=names)
    scale = 0.5 if change == "scale" else 1.0
    if change == "sample":
        x[3, 1, 1] += 1
    elif change == "class":
        y[3] = 1
    elif change == "order":
        x, y = x[::-1], y[::-1]
    elif change == "names":
        names = ("a", "c", "b")
    elif change == "type":
        x = x.astype(np.float64)
    after = written(tmp_path / "after", (x, y), class_names=names, scale=scale)
    assert after.checksum != before.checksum


def test_full_check_finds_one_changed_byte_and_the_quick_one_a_missing_end(tmp_path):
    x, y = good()
    meta = MetaLike(written(tmp_path, (x, y)))
    assert damage(tmp_path, meta, fully=True) == ""
    path = tmp_path / "x.npy"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    assert damage(tmp_path, meta, fully=False) == ""
    assert "checksum" in damage(tmp_path, meta, fully=True)
    path.write_bytes(content[:-1])
    assert "bytes" in damage(tmp_path, meta, fully=False)
    path.unlink()
    assert "x.npy" in damage(tmp_path, meta, fully=False)


class MetaLike:
    def __init__(self, content):
        self.content = content


X, Y = good()
BAD = {
    "x has 6 samples but y has 5": (X, Y[:5]),
    "not finite": (np.where(X == 3, np.nan, X), Y),
    "not finite ": (np.where(X == 3, np.inf, X), Y),
    "x is empty": (X[:0], Y[:0]),
    "y holds float64; class numbers are integers": (X, Y + 0.5),
    r"y has shape \(6, 3\)": (X, np.eye(3, dtype=int)[Y]),
    "y holds -1; classes are numbered from 0": (X, Y - 1),
    "no sample is of class 0": (X, Y + 1),
    "a single class": (X, Y * 0),
    "class numbers reach 1,000 but there are only 6": (X, Y * 500),
    "which is no class number": (X, Y.astype(np.int64) << 40),
    r"x has shape \(6,\)": (np.zeros(6), Y),
    "x holds <U1": (np.array(list("abcdef")).reshape(6, 1), Y),
    "x holds object": (np.array([None] * 6).reshape(6, 1), Y),
    "x holds complex128": (X.astype(complex), Y),
    "x is no array": ([[1], [1, 2]], [0, 1]),
    "its samples are empty": (np.zeros((6, 0)), Y),
}


@pytest.mark.parametrize("message", BAD)
def test_what_cannot_be_trained_on_is_refused(tmp_path, message):
    with pytest.raises(UserError, match=message.strip()):
        written(tmp_path, BAD[message])


def test_pieces_must_have_one_shape_and_type(tmp_path):
    with pytest.raises(UserError, match="others have"):
        written(tmp_path / "a", (X, Y), (X[:, :1], Y))
    with pytest.raises(UserError, match="others have"):
        written(tmp_path / "b", (X, Y), (X.astype(np.uint8), Y, "validation"))


def test_class_beyond_the_named_ones_is_refused(tmp_path):
    with pytest.raises(UserError, match="class number 2 in a data set of 2 classes"):
        written(tmp_path, (X, Y), class_names=("a", "b"))


def test_no_training_samples_is_refused(tmp_path):
    with pytest.raises(UserError, match="no training samples"):
        written(tmp_path)


def test_bool_samples_become_bytes(tmp_path):
    written(tmp_path, (X > 3, Y))
    assert np.load(tmp_path / "x.npy").dtype == np.uint8


def test_progress_is_said_with_the_total(tmp_path, monkeypatch):
    monkeypatch.setattr(_writer, "PROGRESS_INTERVAL_S", 0.0)
    said = []
    with ArrayWriter(tmp_path, said.append) as writer:
        writer.describe(source="a test", num_samples=6)
        writer.append(X, Y)
        writer.finish()
    assert said == ["6 of 6 samples", "6 samples written"]


def test_tokens_with_a_class_at_each_position_are_written_and_read_back(tmp_path):
    x = np.arange(24, dtype=np.uint8).reshape(8, 3) % 12
    y = (x + 1) % 5
    content = written(tmp_path, (x, y), vocabulary=12, target_shape=(3,))
    assert (content.vocabulary, content.target_shape, content.input_shape) == (12, (3,), (3,))
    assert np.array_equal(np.load(tmp_path / "y.npy"), y)
    assert content.num_classes == 5
    other = written(tmp_path / "other", (x, y), vocabulary=13, target_shape=(3,))
    assert other.checksum != content.checksum


def test_without_tokens_the_checksum_is_what_it_was_before_there_were_any(tmp_path):
    # Written down once: prepared data sets of earlier versions stay valid.
    content = written(tmp_path, good(dtype=np.dtype("uint8")))
    assert content.checksum == "4488365852e6a6fca39365b9d506ee1e6c9d0c33d0e73caeeb6a34a4b40ac6db"


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.full((2, 3), 12, np.uint8), np.zeros((2, 3), int), "x holds tokens from 12 to 12; there are 12"),
        (np.full((2, 3), -1, np.int8), np.zeros((2, 3), int), "x holds tokens from -1 to -1"),
        (np.zeros((2, 3), np.float32), np.zeros((2, 3), int), "tokens are integers"),
        (np.zeros((2, 3), np.uint8), np.zeros((2, 4), int), r"needs class numbers of shape \(3,\)"),
        (np.zeros((2, 3), np.uint8), np.zeros(2, int), r"needs class numbers of shape \(3,\)"),
    ],
)
def test_what_are_no_tokens_is_refused(tmp_path, x, y, message):
    with pytest.raises(UserError, match=message):
        written(tmp_path, (x, y), vocabulary=12, target_shape=(3,))
