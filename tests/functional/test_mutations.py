"""Some hundred broken files of each kind: each is taken or refused in one clear message, never a traceback.

Thousands are a campaign: `python -m tests.soak mutations`.
"""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dlbench.cli import group
from tests.soak import mutations

NUM_MUTANTS = {"scenarios": 100, "clusters": 300, "hosts": 300, "references": 100, "studies": 4}
NUM_COMMANDS = 20


@pytest.mark.parametrize("subject", mutations.SUBJECTS.values(), ids=str)
def test_the_originals_are_valid(subject: mutations.Subject) -> None:
    # Each file of a study is read within the whole study.
    texts = subject.originals()[: 1 if subject.name == "studies" else None]
    assert {text: subject.outcome(text) for text in texts} == dict.fromkeys(texts, "valid")


@pytest.mark.parametrize(("name", "number"), NUM_MUTANTS.items())
def test_every_mutant_is_taken_or_refused_in_one_message(name: str, number: int) -> None:
    found = mutations.try_all(mutations.SUBJECTS[name], range(number))
    assert found.defects == []
    # Both kinds must be there in number, or the mutations prove nothing.
    assert min(found.number("valid"), found.number("refused")) > number // 20, found.counts


def test_a_defect_is_counted_and_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(mutations, "parse", lambda text, name: {}["no such key"])
    done = CliRunner().invoke(mutations.main, ["--mutants", "3", "--output", str(tmp_path)])
    assert done.exit_code == 1
    assert "mutant 2 (" in (tmp_path / "README.md").read_text()
    assert "| all | 0 | 0 | 3 |" in done.output


def test_the_command_line_ends_with_0_or_2(
    subtests: pytest.Subtests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A module that a scenario names is looked for in the folder of now.
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = tmp_path / "mutant.yaml"
    for number in range(1000, 1000 + NUM_COMMANDS):
        with subtests.test(number=number):
            path.write_bytes(mutations.SUBJECTS["scenarios"].mutant(number)[0].encode(errors="surrogatepass"))
            result = CliRunner().invoke(group, ["check", str(path), "--studies", str(tmp_path / "studies")])
            assert result.exit_code in (0, 2), result.exception
            assert "Traceback" not in result.output
            assert isinstance(result.exception, SystemExit | None)
            if result.exit_code == 2:
                assert result.stderr.startswith("dlbench: ")
                assert str(path) in result.stderr
