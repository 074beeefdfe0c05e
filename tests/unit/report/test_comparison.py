import csv as csv_module
import io
import re

import pytest

from dlbench.analysis.compare.comparison import compare
from dlbench.cli.tables import plain
from dlbench.report import comparison
from tests.unit.analysis.made import arm, failed, measured, noisy, read

HOSTILE = "<script>alert(1)</script>|\n`code` $x_1$ *b* _i_ [l](http://a) @team #12 학습 &amp; \\"


def slower():
    base = read(measured("a", 9.0, 1, label="batch_size=8"), measured("b", 5.0, 2, batch_size=64, label=HOSTILE))
    new = read(measured("a", 11.0, 3, label="batch_size=8"), measured("b", 5.0, 4, batch_size=64, label=HOSTILE))
    return compare(base, new)


def rows_of(found) -> list[dict[str, str]]:
    return list(csv_module.DictReader(io.StringIO(comparison.csv(found), newline="")))


def test_markdown_begins_with_the_verdict_folds_the_rest_and_mentions_nobody():
    text = comparison.markdown(slower())
    assert text.startswith("**dlbench: 2 worse, 2 cannot be told**\n")
    in_the_open = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    for there in (
        "| worse | batch_size=8 | training time, s |",
        "All p &lt;= 0.05, Holm over 4 comparisons.",
        "The machines differ or are unknown and may explain the changes.",
    ):
        assert there in in_the_open
    assert "cannot be told |" not in in_the_open
    assert text.count("cannot be told |") == 2
    assert text.count("<details>") == text.count("</details>") == 2
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {len(comparison.COLUMNS) + 1}
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    for absent in ("<script", "@team", "#12"):
        assert absent not in text


def test_refused_studies_have_the_reasons_and_no_table():
    found = compare(read(measured("a", 9.0, 1)), read(measured("a", 9.0, 2, epochs=9, dataset_checksum="<b>")))
    text = comparison.markdown(found)
    assert text.startswith("**dlbench: not comparable**")
    assert "- the data differ: dataset_checksum" in text
    assert "| --- |" not in text
    assert "not comparable: the settings differ: epochs was 5, is 9" in comparison.text(found, plain)


def test_long_comparisons_fit_into_a_comment():
    arms = [measured(f"a{n}", 9.0, n, 4, batch_size=n, label=f"{HOSTILE} {n} " + "x" * 90) for n in range(1, 201)]
    runs = read(*arms)
    text = comparison.markdown(compare(runs, runs))
    assert len(text) < 65_536
    assert "and 250 more, which `--format csv` has." in text


def test_plain_text_is_a_table_with_the_verdict_above_and_the_worst_first():
    text = comparison.text(slower(), plain)
    assert text.startswith("made-1 against made-1: 2 worse, 2 cannot be told\n")
    assert text.splitlines()[2].split()[:3] == ["verdict", "arm", "metric"]
    assert "machine: what machine BASE and NEW ran on is not known" in text
    assert "<script>alert(1)</script>| `code`" in text
    base = read(*(measured(name, 9.0, seed, batch_size=seed) for seed, name in enumerate("abc", start=1)))
    new = read(measured("a", 10.0, 4, batch_size=1), measured("b", 15.0, 5, batch_size=2), failed("c", 8, batch_size=3))
    lines = comparison.text(compare(base, new), plain).splitlines()
    assert [line.split()[3] for line in lines if line.startswith("worse")] == ["b", "b", "a", "a"]
    assert "1 now fails" in comparison.headline(compare(base, new))


def test_csv_has_every_change_with_whole_numbers_and_empty_cells_for_what_is_not_known():
    rows = rows_of(slower())
    assert tuple(rows[0]) == comparison.CSV_COLUMNS
    assert sorted(row["verdict"] for row in rows) == ["cannot be told"] * 2 + ["worse"] * 2
    worse = next(row for row in rows if row["metric"] == "train_time_s" and row["verdict"] == "worse")
    assert float(worse["ratio_low"]) < float(worse["ratio"]) < float(worse["ratio_high"])
    assert float(worse["worsening"]) == pytest.approx(float(worse["new_median"]) / float(worse["base_median"]) - 1)
    assert 0 < float(worse["p"]) <= 0.05
    found = compare(read(measured("a", 9.0, 1), measured("b", 9.0, 2, batch_size=8)), read(measured("a", 9.0, 1)))
    (row,) = [row for row in rows_of(found) if row["verdict"] == "only in base"]
    assert {name for name, value in row.items() if value} == {"verdict", "arm", "base_runs", "new_runs"}


def test_a_target_that_no_run_reached_is_said():
    common = {"target_metric": "validation_accuracy", "target_value": 0.9}
    base = read(arm("a", {"time_to_target_s": [*noisy(5.0, 7, 1), None]}, **common))
    new = read(arm("a", {"time_to_target_s": [None] * 8, "train_time_s": noisy(9.0, 8, 2)}, **common))
    found = compare(base, new)
    assert re.search(r"5\.\d+ \(7/8 reached\) +not reached \(0/8 reached\)", comparison.text(found, plain))
    assert "| no longer reaches the target | label of a |" in comparison.markdown(found).partition("<details>")[0]
    assert "inf" not in comparison.csv(found)
    (row,) = rows_of(found)
    assert (row["base_reached"], row["new_reached"], row["family"]) == ("7", "0", "1")
    assert float(row["p"]) == pytest.approx(1 / 1430)  # 8! 8! / 16! x 16 over 9! / 7! / 2!, by Fisher
    assert "none does (Fisher's exact test, Hochberg over 1 arm with a target)" in comparison.text(found, plain)


def test_too_little_to_compare_is_said():
    found = compare(read(failed("a", 2)), read(failed("a", 2)))
    assert comparison.headline(found) == "nothing to compare: no number is known in both studies"
    found = compare(read(measured("a", 9.0, 1, 2)), read(measured("a", 9.0, 2, 2)))
    assert "2 numbers cannot be significant with so few repeats: 3 of each arm" in comparison.text(found, plain)
