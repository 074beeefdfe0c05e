"""Where an axis begins and ends, where its ticks are and what stands at them; pure numbers and text."""

import math
from collections.abc import Callable, Iterable, Sequence

from dlbench.report.chart import Axis, Scale

# Free room beyond the outermost values, as a share of the axis.
ROOM = 0.06
# Values that differ by less, as a share of themselves, are drawn as equal ones.
EQUAL = 1e-9
# What can be drawn: beyond, sums and powers of floats overflow.
SMALLEST, LARGEST = 1e-300, 1e300
# As many ticks as an axis has where the values themselves are none.
MOST_TICKS = 6
# What a percent axis shows where it does not say otherwise.
PERCENT = (0.0, 1.1)
BASES = {"log2": 2, "log10": 10}
MEBI = 2**20


def can_show(value: float, scale: Scale) -> bool:
    """Whether a number has a place on a scale: finite, and above zero where it is logarithmic."""
    if not math.isfinite(value) or abs(value) > LARGEST:
        return False
    return scale == "linear" or value > SMALLEST


def forward(scale: Scale) -> Callable[[float], float]:
    """Return what turns a value into its place on the axis, up to a factor."""
    if scale == "linear":
        return float
    return math.log2 if scale == "log2" else math.log10


def backward(scale: Scale) -> Callable[[float], float]:
    """Return the inverse of `forward`, within what a float can hold."""
    if scale == "linear":
        return float
    base, most = (2.0, 1000.0) if scale == "log2" else (10.0, 301.0)
    return lambda place: float(base ** min(max(place, -most), most))


def limits(axis: Axis, values: Iterable[float], *, strip: float = 0.0) -> tuple[float, float]:
    """Return the ends of an axis: all values lie between them, and so do its own `low` and `high`.

    Args:
        axis: A percent axis shows 0 to 110% where it does not say otherwise.
        values: Those that cannot be shown do not count.
        strip: Room to keep free below all values, as a share of the axis.
    """
    place = forward(axis.scale)
    known = [place(value) for value in values if can_show(value, axis.scale)]
    asked = [place(value) for value in _asked(axis) if value is not None and can_show(value, axis.scale)]
    if not known and len(asked) < 2:
        known = [1.0 + sum(asked)]
        asked = asked or [0.0]
    low, high = _apart(min(known + asked), max(known + asked), axis.scale)
    room = ROOM * (high - low)
    below = 0.0 if low in asked and low not in known else room
    above = 0.0 if high in asked and high not in known else room
    value = backward(axis.scale)
    return value(low - max(below, strip * (high - low))), value(high + above)


def _asked(axis: Axis) -> tuple[float | None, float | None]:
    if axis.percent:
        return PERCENT[0] if axis.low is None else axis.low, PERCENT[1] if axis.high is None else axis.high
    return axis.low, axis.high


def _apart(low: float, high: float, scale: Scale) -> tuple[float, float]:
    """Widen an axis on which everything has one value."""
    size = max(abs(low), abs(high), 0.0 if scale == "linear" else 1.0)
    if high - low > max(EQUAL * size, SMALLEST):
        return low, high
    margin = {"log2": 1.0, "log10": 0.3}.get(scale) or 0.1 * abs(low) or 0.5
    return low - margin, high + margin


def ticks(axis: Axis, low: float, high: float, most: int = MOST_TICKS) -> tuple[float, ...]:
    """Return round numbers between the ends of an axis: powers on a logarithmic one, if there are two at least."""
    if axis.scale == "linear":
        return even_ticks(low, high, most)
    base = BASES[axis.scale]
    place = forward(axis.scale)
    first, last = math.ceil(place(low) - EQUAL), math.floor(place(high) + EQUAL)
    if last > first:
        step = math.ceil((last - first + 1) / most)
        return tuple(float(base) ** power for power in range(math.ceil(first / step) * step, last + 1, step))
    powers = range(first - 1, last + 2) if base == 10 else ()
    parts = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    within = tuple(value for value in parts if low <= value <= high)
    return within if len(within) > 1 else even_ticks(low, high, most)


