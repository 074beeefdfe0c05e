import numpy as np
import pandas
import pytest
import scipy.sparse

from dlbench.datasets import _writer
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


def test_what_is_written_is_read_back(tmp_path):
    for dtype in ("uint8", "int16", "float16", "float32", "float64", ">f4", "<i8"):
        x, y = good(dtype=np.dtype(dtype))
        content = written(tmp_path, (x, y), (x[:2], y[:2], "validation"))
        stored = np.load(tmp_path / "x.npy")
        assert np.array_equal(stored, x), dtype
        assert stored.dtype == np.dtype(dtype).newbyteorder("="), dtype
        assert np.array_equal(np.load(tmp_path / "y.npy"), y), dtype
        assert np.array_equal(np.load(tmp_path / "validation_x.npy"), x[:2]), dtype
        assert [array.shape[0] for array in content.arrays.values()] == [6, 6, 2, 2]
        assert content.class_names == ("0", "1", "2")
    written(tmp_path, (x > 3, y))
    assert np.load(tmp_path / "x.npy").dtype == np.uint8


def test_numbers_to_predict_come_in_pieces_of_any_kind(tmp_path):
    x, _ = good()
    parts = [(x[:2], [0.5, 1.0]), (x[2:4], [2.0, 3.0]), (x[4:], np.array([4, 5])), (x[:1], [1.0], "validation")]
    content = written(tmp_path, *parts)
    assert np.load(tmp_path / "y.npy").tolist() == [0.5, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert (content.class_names, content.arrays["validation_y"].dtype) == ((), "<f8")


def test_checksum_does_not_depend_on_the_pieces(tmp_path, monkeypatch):
    x, y = good(100)
    whole = written(tmp_path / "whole", (x, y))
    pieces = written(tmp_path / "pieces", *[(x[i : i + 7], y[i : i + 7]) for i in range(0, 100, 7)])
    monkeypatch.setattr(_writer, "PIECE_BYTES", 40)
    small = written(tmp_path / "small", (x, y))
    assert whole.checksum == pieces.checksum == small.checksum
    for folder in ("pieces", "small"):
        assert (tmp_path / folder / "x.npy").read_bytes() == (tmp_path / "whole" / "x.npy").read_bytes()


def test_checksum_changes_with_any_difference(tmp_path):
    x, y = good()
    names = {"class_names": ("a", "b", "c")}
    sample, label = x.copy(), y.copy()
    sample[3, 1, 1] += 1
    label[3] = 1
    variants = {
        "unchanged": written(tmp_path / "unchanged", (x, y), **names),
        "sample": written(tmp_path / "sample", (sample, y), **names),
        "class": written(tmp_path / "class", (x, label), **names),
        "order": written(tmp_path / "order", (x[::-1], y[::-1]), **names),
        "scale": written(tmp_path / "scale", (x, y), **names, scale=0.5),
        "names": written(tmp_path / "names", (x, y), class_names=("a", "c", "b")),
        "type": written(tmp_path / "type", (x.astype(np.float64), y), **names),
    }
    assert len({content.checksum for content in variants.values()}) == len(variants)


X, Y = good()
TOKENS = np.zeros((2, 3), np.uint8)
ZEROS = np.zeros((2, 3), int)
IN_TOKENS = {"vocabulary": 12, "target_shape": (3,)}
# Part of the message, samples, classes, what is described.
BAD = [
    ("x has 6 samples but y has 5", X, Y[:5], {}),
    ("not finite", np.where(X == 3, np.nan, X), Y, {}),
    ("not finite", np.where(X == 3, np.inf, X), Y, {}),
    ("not finite", np.where(X == 3, -1e300, X.astype(np.float64)), Y, {}),
    ("x is empty", X[:0], Y[:0], {}),
    ("y holds float64; class numbers are integers", X, Y + 0.0, {}),
    ("y holds float64; class numbers are integers", X, Y + 0.5, {"class_names": ("a", "b", "c")}),
    ("y holds numbers that are not finite", X, np.where(Y == 1, np.nan, Y), {}),
    (r"must be \[n\], one number for each sample", X, np.stack([Y + 0.5] * 2, axis=1), {}),
    (r"y has shape \(6, 3\)", X, np.eye(3, dtype=int)[Y], {}),
    ("y holds -1; classes are numbered from 0", X, Y - 1, {}),
    ("no sample is of class 0", X, Y + 1, {}),
    ("a single class", X, Y * 0, {}),
    ("class numbers reach 1,000 but there are only 6", X, Y * 500, {}),
    ("not a class number", X, Y.astype(np.int64) << 40, {}),
    (r"x has shape \(6,\)", np.zeros(6), Y, {}),
    ("x holds <U1", np.array(list("abcdef")).reshape(6, 1), Y, {}),
    ("x holds object", np.array([None] * 6).reshape(6, 1), Y, {}),
    ("x has masked entries", np.ma.masked_equal(X, 3), Y, {}),
    ("y has masked entries", X, np.ma.masked_equal(Y, 2), {}),
    ("x is a sparse matrix", scipy.sparse.eye(6), Y, {}),
    ("x is a table with columns that are no numbers: b", pandas.DataFrame({"a": Y, "b": "c"}), Y, {}),
    ("x is a table with columns of several types", pandas.DataFrame({"a": Y, "b": Y + 0.5}).convert_dtypes(), Y, {}),
    ("x holds complex128", X.astype(complex), Y, {}),
    ("x is not an array", [[1], [1, 2]], [0, 1], {}),
    ("its samples are empty", np.zeros((6, 0)), Y, {}),
    ("class number 2 in a data set of 2 classes", X, Y, {"class_names": ("a", "b")}),
    ("x holds tokens from 12 to 12; there are 12", TOKENS + 12, ZEROS, IN_TOKENS),
    ("x holds tokens from -1 to -1", TOKENS.astype(np.int8) - 1, ZEROS, IN_TOKENS),
    ("tokens are integers", TOKENS.astype(np.float32), ZEROS, IN_TOKENS),
    (r"needs class numbers of shape \(3,\)", TOKENS, np.zeros((2, 4), int), IN_TOKENS),
    (r"needs class numbers of shape \(3,\)", TOKENS, np.zeros(2, int), IN_TOKENS),
]


def test_what_cannot_be_trained_on_is_refused(tmp_path):
    for message, x, y, described in BAD:
        with pytest.raises(UserError, match=message):
            written(tmp_path, (x, y), **described)


def test_pieces_must_have_one_shape_and_type_and_there_must_be_training_samples(tmp_path):
    for parts, message in (
        ([(X, Y), (X[:, :1], Y)], "others have"),
        ([(X, Y), (X.astype(np.uint8), Y, "validation")], "others have"),
        ([], "no training samples"),
    ):
        with pytest.raises(UserError, match=message):
            written(tmp_path, *parts)


def test_samples_that_are_in_both_parts_are_counted(tmp_path):
    both, one = "2 of 2 validation samples", "1 of 2"
    rows = np.arange(12.0).reshape(6, 2)
    for train, x, words, vocabulary, is_doubted in (
        (X, X[[5, 0]], both, None, True),
        (X, np.stack([X[5], X[0] + 0.5]), one, None, True),
        (X, X + 0.5, "", None, False),
        (X[[0, 0, 1, 2, 3, 4]], X[[1, 2]], both, None, True),
        # Half of what is trained on repeats, and half of what is validated: by nature, in rows of whole numbers alone.
        # Nearly all is a leak.
        (rows[[0, 0, 0, 1, 2, 3]], rows[[1, 5]], one, None, False),
        (rows[[0, 0, 0, 1, 2, 3]] / 7, rows[[1, 5]] / 7, one, None, True),
        (X[[0, 0, 0, 1, 2, 3]], np.stack([X[1], X[0] + 0.5]), one, None, True),
        (rows[[0, 0, 1, 1, 2, 2]], rows[[1, 2]], both, None, True),
        (np.arange(6)[:, None] // 2, np.array([[0], [5]]), one, 6, False),
    ):
        said = []
        with ArrayWriter(tmp_path, said.append) as writer:
            writer.describe(source="a test", vocabulary=vocabulary)
            writer.append(train, Y)
            writer.append(x, Y[[2] * len(x)], "validation")
            content = writer.finish()
        assert bool(content.doubt) == is_doubted, words
        assert ("also training samples" in said[-1], words in said[-1]) == (bool(words), True)


def test_progress_is_reported_with_the_total(tmp_path, monkeypatch):
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
    assert (content.vocabulary, content.arrays["x"].shape, content.arrays["y"].shape) == (12, (8, 3), (8, 3))
    assert np.array_equal(np.load(tmp_path / "y.npy"), y)
    assert len(content.class_names) == 5
    other = written(tmp_path / "other", (x, y), vocabulary=13, target_shape=(3,))
    assert other.checksum != content.checksum


def test_without_tokens_the_checksum_is_that_of_earlier_versions(tmp_path):
    # Written down once: data sets that earlier versions prepared stay valid.
    content = written(tmp_path, good(dtype=np.dtype("uint8")))
    assert content.checksum == "4488365852e6a6fca39365b9d506ee1e6c9d0c33d0e73caeeb6a34a4b40ac6db"
