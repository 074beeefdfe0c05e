"""The tables of results/bench: what they say of rows, and that the committed ones say what the committed rows do."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.rows import Row, read, write
from tests.bench.sections import SECTIONS
from tests.bench.tables import Comparison, block, update

RESULTS = Path(__file__).parents[3] / "results" / "bench"
COMPARISONS = {name: section.comparisons for name, section in SECTIONS.items()}
ROW = Row(
    "mlp", "mlp, batch 32", "a", 0, 0, 1.0, "samples/s", "2026-11-23T10:00:00+00:00", "Python 3.11.7", "A, 2 cores"
)


def rows(**values: list[float]) -> list[Row]:
    """Return a row for each value of each side, by turn."""
    return [
        replace(ROW, side=side, pair=pair, order=2 * pair, value=value)
        for side, found in values.items()
        for pair, value in enumerate(found)
    ]


def test_the_readme_says_what_the_rows_do_to_the_byte() -> None:
    assert update(RESULTS / "README.md", COMPARISONS) == (RESULTS / "README.md").read_text()


def test_every_file_of_rows_belongs_to_a_section() -> None:
    for path in RESULTS.glob("*.csv"):
        assert {row.section for row in read(path)} == {path.stem}
        assert path.stem in SECTIONS


def test_a_block_gives_medians_intervals_and_what_compares() -> None:
    # Seven values: the interval lies between the smallest and the largest and covers 1 - 2 / 2^7.
    found = rows(a=[1000, 1010, 1020, 1030, 1040, 1050, 1060], b=[2000, 2020, 2040, 2060, 2080, 2100, 2120])
    ratio, difference = Comparison("a", "b", ">= 0.99"), Comparison("b", "a", difference=True)
    text = block(found, (ratio, difference, Comparison("a", "absent")))
    assert text.splitlines()[0].startswith("Measured from 2026-11-23T10:00:00+00:00 to 2026-11-23T10:00:00+00:00 on A,")
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    assert lines[2:4] == [
        ["mlp, batch 32: a", "1,030 [1,000, 1,060] samples/s", "7", "98.4%"],
        ["mlp, batch 32: b", "2,060 [2,000, 2,120] samples/s", "7", "98.4%"],
    ]
    assert lines[6:] == [
        ["mlp, batch 32: speed of a / b", "0.5000 [0.5000, 0.5000]", "7", "98.4%", ">= 0.99"],
        ["mlp, batch 32: b - a", "1,030 [1,000, 1,060] samples/s", "7", "98.4%", ""],
    ]


def test_sides_are_compared_within_their_turn_only() -> None:
    # Turn by turn a is half of b; the ratio of the medians would be 10 / 40.
    found = rows(a=[1, 10, 100], b=[2, 20, 200])
    found.append(replace(ROW, side="b", pair=3, order=9, value=1000.0))
    assert "speed of a / b | 0.5000 [0.5000, 0.5000] | 3 | 75.0% |" in block(found, [Comparison("a", "b")])


def test_the_quicker_side_has_the_larger_ratio_also_of_times() -> None:
    found = [replace(row, unit="us/step") for row in rows(a=[100.0], b=[50.0])]
    assert "speed of a / b | 0.5000 | 1 |" in block(found, [Comparison("a", "b")])


def test_one_value_has_no_interval() -> None:
    assert "| mlp, batch 32: a | 1.000 samples/s | 1 |  |" in block(rows(a=[1.0]), ())


def test_values_of_two_units_make_no_median() -> None:
    with pytest.raises(ValueError, match="too many values"):
        block([ROW, replace(ROW, pair=1, unit="s")], ())


def test_a_block_is_made_anew_where_there_are_rows_and_stays_where_there_are_none(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("x\n<!-- begin mlp -->\nold\n<!-- end mlp -->\ny\n<!-- begin cnn -->\nkept\n<!-- end cnn -->\n")
    write(tmp_path / "mlp.csv", rows(a=[1.0, 2.0]))
    made = block(read(tmp_path / "mlp.csv"), ())
    assert update(readme, {"mlp": (), "cnn": ()}) == (
        f"x\n<!-- begin mlp -->\n{made}<!-- end mlp -->\ny\n<!-- begin cnn -->\nkept\n<!-- end cnn -->\n"
    )
    with pytest.raises(ValueError, match="the section hook needs one block"):
        update(readme, {"hook": ()})


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    written = [replace(ROW, what='a "what", 한글', value=0.1 + 0.2), replace(ROW, pair=1, order=1, value=1e-9)]
    write(tmp_path / "mlp.csv", written)
    assert read(tmp_path / "mlp.csv") == written
    (tmp_path / "mlp.csv").write_text("section,what\n")
    with pytest.raises(ValueError, match="the columns are"):
        read(tmp_path / "mlp.csv")