def even_ticks(low: float, high: float, most: int = MOST_TICKS) -> tuple[float, ...]:
    """Return multiples of 1, 2 or 5 times a power of ten between two numbers, at most about `most`."""
    span = high - low
    if not span > 0:
        return (low,)
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if span / (power * factor) <= most)
    first, last = math.ceil(low / step - EQUAL), math.floor(high / step + EQUAL)
    return tuple(float(f"{number * step:.15g}") for number in range(first, last + 1))


def by_weight(values: Sequence[float], scale: Scale) -> list[int]:
    """Return the numbers of values, those first that a reader would miss most at the axis.

    On a scale of powers these are the powers; then the smallest and the largest; then the larger ones, because it is
    the smaller ones that stand close on a linear scale.
    """

    def rank(number: int) -> tuple[bool, bool, float]:
        value = values[number]
        is_power = scale in BASES and value > 0 and forward(scale)(value).is_integer()
        return not is_power, number not in (0, len(values) - 1), -value

    return sorted(range(len(values)), key=rank)


def without_overlap(
    places: Sequence[float], widths: Sequence[float], order: Iterable[int], gap: float
) -> tuple[int, ...]:
    """Return the numbers of the labels that can stand beside each other, taken in this order.

    Args:
        places: Middle of each label.
        widths: Its width, in the same unit.
        order: Numbers of labels, the most important first.
        gap: Least room between two.
    """
    kept: list[int] = []
    for number in order:
        room = [abs(places[number] - places[other]) - (widths[number] + widths[other]) / 2 for other in kept]
        if min(room, default=gap) >= gap:
            kept.append(number)
    return tuple(sorted(kept))


def labels(values: Sequence[float], *, percent: bool = False) -> list[str]:
    """Return numbers as they stand at ticks: with as few digits as tell them apart."""
    if percent:
        return [f"{text}%" for text in labels([100 * value for value in values])]
    floats, texts = [float(value) for value in values], list[str]()
    for digits in range(6, 18):
        texts = [_written(value, digits, is_plain=max(map(abs, floats), default=0.0) < 1e7) for value in floats]
        if len(set(texts)) == len(set(values)):
            break
    return texts


def brief(value: float, *, percent: bool = False) -> str:
    """Return a number in three digits, for a cell of a map: `0.85`, `12.3`, `1234`, `1.23e6`, `85%`."""
    if not math.isfinite(value):
        return "-"
    if percent:
        return f"{brief(100 * value)}%"
    if 999.5 <= abs(value) < 999_999.5:
        return f"{value:.0f}"
    return _short_exponent(f"{value:.3g}")


def _written(value: float, digits: int, *, is_plain: bool) -> str:
    if value and value % MEBI == 0 and math.log2(abs(value)).is_integer():
        return _binary(value)
    text = _short_exponent(f"{value:.{digits}g}")
    is_exact = abs(value) >= 1e15 or float(text) == value
    return f"{value:.0f}" if value.is_integer() and (is_plain or not is_exact) else text


def _binary(value: float) -> str:
    """Write a power of two from 2**20 with a binary prefix (IEC 80000-13), such as `256Mi`; from 2**70 as a power."""
    power = round(math.log2(abs(value)))
    if power >= 70:
        return f"{'-' if value < 0 else ''}2^{power}"
    return f"{value / 2 ** (power // 10 * 10):.0f}{'KMGTPE'[power // 10 - 1]}i"


def _short_exponent(text: str) -> str:
    """Write `1.50e+06` as `1.5e6`, and what has no exponent as it is."""
    digits, mark, exponent = text.partition("e")
    if not mark:
        return digits
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    return f"{digits}e{int(exponent)}"
