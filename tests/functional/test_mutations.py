"""A few hundred broken scenarios: each is a valid plan or one clear message, never a traceback.

Thousands are a campaign: `python -m tests.soak mutations`.
"""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dlbench.cli import group
from tests.soak import mutations

NUM_MUTANTS = 300
NUM_COMMANDS = 20


def test_the_originals_are_valid() -> None:
    assert [mutations.outcome(text) for text in mutations.originals()] == ["valid"] * len(mutations.originals())


def test_every_mutant_is_a_plan_or_one_message() -> None:
    found = mutations.try_all(range(NUM_MUTANTS))
    assert found.defects == []
    # Both kinds must be there in number, or the mutations prove nothing.
    assert min(found.number("valid"), found.number("refused")) > NUM_MUTANTS // 20, found.counts


def test_a_defect_is_counted_and_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(mutations, "parse", lambda text, name: {}["no such key"])
    done = CliRunner().invoke(mutations.main, ["--mutants", "3", "--output", str(tmp_path)])
    assert done.exit_code == 1
    assert "mutant 2 (" in (tmp_path / "README.md").read_text()
    assert "| all | 0 | 0 | 3 |" in done.output


def test_the_command_line_ends_with_0_or_2(
    subtests: pytest.Subtests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The command line adds the folder it is started in.
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = tmp_path / "mutant.yaml"
    for number in range(NUM_MUTANTS, NUM_MUTANTS + NUM_COMMANDS):
        with subtests.test(number=number):
            path.write_bytes(mutations.mutant(number)[0].encode(errors="surrogatepass"))
            result = CliRunner().invoke(group, ["check", str(path), "--studies", str(tmp_path / "studies")])
            assert result.exit_code in (0, 2), result.exception
            assert "Traceback" not in result.output
            assert isinstance(result.exception, SystemExit | None)
            if result.exit_code == 2:
                assert result.stderr.startswith("dlbench: ")
                assert str(path) in result.stderr
