"""How numbers, intervals, differences and names are written, everywhere: plain text in one line, three digits."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dlbench.analysis.statistics.intervals import Interval
from dlbench.errors import shorten, spelled
from dlbench.scenario.metrics import MFU, Metric

# Names in one sentence; more are counted.
MOST_NAMES = 4


@dataclass(frozen=True)
class Unit:
    """How values of one kind are written, and what follows the number."""

    written: Callable[[float], str]
    suffix: str = ""

    def shown(self, value: float) -> str:
        """Return a value with its unit."""
        return self.written(value) + self.suffix

    def with_ends(self, interval: Interval) -> str:
        """Return a median or ratio with its interval, such as `41.4 s [39.9, 42.7]`."""
        if interval.low is None or interval.high is None:
            return self.shown(interval.value)
        return f"{self.shown(interval.value)} [{self.written(interval.low)}, {self.written(interval.high)}]"

    def with_margin(self, interval: Interval) -> str:
        """Return a median or ratio with how far its interval goes at most, such as `41.4 s ±4%`."""
        if interval.low is None or interval.high is None or not interval.value:
            return self.shown(interval.value)
        farther = max(interval.high - interval.value, interval.value - interval.low) / abs(interval.value)
        # Rounded up, so that no interval looks narrower than it is.
        tenths, whole = (math.ceil(parts * farther - 1e-9) for parts in (1000, 100))
        return f"{self.shown(interval.value)} ±{tenths / 10 if tenths < 10 else whole}%"


def number(value: float) -> str:
    """Return what was measured or counted: `0.000972`, `1.00`, `12.3` in three digits, `8`, `1,121,092` in full."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "infinite" if value > 0 else "-infinite"
    return chosen(value + 0.0) if value == round(value) or abs(value) >= 99.95 else f"{value:#.3g}"


def chosen(value: float) -> str:
    """Return what somebody chose, a setting or a tick: the same digits without zeros at the end."""
    return f"{value:,.0f}" if 99.95 <= abs(value) < 1e9 else f"{value:.3g}"


def accuracy(value: float) -> str:
    """Return an accuracy: three digits after the point."""
    return f"{value:.3f}"


def rounded(value: float) -> str:
    """Return a number with two digits and an SI prefix, such as `2.0 M`, for what is known no better."""
    for size, prefix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= 0.995 * size:
            scaled = value / size
            return f"{scaled:.1f}{prefix}" if abs(scaled) < 9.95 else f"{float(f'{scaled:.2g}'):.0f}{prefix}"
    return f"{value:.2g}" if abs(value) < 99.5 else f"{float(f'{value:.2g}'):.0f}"


def percent(value: float) -> str:
    """Return a share in percent: below 10% with one digit after the point."""
    return f"{100 * value:.1f}%" if 0 < abs(value) < 0.0995 else f"{100 * value:.0f}%"


def unit_of(metric: Metric) -> Unit:
    """Return how values of a metric are written."""
    if metric.score == "accuracy":
        return Unit(accuracy)
    if metric is MFU:
        return Unit(percent)
    return Unit(number, f" {metric.unit}" if metric.unit else "")


def quantity(metric: Metric, value: float) -> str:
    """Return a value of a metric with its unit."""
    return unit_of(metric).shown(value)


# Units of differences of ratios, and of shares such as accuracies.
SHARES, POINTS = " %", " points"
# Larger shares say no more than that they are larger.
MOST_SHARE = 10.0


def difference(metric: Metric, value: float, *, signed: bool = True, with_unit: bool = True) -> str:
    """Return a difference of a metric: accuracies in points, shares in percent, others in the metric's unit.

    Args:
        metric: The metric.
        value: The difference.
        signed: Whether a plus stands before what is above 0.
        with_unit: Whether points or the unit are written; percent always are.
    """
    unit = SHARES if metric.is_share else POINTS if metric.score == "accuracy" else metric.unit
    text = change(value, unit, "+" if signed else "")
    return text if with_unit else text.partition(" ")[0]


def change(value: float, unit: str, sign: str = "+") -> str:
    """Return a difference in a unit; of shares in percent, of what is read in percent in points."""
    if unit not in (SHARES, POINTS):
        return f"{value:{sign}.3g} {unit}".rstrip()
    if unit == SHARES and abs(value) > MOST_SHARE:
        return f"{'<' if value < 0 else '>'}{math.copysign(100 * MOST_SHARE, value):{sign},.0f}%"
    text = f"{100 * value:{sign}.{1 if abs(value) < 0.0995 else 0}f}".removesuffix(".0")
    text = "0" if text in ("-0", "+0") else text
    return f"{text}%" if unit == SHARES else f"{text} point{'' if text.lstrip('+-') == '1' else 's'}"


def duration(seconds: float | None) -> str:
    """Return a time such as `0.4 s`, `42 s`, `3 min 20 s`, `1 h 02 min`; empty where it is not known."""
    if seconds is None:
        return ""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, left = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {left:02d} s" if minutes else f"{left} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def readable(text: str) -> str:
    """Return a text with its control characters spelled out, as on a terminal; a carriage return ends a line."""
    return spelled(text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: object, most: int | None = None) -> str:
    """Return a readable text on one line, cut in the middle where it is longer than about `most` letters."""
    line = " ".join(readable(str(text)).split())
    return line if most is None else shorten(line, most)


def joined(*parts: object, sep: str = ", ") -> str:
    """Return the parts that are neither empty nor None, joined."""
    return sep.join(str(part) for part in parts if part)


def counted(count: int, noun: str) -> str:
    """Return a number and what is counted: `1 run`, `2 runs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(names: Iterable[str], most: int = MOST_NAMES, separator: str = ", ") -> str:
    """Return names for a sentence: the first few, and how many more. Names that hold commas need semicolons."""
    texts = list(names)
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return separator.join(texts[:most]) + more


def chance(p: float) -> str:
    """Return a p-value as papers write it, `p = 0.012`."""
    written = p_value(p)
    return f"p {written}" if written.startswith("<") else f"p = {written}"


def p_value(p: float) -> str:
    """Return a p-value, smaller ones as `< 0.001`: few repeats show little of a distribution's tails."""
    return "< 0.001" if p < 0.001 else f"{p:.2g}"
