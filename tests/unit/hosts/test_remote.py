"""What a host is asked to run."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dlbench.hosts.remote import argv
from dlbench.scenario.cluster import Cluster, Host

FAR = Host(address="a", slots=1)


def test_a_program_runs_in_the_same_folder_without_it_in_its_search_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / 'it\'s "a" $HOME'
    odd.mkdir()
    monkeypatch.chdir(odd)
    monkeypatch.setattr(sys, "executable", "sh")
    words = argv(Cluster(hosts=(FAR,), ssh="reach"), FAR, ["-c", 'pwd; echo "$PYTHONPATH"; echo "$1"', "", "a 'b'"], {})
    assert words[:2] == ["reach", "a"]
    # As ssh hands it to the user's shell, where that has set the variable.
    program = f"cd /; export PYTHONPATH=:/x:lib; {words[2]}"
    done = subprocess.run(["sh", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str(odd), "/x", "a 'b'"]
    assert shlex.split(words[2])[-1] == "a 'b'"
