"""The `exclude` lines that remove exactly the points that cannot be."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*", re.ASCII)
_NOT_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf"}

Chosen = Mapping[str, Any]


def exclude_lines(points: Sequence[Chosen], refused: Sequence[bool]) -> tuple[str, ...]:
    """Return the shortest list, found greedily, of partial points that match all refused points and no other.

    Args:
        points: The value of each axis, as written, of every point of the matrix.
        refused: Whether each of them is to go.
    """
    index = _index(points)
    good = sum(1 << number for number, is_refused in enumerate(refused) if not is_refused)
    left = ((1 << len(points)) - 1) & ~good
    lines = []
    while left:
        first = (left & -left).bit_length() - 1
        partial = _shortened(points[first], index, good)
        left &= ~_matching(partial, index, -1)
        lines.append(f"  - {inline(dict(partial))}")
    return tuple(lines)


def inline(value: Any) -> str:
    """Return a value as YAML on one line, readable back to the same value."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(inline(item) for item in value) + "]"
    if isinstance(value, str) and _WORD.fullmatch(value) and value.lower() not in _NOT_WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)


def _index(points: Sequence[Chosen]) -> dict[tuple[str, str], int]:
    """Return, for each value of each axis, the set of points that have it, as bits."""
    members: dict[tuple[str, str], list[int]] = {}
    for number, point in enumerate(points):
        for key, value in point.items():
            members.setdefault((key, inline(value)), []).append(number)
    return {found: _bits(numbers, len(points)) for found, numbers in members.items()}


def _bits(numbers: list[int], size: int) -> int:
    """Return the integer with these bits set; built as bytes, because adding them up would be quadratic."""
    content = bytearray(size // 8 + 1)
    for number in numbers:
        content[number // 8] |= 1 << number % 8
    return int.from_bytes(content, "little")


def _matching(partial: Chosen, index: Mapping[tuple[str, str], int], start: int) -> int:
    for key, value in partial.items():
        start &= index[key, inline(value)]
    return start


def _shortened(point: Chosen, index: Mapping[tuple[str, str], int], good: int) -> Chosen:
    """Leave out every value without which still no good point matches."""
    partial = dict(point)
    for key in reversed(list(point)):
        fewer = {name: value for name, value in partial.items() if name != key}
        if fewer and not _matching(fewer, index, good):
            partial = fewer
    return partial
