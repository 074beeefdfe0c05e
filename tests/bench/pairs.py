"""Interleaved turns: two ways of doing the same, A B B A A B B A, so that a drift of the machine falls on both."""

from collections.abc import Callable, Sequence


def turn(sides: Sequence[str], number: int) -> list[str]:
    """Return the order of the sides in turn 0, 1, ...: every second one is backwards.

    Sides that stand beside each other in the sequence are measured one right after the other in every turn.
    """
    return list(sides) if number % 2 == 0 else list(reversed(sides))


def interleaved(sides: dict[str, Callable[[], float]], turns: int) -> dict[str, list[float]]:
    """Measure every side once in each turn; return each side's values by turn."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(turns):
        for name in turn(list(sides), number):
            found[name].append(sides[name]())
    return found
