import csv
import io

import numpy as np
import pandas as pd
import pytest

from dlbench.errors import UserError
from dlbench.records import parquet, tables
from dlbench.records.columns import names
from dlbench.records.tables import cell, header, line, lines_of, read_table, whole_cells, write_lines, write_table

LONG = "x" * 9999
ODD = ['a "quoted", thing', "two\nlines", "two\r\nlines", "한국어 ü", "", " space ", "[red]x", "=1+1", "NA", "nan"]


def test_cells(subtests):
    for value, text in [
        (None, ""),
        (float("nan"), ""),
        (True, "true"),
        (np.bool_(False), "false"),
        (0.1 + 0.2, "0.30000000000000004"),
        (np.float64(1e-300), "1e-300"),
        (np.int64(3), "3"),
        ([128, 64], '"[128, 64]"'),
        ('say "hi"', '"say ""hi"""'),
        (0, "0"),
    ]:
        with subtests.test(value=value):
            assert cell(value) == text


def test_lines_are_read_back_by_the_csv_module():
    assert header("sensors", ["model.a"]).endswith("value,model.a\r\n")
    text = line(ODD)
    assert text.endswith("\r\n")
    assert list(csv.reader(io.StringIO(text, newline=""))) == [ODD]


def test_a_table_comes_back_with_its_kinds(tmp_path):
    path = tmp_path / "runs.csv"
    rows = [
        {"run_id": reason, "attempt": 2, "reason": reason, "samples_per_s": 0.1 + 0.2, "baseline": True,
         "started_at": "2026-01-02T03:04:05.678901+00:00", "model.hidden": [128], "model.rate": 0.5,
         "dataset.size": 3, "model.batch_norm": False, "model.name": "x"}
        for reason in ODD if reason
    ] + [{"run_id": "failed", "attempt": 1}]  # fmt: skip
    extra = ["model.hidden", "model.rate", "dataset.size", "model.batch_norm", "model.name", "model.never"]
    write_table(path, "runs", rows, extra)
    table = read_table(path)
    assert list(table.columns) == [*names("runs"), *extra]
    assert table["reason"][:-1].tolist() == [row["reason"] for row in rows[:-1]]
    assert table["samples_per_s"][0] == 0.1 + 0.2
    assert table["baseline"].dtype == "boolean"
    assert table["attempt"].tolist() == [2] * (len(rows) - 1) + [1]
    assert table["started_at"][0] == pd.Timestamp("2026-01-02T03:04:05.678901", tz="UTC")
    assert table["model.hidden"][0] == "[128]"
    assert table["model.rate"][0] == 0.5
    assert table["dataset.size"].dtype == "Int64"
    assert table["model.batch_norm"].dtype == "boolean"
    assert table["model.name"][0] == "x"
    last = table.iloc[-1]
    assert all(pd.isna(last[name]) for name in table.columns if name not in ("run_id", "attempt"))


def test_an_older_version_with_fewer_columns_is_readable(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("run_id,attempt,status,model.depth\r\nx,1,completed,20\r\n")
    table = read_table(path)
    assert list(table.columns) == [*names("runs"), "model.depth"]
    assert table["status"].tolist() == ["completed"]
    assert table["workers"].dtype == "Int64"
    assert table["workers"].isna().all()


def test_an_empty_table_is_readable_and_what_is_no_table_is_reported(tmp_path):
    write_table(tmp_path / "steps.csv", "steps", [])
    assert len(read_table(tmp_path / "steps.csv")) == 0
    for name, message in (("runs.csv", r"there is no runs\.csv"), ("other.csv", "none of")):
        with pytest.raises(UserError, match=message):
            read_table(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("epochs", "4:30,attempt,worker,epoch\r\nx,1,0,1\r\n", "it has no column 'run_id'"),
        ("epochs", "run_id,attempt,worker\r\nx,1,0\r\n", "it has no column 'epoch'"),
        ("epochs", "run_id,attempt,worker,epoch\r\nx,1,0,1\r\nx,1,0,\r\n", "row 2 has no epoch"),
        ("runs", f"run_id,attempt,workers\r\nx,1,{LONG}\r\n", "xxx"),
        ("runs", f"run_id,attempt,wall_time_s\r\nx,1,{LONG}\r\n", "xxx"),
        ("runs", f"run_id,attempt,started_at\r\nx,1,\r\nx,1,{LONG}\r\n", "started_at is 'xxx.*, which is no time"),
        ("runs", 'run_id,attempt,wall_time_s\r\nx,1,2\r\nx,2,"0,132"\r\n',
         "row 2: wall_time_s is '0,132', which is no"),
        ("runs", "run_id,attempt,workers\r\nx,1,NA\r\n", "row 1: workers is 'NA', which is no whole number"),
        ("runs", "run_id,attempt,workers\r\ny,x,1,two\r\n", "row 1 has more cells than the header"),
        ("runs", "run_id,attempt,steps\r\nx,1,\r\ny,1,1.5\r\n", "row 2: steps is '1.5', which is no whole number"),
        ("runs", "run_id,attempt,seed\r\nx,1,inf\r\n", "row 1: seed is 'inf', which is no whole number"),
        ("runs", f"run_id,attempt,seed\r\nx,1,{'9' * 20}\r\n", "row 1: seed is '9+', which is no whole number"),
        ("runs", "run_id,attempt,baseline\r\nx,1,true\r\nx,2,\r\nx,3,WAHR\r\n",
         "row 3: baseline is 'WAHR', which is neither"),
        ("runs", "run_id,attempt\r\nx,1,3\r\n", "row 1 has more cells than the header"),
        ("runs", "run_id,attempt,workers\r\nx,1,3\r\ny,1,3,4\r\n", "Expected 3 fields in line 3, saw 4"),
        ("runs", "run_id;attempt;wall_time_s\r\nx;1;0,132\r\n", "separated by ';'"),
    ],
)  # fmt: skip
def test_a_table_that_is_none_is_refused_briefly(tmp_path, name, content, words):
    path = tmp_path / f"{name}.csv"
    path.write_text(content)
    with pytest.raises(UserError, match=f"not a table of dlbench: .*{words}") as error:
        read_table(path, {"x"})
    assert len(error.value.message) < 400
    assert "\n" not in error.value.message
    assert not error.value.hint
    (tmp_path / "study.json").touch()
    (tmp_path / "runs").mkdir()
    with pytest.raises(UserError) as error:
        read_table(path)
    assert f"dlbench run --study {tmp_path}" in error.value.hint


