from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from dlbench.datasets import text
from dlbench.datasets._split import split
from dlbench.errors import UserError

POEM = "To be, or not to be, that is the question:\n" * 10


@pytest.fixture
def poem(tmp_path):
    path = tmp_path / "시 a poem.txt"
    path.write_text(POEM, encoding="utf-8-sig")
    return str(path)


def letters(arrays, tokens):
    return "".join(arrays.class_names[token] for token in tokens)


def test_each_position_is_followed_by_its_class(prepared, poem):
    arrays = prepared.arrays("text", path=poem, sequence_length=20)
    border = len(POEM) - round(len(POEM) * 0.1)
    assert arrays.target_shape == (20,) == arrays.input_shape
    assert arrays.vocabulary == arrays.num_classes == len(set(POEM[:border]))
    assert arrays.x.dtype == np.uint8
    for row in range(len(arrays.x)):
        assert letters(arrays, arrays.x[row]) == POEM[row * 20 : row * 20 + 20]
        assert letters(arrays, arrays.y[row]) == POEM[row * 20 + 1 : row * 20 + 21]
    assert len(arrays.x) == (border - 1) // 20


def test_the_next_character_is_the_class_of_the_whole(prepared, poem):
    arrays = prepared.arrays("text", path=poem, sequence_length=7, predict="next", stride=3)
    assert arrays.target_shape == ()
    for row in (0, 1, 11):
        assert letters(arrays, arrays.x[row]) == POEM[row * 3 : row * 3 + 7]
        assert arrays.class_names[arrays.y[row]] == POEM[row * 3 + 7]
    # By default each character is predicted once.
    following = prepared.arrays("text", path=poem, sequence_length=7, predict="next")
    assert letters(following, following.y) == POEM[7 : len(POEM) - round(len(POEM) * 0.1)]


def test_validation_is_the_end_and_no_sample_straddles_the_border(prepared, tmp_path):
    path = tmp_path / "numbers.txt"
    path.write_text("".join(chr(0x4E00 + i) for i in range(1000)), encoding="utf-8")
    options = {"path": str(path), "sequence_length": 10, "predict": "next", "validation_share": 0.2}
    arrays = prepared.arrays("text", **options)
    # Every character is of its own, so those of the end were never seen in training: they are the unknown.
    assert arrays.class_names[-1] == text.UNKNOWN
    assert (arrays.num_classes, len(arrays.x)) == (801, 790)
    assert letters(arrays, arrays.x[-1]) + arrays.class_names[arrays.y[-1]] == path.read_text()[789:800]
    assert np.all(arrays.validation_x == 800)
    assert len(arrays.validation_x) == 190
    assert split(arrays, 0, 0.5).validation_part == "validation"


def test_it_is_as_described(prepared, poem):
    assert Path(poem).read_bytes().startswith(b"\xef\xbb\xbf")  # a mark that is no character
    for predict, stride in (("every", None), ("every", 4), ("next", None), ("next", 4)):
        options = {"path": poem, "sequence_length": 13, "predict": predict, "stride": stride, "lower_case": True}
        arrays, described = prepared.arrays("text", **options), text.describe(text.OPTIONS(**options))
        assert arrays.x.shape == (described.num_train, *described.input_shape)
        assert arrays.y.shape == (described.num_train, *described.target_shape)
        assert len(arrays.validation_x) == described.num_validation
        assert (arrays.num_classes, arrays.vocabulary) == (described.num_classes, described.vocabulary)
        assert {"t", "T"} & {*arrays.class_names} == {"t"}


def test_rare_characters_become_one(prepared, tmp_path):
    path = tmp_path / "rare.txt"
    path.write_text("ab" * 50 + "xyz" + "ab" * 50)
    entry = prepared.entry("text", path=str(path), sequence_length=5, min_count=2)
    assert entry.meta.content.class_names == ("a", "b", text.UNKNOWN)
    assert "3 characters became the unknown" in entry.meta.content.notes["vocabulary"]
    assert "last part" in entry.meta.content.notes["validation"]


def test_pieces_of_a_text_are_counted_together(monkeypatch, poem):
    codes = text.read_codes(poem, "character", lower_case=False)
    whole = text.number(codes, 300, "character", 11)
    monkeypatch.setattr(text, "PIECE", 7)
    pieces = text.number(codes, 300, "character", 11)
    assert (whole.names, whole.num_unknown) == (pieces.names, pieces.num_unknown)
    assert np.array_equal(whole.parts["train"], pieces.parts["train"])
    assert whole.num_unknown == sum(POEM.count(one) for one in set(POEM) if POEM[:300].count(one) < 11) > 0


def test_bytes_of_any_file_are_tokens(prepared, tmp_path):
    path = tmp_path / "any"
    path.write_bytes(bytes(range(256)) * 8)
    arrays = prepared.arrays("text", path=str(path), sequence_length=16, unit="byte")
    assert (arrays.num_classes, arrays.x.dtype) == (256, np.uint8)
    assert arrays.x[0].tolist() == list(range(16))
    assert arrays.class_names[255] == "0xff"


def test_the_same_text_elsewhere_is_the_same_data_set(prepared, poem, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text(POEM, encoding="utf-8-sig")
    first, second = (prepared.entry("text", path=path, sequence_length=8) for path in (poem, str(other)))
    assert first == second
    other.write_text(POEM + "!", encoding="utf-8")
    assert prepared.entry("text", path=str(other), sequence_length=8).folder != first.folder


UNUSABLE = [
    (None, {}, "does not exist"),
    (b"", {}, "is empty"),
    (b"a line\nabc\xff def", {}, r"is not UTF-8: byte 10 \(line 2\) is 0xff"),
    (b"abc" * 30, {}, "too short: its training part has 81 characters, and one sample takes 101"),
    (b"abc" * 100, {}, "too short: its validation part has 30 characters, and one sample takes 101"),
    (b"a" * 300, {"sequence_length": 5}, "single class"),
]


def test_a_text_that_cannot_be_used_is_refused_at_once(tmp_path):
    with pytest.raises(ValidationError, match="it skips text"):
        text.OPTIONS(path="x", sequence_length=10, stride=11)
    path = tmp_path / "text.txt"
    for content, options, message in UNUSABLE:
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(UserError, match=message):
            text.describe(text.OPTIONS(path=str(path), **options))


def test_what_is_no_file_or_too_large_is_refused(tmp_path, monkeypatch, poem):
    monkeypatch.setattr(text, "MAX_BYTES", 10)
    for path, message in (
        (str(tmp_path), "is not a file"),
        ("~nobody-of-this-name/x", "home directory"),
        ("a\x00b", "does not exist"),
        (poem, "the limit"),
    ):
        with pytest.raises(UserError, match=message):
            text.describe(text.OPTIONS(path=path))
