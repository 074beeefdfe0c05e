import re

from dlbench.records import columns, document
from dlbench.scenario.settings import Settings

# The end of a name -> the unit it promises; the longest end that fits counts.
UNITS = {
    "_s": "s",
    "_per_s": "samples/s",
    "updates_per_s": "updates/s",
    "_bytes_per_s": "bytes/s",
    "_bytes": "bytes",
    "_j": "J",
    "_per_sample": "FLOP",
    "learning_rate_per_sample": "1/samples",
}

EVERY_COLUMN = {f"{table}.{column.name}": column for table, found in columns.TABLES.items() for column in found}


def test_runs_hold_every_setting():
    assert set(Settings.model_fields) - set(columns.names("runs")) == set()


def test_a_column_reads_well_in_any_program_and_its_name_ends_in_its_unit():
    assert len(EVERY_COLUMN) == sum(map(len, columns.TABLES.values()))
    for name, column in EVERY_COLUMN.items():
        # A dot would make it an option of a plugin; pandas, SQL and spreadsheets take these as they are.
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", column.name), name
        assert column.kind in ("text", "int", "float", "bool", "time"), name
        assert re.fullmatch(r"[^\n]+\.", column.meaning), name
        ends = [end for end in UNITS if column.name.endswith(end)]
        assert not ends or column.unit == UNITS[max(ends, key=len)], name


def test_rows_of_workers_begin_alike():
    assert {columns.names(table)[:3] for table in ("epochs", "steps", "sensors")} == {("run_id", "attempt", "worker")}


def test_a_step_travels_in_the_order_of_its_columns():
    # Journals hold rows without names: these columns stay where they are, and new ones follow them.
    assert columns.STEP_FIELDS[:13] == (
        "step", "num_steps", "epoch", "phase", "num_samples", "started_at_s", "step_time_s", "data_wait_s",
        "compute_time_s", "peer_wait_s", "communication_time_s", "update_time_s", "loss",
    )  # fmt: skip
    assert [columns.FIELD[name] for name in columns.names("steps")[3:]] == list(range(len(columns.STEP_FIELDS)))
    assert [columns.PHASE[name] for name in columns.STEP_PHASES] == list(range(6))


def test_the_same_name_has_the_same_kind_in_all_tables():
    kinds = {}
    for table in columns.TABLES.values():
        for column in table:
            kinds.setdefault(column.name, set()).add(column.kind)
    assert {name: kind for name, kind in kinds.items() if len(kind) > 1} == {}


def test_the_documentation_is_that_of_these_columns():
    assert document.TARGET.read_text(encoding="utf-8") == document.markdown(), (
        "write it again: python -m dlbench.records.document"
    )


def test_a_bar_in_a_meaning_does_not_end_its_cell(monkeypatch):
    column = columns.Column("odd", "text", "", "One | or the other.")
    monkeypatch.setattr(document, "TABLES", {"runs": (column,)})
    assert r"| `odd` | text |  | One \| or the other. |" in document.markdown()