def test_lines_of_writes_unknown_as_empty_in_chunks_of_any_size(monkeypatch):
    counts, numbers, unknown = np.array([1.0, np.nan, 3]), np.array([0.5, np.nan, 1e-300]), np.full(3, np.nan)
    for chunk_rows in (50_000, 2):
        monkeypatch.setattr(tables, "CHUNK_ROWS", chunk_rows)
        lines = lines_of(["r", whole_cells(counts), numbers, ["a", "b", "c"], unknown])
        assert "".join(lines) == "r,1,0.5,a,\r\nr,,,b,\r\nr,3,1e-300,c,\r\n"


def test_a_parquet_table_that_is_none_is_refused_and_its_absence_reported(tmp_path, monkeypatch):
    path = tmp_path / "steps.parquet"
    keys = {"run_id": ["x", "y"], "attempt": [1, 1], "worker": [0, 0], "step": [1, 2]}
    for write, message in (
        (lambda: None, r"there is no steps\.parquet"),
        (lambda: path.write_text("no table"), "not a table of dlbench"),
        (lambda: pd.DataFrame(keys | {"attempt": ["one", "two"]}).to_parquet(path), "not a table of dlbench"),
        (lambda: pd.DataFrame(keys).drop(columns="step").to_parquet(path), "it has no column 'step'"),
    ):
        write()
        with pytest.raises(UserError, match=message):
            read_table(path)
    rows = (line([run, 1, 0, step, *[None] * 14]) for step, run in enumerate(("x", "y,\n"), 1))
    write_lines(path.with_suffix(".csv"), "steps", rows)
    parquet.convert(path.with_suffix(".csv"), "steps")
    assert read_table(path, {"y,\n"})["step"].tolist() == [2]
    monkeypatch.setattr(parquet, "is_installed", lambda: False)
    with pytest.raises(UserError, match="needs pyarrow"):
        read_table(path)


def test_what_is_too_large_or_lacks_a_key_is_refused_wherever_it_is_in_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MOST_ROWS", 4)
    monkeypatch.setattr(tables, "READ_ROWS", 2)
    monkeypatch.setattr(parquet, "MOST_TEXT_BYTES", 100_000)
    keys = {"run_id": ["x"] * 4, "attempt": [1] * 4, "worker": [0] * 4, "step": [1, 2, 3, 4]}
    long = {name: cells + cells[:1] for name, cells in keys.items()}
    wide = keys | {f"model.{number}": [1] * 4 for number in range(501)}
    cases = {
        "rows": (long, "more than 4 rows"),
        "columns": (wide, "501 columns besides dlbench's"),
        "name": (keys | {"x" * 1001: [1] * 4}, "name has more than 1000 letters"),
        "key": (keys | {"attempt": [1, 1, 1, None]}, "row 4 has no attempt"),
        "cell": (keys | {"phase": ["y" * 100_001] * 4}, "a cell of phase|take more than 100,000 bytes"),
    }
    for case, (columns, reason) in cases.items():
        frame = pd.DataFrame(columns)
        frame.to_csv(tmp_path / "steps.csv", index=False)
        frame.to_parquet(tmp_path / "steps.parquet")
        for suffix in ("csv", "parquet"):
            with pytest.raises(UserError, match=reason) as caught:
                read_table(tmp_path / f"steps.{suffix}")
            assert caught.value.where == str(tmp_path / f"steps.{suffix}"), case
    # In pieces a table may have any length.
    pd.DataFrame(keys).to_parquet(tmp_path / "steps.parquet")
    assert [len(piece) for piece in tables.pieces(tmp_path / "steps.parquet")] == [0, 2, 2]
