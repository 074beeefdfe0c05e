"""Studies that search for what each arm is measured at, made for real: rows, choices, answers, interruptions."""

import json
import signal
import time
from pathlib import Path

import pytest

from dlbench import load_study
from dlbench.study import rounds
from tests.functional.studies import Bench, wait_for

TEXT = """\
name: tuned
base: {trainer: numpy, model: softmax, dataset: digits, train_samples: 480, epochs: 4, strategy: single}
matrix: {batch_size: [16, 256]}
tune: {learning_rate: [0.001, 0.5]}
repeats: 2
"""


@pytest.fixture
def work(tmp_path: Path):
    with Bench(tmp_path) as found:
        yield found


def scenario(work: Bench, text: str = TEXT) -> Path:
    path = work.folder / "tuned.yaml"
    path.write_text(text)
    return path


def rates(rows: list[dict[str, str]], phase: str = "measure") -> dict[str, str]:
    return {row["batch_size"]: row["learning_rate_base"] for row in rows if row["phase"] == phase}


def test_arms_are_measured_at_what_the_search_found_until_decided_and_the_winner_on_fresh_seeds(work, monkeypatch):
    """Rows of the search, and those on fresh seeds, are no results."""
    monkeypatch.setattr(rounds, "ENOUGH_REPEATS", 2)  # that there are more of them is proven in `test_rounds`
    path = scenario(work, TEXT.replace("repeats: 2", "repeats: {min: 3, max: 4, until: decided}"))
    assert "# Runs called `tune` search; then each arm is measured" in work.call(path, "--dry-run")
    done = work.call(path, "--confirm")
    rows = work.rows()
    tried, measured, fresh = ([row for row in rows if row["phase"] == name] for name in ("tune", "measure", "confirm"))
    assert len(tried) == 2 * 2
    assert 6 <= len(measured) <= 8
    assert len(fresh) == 2 * 2
    seeds = [{row["seed"] for row in phase} for phase in (tried, measured, fresh)]
    assert sum(map(len, seeds)) == len(set.union(*seeds))
    for batch, rate in rates(measured).items():
        scores = {row["learning_rate_base"]: float(row["validation_accuracy"]) for row in tried
                  if row["batch_size"] == batch}  # fmt: skip
        assert scores[rate] == max(scores.values())
    assert rates(measured)["256"] == "0.5"
    assert {row["tuned_at_edge"] for row in measured if row["batch_size"] == "256"} == {
        "learning_rate 0.5 is the largest tried"
    }
    assert sum(int(row["epochs"]) for row in tried) <= sum(int(row["epochs"]) for row in measured)
    assert "search for learning_rate: 4 runs of 2 arms" in done
    assert "learning_rate=0.5" in done
    assert "was not tuned" not in done
    assert "3 to 4 repeats of 2 arms will tell times that differ" in done
    assert "once more on fresh seeds: " in done
    with (work.study() / "summary.csv").open() as file:
        assert len(file.readlines()) == 1 + len(measured)
    shown = json.loads(work.call(work.study(), "--json", command="show"))
    assert len(shown["arms"]) == 2
    titles = {arm["title"] for answer in shown["answers"] for arm in answer["arms"]}
    assert {"batch 256, learning_rate=0.5"} < titles
    assert "learning_rate" in load_study(work.study()).arms
    work.call(path, "--resume", "--confirm")
    assert len(work.rows()) == len(rows)


@pytest.mark.soak  # what is missing is made by `--resume`, whatever the phase
def test_a_search_that_was_killed_goes_on_to_the_same_choice(work, tmp_path: Path):
    text = TEXT.replace("[16, 256]", "[256]")
    path = scenario(work, text)
    with work.start(path, "--repeats", "1") as process:
        wait_for(process, lambda: len(list(work.folder.glob("studies/*/runs/*/1/outcome.json"))) >= 2)
        process.send_signal(signal.SIGKILL)
    work.call(path, "--resume", "--repeats", "1")
    other = tmp_path / "other"
    other.mkdir()
    with Bench(other) as whole:
        whole.call(scenario(whole, text), "--repeats", "1")
        assert {row["run_id"] for row in work.rows()} == {row["run_id"] for row in whole.rows()}
        assert rates(work.rows()) == rates(whole.rows())
    last = {row["run_id"]: row["status"] for row in work.rows()}
    assert set(last.values()) == {"completed"}
    before = work.rows()
    work.call(path, "--resume", "--repeats", "2")
    assert len(work.rows()) == len(before) + 1, "more repeats need no other search"
    assert rates(work.rows()) == rates(before)


def test_a_rate_that_diverges_costs_the_study_nothing(work):
    text = TEXT.replace("0.001, 0.5", "0.03, 1e+6").replace("trainer: numpy", "trainer: numpy, momentum: 0.9")
    text = text.replace("[16, 256]", "[16]")
    done = work.call(scenario(work, text), "--repeats", "1")
    assert set(rates(work.rows()).values()) == {"0.03"}
    assert "not completed" not in done


# What a budget has room for depends on what else computes at the same time.
@pytest.mark.alone
def test_a_budget_ends_a_study_in_time_and_its_answer_says_what_is_open(work):
    text = TEXT.replace("epochs: 4", "epochs: 40").replace("tune: {learning_rate: [0.001, 0.5]}\n", "")
    path = scenario(work, text.replace("repeats: 2", "repeats: 50").replace("[16, 256]", "[32, 33]"))
    begun = time.monotonic()
    said = work.call(path, "--budget", "15s")
    assert time.monotonic() - begun < 15 + 10, "start, results and answer are in no budget"
    assert "the budget is spent; continue with: dlbench run --study" in said
    rows = work.rows()
    assert 0 < len(rows) < 100
    assert {row["repeats_rule"] for row in rows} == {"until decided: 3 to 50"}
    assert {row["status"] for row in rows} <= {"completed", "interrupted"}
    assert "Answer: " in said


@pytest.mark.soak  # unit tests of rounds prove which arms are searched, and the test above that a budget ends a study
@pytest.mark.alone
def test_a_budget_that_has_no_room_for_all_searches_measures_the_arms_that_it_has(work):
    text = TEXT.replace("[16, 256]", "[12, 16, 24, 32, 48, 64]")
    said = work.call(scenario(work, text), "--budget", "9s")
    measured = {row["label"] for row in work.rows() if row["phase"] == "measure" and row["status"] == "completed"}
    assert measured, "a search alone answers nothing"
    assert "Answer" in said
    assert "continue with: dlbench run --study" in said
