"""Numbers with units in scenarios: a setting whose name ends in its unit takes `5m` or `4GiB`, too."""

import math
import re
from decimal import Decimal

_TIMES = {"ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
_RATES = {f"{unit}/s": size for unit, size in _SIZES.items()} | {"kbit/s": 125, "Mbit/s": 125e3, "Gbit/s": 125e6}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?) ?([A-Za-z/]+)", re.ASCII)


def units_of(key: str) -> str:
    """Return the units that a setting takes, with an example; empty where its name ends in none."""
    return ", ".join(f"`4{unit}`" for unit in _units(key))


def pattern_of(key: str) -> str:
    """Return the regular expression of the texts with a unit that a setting takes; empty where it takes none."""
    units = _units(key)
    return rf"^\s*{_NUMBER.pattern.partition(' ?')[0]} ?({'|'.join(units)})\s*$" if units else ""


def _units(key: str) -> dict[str, float]:
    if key.endswith("_bytes_per_s"):
        return _RATES
    if key.endswith("_bytes"):
        return _SIZES
    return _TIMES if key.endswith("_s") and not key.endswith("_per_s") else {}


def in_unit_of(key: str, text: str) -> float | str:
    """Return a text with a unit that its key takes as a number in the key's own unit; any other text as it is."""
    match, units = _NUMBER.fullmatch(text.strip()), _units(key)
    if not match or match[2] not in units:
        return text
    # Exactly: 4.1 GB are 4,100,000,000 bytes, which they are not in binary fractions.
    number = Decimal(match[1]) * Decimal(str(units[match[2]]))
    if not math.isfinite(float(number)):
        return text
    return int(number) if number == number.to_integral_value() else float(number)
