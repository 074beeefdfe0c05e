import numpy as np
import pytest
from pydantic import ValidationError

from dlbench import plugins
from dlbench.datasets.keras import _words
from dlbench.datasets.keras._words import WordsOptions

TEXTS = [[1, 5, 6, 7, 8], [1, 9], [1], [1, 4, 3]]


def rows(**options: object) -> list[list[int]]:
    found = list(_words._equally_long(TEXTS, WordsOptions(sequence_length=3, num_words=10, **options)))
    return [row for _, piece in found for row in piece.tolist()]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [[6, 7, 8], [0, 1, 9], [0, 0, 1], [1, 4, 3]]),
        ({"padding": "post"}, [[6, 7, 8], [1, 9, 0], [1, 0, 0], [1, 4, 3]]),
        ({"truncating": "post"}, [[1, 5, 6], [0, 1, 9], [0, 0, 1], [1, 4, 3]]),
    ],
)
def test_texts_are_filled_up_and_cut_where_the_options_say(options: dict[str, str], expected: list[list[int]]) -> None:
    assert rows(**options) == expected


def test_pieces_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rows()
    monkeypatch.setattr(_words, "ROWS", 3)
    assert rows() == whole
    starts = [start for start, _ in _words._equally_long(TEXTS, WordsOptions(sequence_length=3))]
    assert starts == [0, 3]


@pytest.mark.parametrize(("num_words", "dtype"), [(256, np.uint8), (10_000, np.uint16), (100_000, np.uint32)])
def test_tokens_are_stored_as_small_as_they_are(num_words: int, dtype: type) -> None:
    ((_, found),) = _words._equally_long(TEXTS, WordsOptions(num_words=num_words))
    assert found.dtype == dtype


@pytest.mark.parametrize(("name", "sizes"), [("imdb", (25_000, 25_000, 2)), ("reuters", (8_982, 2_246, 46))])
def test_texts_are_described_as_tokens(name: str, sizes: tuple[int, int, int]) -> None:
    plugin = plugins.load("datasets", f"keras:{name}")
    found = plugin.get("describe")(plugin.options(num_words=500, sequence_length=40))  # type: ignore[call-arg]
    assert (found.num_train, found.num_validation, found.num_classes) == sizes
    assert (found.input_shape, found.vocabulary, found.target_shape) == ((40,), 500, ())
    with pytest.raises(ValidationError):
        plugin.options(num_words=3)  # type: ignore[call-arg]
