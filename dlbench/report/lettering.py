"""Text as it is set in pictures: how wide it is, where its lines break, what is cut away."""

import contextlib
import functools
import unicodedata
import warnings
from collections.abc import Iterator

from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.textpath import text_to_path

from dlbench.report.written import one_line

FAMILY = "DejaVu Sans"
# For letters that it lacks, the first of them that is installed: Korean, Chinese and Japanese.
OTHERS = ("Noto Sans CJK KR", "Noto Sans KR", "NanumGothic", "Nanum Gothic", "Malgun Gothic", "Apple SD Gothic Neo")
# Hinting makes a letter up to this much wider on a screen than it is on paper.
HINTING = 1.03
ELLIPSIS = "…"
# A text longer than this is cut before it is measured letter by letter.
MOST_LETTERS = 2_000
Weight = str


@functools.cache
def families() -> tuple[str, ...]:
    """Return the families that text is set in: one that always comes along, then what this machine has."""
    installed = set(fontManager.get_font_names())
    return (FAMILY, *[name for name in OTHERS if name in installed][:1], "sans-serif")


@contextlib.contextmanager
def without_glyph_warnings() -> Iterator[None]:
    """Set letters that no font has as empty boxes without saying so each time."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+ ", category=UserWarning)
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support", category=UserWarning)
        yield


@functools.lru_cache(maxsize=8192)
def width(text: str, size_pt: float, weight: Weight = "normal") -> float:
    """Return how wide one line of text is at most, in points.

    Letters as wide as they are high (Korean and others) count with their height: a browser may have another font.
    """
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    narrow = "".join(letter for letter in text if unicodedata.east_asian_width(letter) not in "WF")
    if not narrow:
        return wide * size_pt
    font = FontProperties(family=list(families()), size=size_pt, weight=weight)
    with without_glyph_warnings():
        measured = float(text_to_path.get_text_width_height_descent(narrow, font, False)[0])
    return measured * HINTING + wide * size_pt


def cut(text: str, most_pt: float, size_pt: float, weight: Weight = "normal") -> str:
    """Return a text on one line, with its middle left out where it is wider than `most_pt`."""
    line = one_line(text, MOST_LETTERS)
    if width(line, size_pt, weight) <= most_pt:
        return line
    low, high = 0, len(line)
    while low < high:
        kept = (low + high + 1) // 2
        low, high = (kept, high) if width(_shortened(line, kept), size_pt, weight) <= most_pt else (low, kept - 1)
    return _shortened(line, low)


def wrapped(text: str, most_pt: float, size_pt: float, *, most_lines: int = 0, weight: Weight = "normal") -> str:
    """Return a text in lines that are no wider than `most_pt`, words whole where they fit.

    Args:
        text: Its own line ends are kept.
        most_pt: Width in points.
        size_pt: Size of the letters in points.
        most_lines: What is beyond is cut; 0 keeps all.
        weight: `normal` or `bold`.
    """
    lines = [line for part in text.split("\n") for line in _lines(one_line(part, 20_000), most_pt, size_pt, weight)]
    if most_lines and len(lines) > most_lines:
        rest = " ".join(lines[most_lines - 1 :])
        lines = [*lines[: most_lines - 1], _begun(rest, most_pt, size_pt, weight)]
    return "\n".join(lines)


def _lines(text: str, most_pt: float, size_pt: float, weight: Weight) -> list[str]:
    lines: list[str] = []
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines else word
        if lines and width(joined, size_pt, weight) <= most_pt:
            lines[-1] = joined
        else:
            lines += _pieces(word, most_pt, size_pt, weight)
    return lines


def _pieces(word: str, most_pt: float, size_pt: float, weight: Weight) -> list[str]:
    """Cut a word that is wider than a line into pieces that are not."""
    pieces = []
    while width(word, size_pt, weight) > most_pt and len(word) > 1:
        fitting = _num_fitting(word, most_pt, size_pt, weight)
        pieces.append(word[:fitting])
        word = word[fitting:]
    return [*pieces, word]


def _begun(text: str, most_pt: float, size_pt: float, weight: Weight) -> str:
    """Return the beginning of a text that is too long for one line, with an ellipsis."""
    return text[: _num_fitting(text, most_pt - width(ELLIPSIS, size_pt, weight), size_pt, weight)].rstrip() + ELLIPSIS


def _num_fitting(text: str, most_pt: float, size_pt: float, weight: Weight) -> int:
    """Return how many letters fit, at least one."""
    low, high = 1, len(text)
    while low < high:
        kept = (low + high + 1) // 2
        low, high = (kept, high) if width(text[:kept], size_pt, weight) <= most_pt else (low, kept - 1)
    return low


def _shortened(line: str, kept: int) -> str:
    if kept >= len(line):
        return line
    end = kept // 3
    return line[: kept - end] + ELLIPSIS + (line[-end:] if end else "")
