"""What checks find: a verdict for each host, and the command that mends what is wrong."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a check ends: runs work and mean what they say; they work, with a doubt; or some do not work."""

    PASS = "pass"  # noqa: S105
    WARN = "warn"
    FAIL = "fail"


_ORDER = (Verdict.PASS, Verdict.WARN, Verdict.FAIL)


@dataclass(frozen=True)
class Remark:
    """One thing a check says of a host.

    Attributes:
        verdict: How it ends.
        text: What was found, and why it matters where something is wrong.
        mend: The command that mends it, or that shows where to mend it; empty where nothing is wrong.
    """

    verdict: Verdict
    text: str
    mend: str = ""


@dataclass(frozen=True)
class Finding:
    """A remark, with the host it is about and the check that made it."""

    host: str
    check: str
    remark: Remark


def passed(text: str) -> Remark:
    """Return the remark that all is well."""
    return Remark(Verdict.PASS, text)


def warned(text: str, mend: str) -> Remark:
    """Return the remark that runs work, but are slower or other than they could be."""
    return Remark(Verdict.WARN, text, mend)


def failed(text: str, mend: str) -> Remark:
    """Return the remark that some runs do not work."""
    return Remark(Verdict.FAIL, text, mend)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of some verdicts; of none that all is well."""
    return max(verdicts, key=_ORDER.index, default=Verdict.PASS)
