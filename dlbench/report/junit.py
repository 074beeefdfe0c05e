"""JUnit XML as the schema of Apache Ant's JUnit task has it, which CI systems show as tests."""

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Literal

from dlbench.analysis.formatting import one_line

# The schema allows no time zone: moments are UTC.
_SECONDS = 19
_UNKNOWN_MOMENT = "1970-01-01T00:00:00"


@dataclass(frozen=True)
class Problem:
    """Why a case did not pass.

    Attributes:
        kind: A `failure` is what was tested for; an `error` or a `skipped` case was not tested.
        type: A word for it.
        message: What happened.
    """

    kind: Literal["failure", "error", "skipped"]
    type: str
    message: str


@dataclass(frozen=True)
class Case:
    """A test case: passed where it has no problem."""

    name: str
    time_s: float = 0.0
    problem: Problem | None = None


@dataclass(frozen=True)
class Suite:
    """Test cases of one name.

    Attributes:
        name: Of the suite, and the class name of its cases.
        cases: In order.
        lines: What was printed: the schema gives a case that passed no place for it.
        hostname: Where it ran.
        moments: Starts in ISO 8601 (UTC), of which the first counts; empty where none is known.
    """

    name: str
    cases: Sequence[Case]
    lines: Sequence[str] = ()
    hostname: str = ""
    moments: Sequence[str] = ()


def document(suites: Iterable[Suite]) -> str:
    """Return test suites as XML; texts are in one line, without characters that XML has no place for."""
    root = ET.Element("testsuites")
    root.extend(_suite(number, suite) for number, suite in enumerate(suites))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "unicode") + "\n"


def _suite(number: int, suite: Suite) -> ET.Element:
    kinds = Counter(case.problem.kind for case in suite.cases if case.problem)
    moment = min(suite.moments, default=_UNKNOWN_MOMENT).replace(" ", "T")[:_SECONDS]
    found = ET.Element("testsuite", name=_text(suite.name), package="dlbench", id=str(number), timestamp=moment)
    found.set("hostname", _text(suite.hostname or "localhost"))
    found.set("tests", str(len(suite.cases)))
    found.set("failures", str(kinds["failure"]))
    found.set("errors", str(kinds["error"]))
    found.set("skipped", str(kinds["skipped"]))
    found.set("time", f"{sum(case.time_s for case in suite.cases):.3f}")
    ET.SubElement(found, "properties")
    names: set[str] = set()
    for case in suite.cases:
        base = _text(case.name)
        # CI systems take cases of one name for one test: the second gets a 2.
        name = next(name for name in chain([base], (f"{base} ({number})" for number in count(2))) if name not in names)
        names.add(name)
        element = ET.SubElement(found, "testcase", name=name, classname=_text(suite.name), time=f"{case.time_s:.3f}")
        if case.problem is not None and case.problem.kind == "skipped":
            ET.SubElement(element, "skipped", message=_text(case.problem.message))
        elif case.problem is not None:
            kind, message = _text(case.problem.type), _text(case.problem.message)
            ET.SubElement(element, case.problem.kind, type=kind, message=message).text = message
    ET.SubElement(found, "system-out").text = "\n".join(map(_text, suite.lines))
    ET.SubElement(found, "system-err")
    return found


def _text(value: str) -> str:
    return "".join(letter for letter in one_line(value) if letter >= " " and letter not in "\ufffe\uffff")
