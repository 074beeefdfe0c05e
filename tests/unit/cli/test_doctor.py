"""How `dlbench doctor` shows what was found."""

import json

import pytest

from dlbench.cli.doctor import _as_json, _problems, _show, _turned
from dlbench.hosts.doctor.checks import NAMES, examine
from dlbench.hosts.links import BrokenLink, LinkMeasurement
from tests.unit.hosts.doctor.reports import two

LINK = LinkMeasurement(0, 1, 3e-5, 1.2e9, "eth0", "eth1")


def test_a_table_the_links_and_a_sum(capsys: pytest.CaptureFixture[str]) -> None:
    found = two(links=(LINK,))
    _show(found, examine(found))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["host", *NAMES]
    assert lines[1:3] == [[name, *["pass"] * len(NAMES)] for name in "ab"]
    assert " ".join(lines[5]) == "a - b 9.6 Gbit/s 0.030 ms eth0 - eth1"
    assert " ".join(lines[-1]) == f"{2 * len(NAMES)} passed, 0 warned, 0 failed"


def test_a_narrow_terminal_has_a_line_for_each_check(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ["host", "reached", "mpi"], [["a", "pass", "warn"], ["b", "pass", "fail"]]
    turned = ["check", "a", "b"], [["reached", "pass", "pass"], ["mpi", "warn", "fail"]]
    assert _turned(*table) == table, "not in a pipe"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "22")
    assert _turned(*table) == turned
    monkeypatch.setenv("COLUMNS", "24")
    assert _turned(*table) == table


def test_what_is_not_known_is_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    found = two(problem="cannot be reached: ssh: down")
    _show(found, examine(found))
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["b", "fail", *["-"] * (len(lines[0].split()) - 2)]
    assert "fail  b  reached: cannot be reached: ssh: down\n      fix: ssh -v b true" in "\n".join(lines)


def test_a_problem_of_two_hosts_is_said_once_and_failures_first() -> None:
    answer = {"variables": {"OMP_NUM_THREADS": "1"}}
    found = two(answer=answer, links=(BrokenLink(0, 1, "a calls 10.0.0.1 port 4: a: timed out"),))
    problems = list(_problems(examine(found)))
    assert [text.split()[0] for text in problems] == ["fail", "warn"]
    assert problems[0].startswith("fail  a, b  links: a and b cannot connect")


def test_json_has_everything() -> None:
    found = two(answer={"cores": [0]}, links=(LINK,))
    found_json = json.loads(_as_json(found, examine(found)))
    assert found_json["hosts"] == ["a", "b"]
    (link,) = found_json["links"]
    assert (link["a"], link["b"], link["interface_b"], link["bandwidth_bytes_per_s"]) == ("a", "b", "eth1", 1.2e9)
    (slots,) = (finding for finding in found_json["findings"] if finding["verdict"] == "warn")
    assert (slots["host"], slots["check"], slots["fix"]) == ("b", "slots", "--hosts a:2,b:1")
