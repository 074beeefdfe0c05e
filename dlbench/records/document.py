"""Writes `COLUMNS.md`, the documentation of every column, from `dlbench.records.columns`.

`python -m dlbench.records.document` writes it; a test compares the two.
"""

from pathlib import Path

from dlbench.records import files
from dlbench.records.columns import SCHEMA_VERSION, TABLES

TARGET = Path(__file__).with_name("COLUMNS.md")

_INTRODUCTION = f"""\
# The columns

Written by `python -m dlbench.records.document` from `dlbench/records/columns.py`; schema version {SCHEMA_VERSION}.

All files are CSV with one line of names first; many rows of steps are `steps.parquet`, with the same columns. An empty
cell means unknown: never 0, never "NA". Times end in `_s` (seconds), sizes in `_bytes`, rates in `_per_s`. The other
tables begin with `run_id` and `attempt`, and then say the `worker` (in `topology.csv` the `rank`, in `nodes.csv` and
`links.csv` the `node`); the rest of a run is in its row of `runs.csv`. After the columns below, `runs.csv` and
`epochs.csv` have one for each metric that the scenario declares, and `runs.csv` one dotted column for each option of a
plugin (`model.hidden`, `strategy.chunk_bytes`): `dlbench list` shows their meaning.
"""

_ABOUT = {
    "runs": "One row for every attempt of every run.",
    "epochs": "One row for every epoch and worker.",
    "steps": "One row for every step and worker.",
    "sensors": "One row for every reading of a sensor; `QUANTITIES` in the sensor's file says what each means.",
    "topology": "One row for every process: which host, cores, device and interface it really had.",
    "nodes": "One row for every worker, server and evaluator of a strategy made of nodes, real or simulated.",
    "links": "One row for every pair of nodes that sent messages, in each direction.",
    "staleness": "How stale gradients were when they entered a server's update.",
    "batch_changes": "One row for every change of a run's batch (`batch_policy`), as its workers decided it together.",
}


def markdown() -> str:
    """Return the documentation of all tables as Markdown."""
    text = _INTRODUCTION
    for name, columns in TABLES.items():
        text += f"\n## {files.table(name)}\n\n{_ABOUT[name]}\n\n"
        text += "| column | kind | unit | meaning |\n| --- | --- | --- | --- |\n"
        for column in columns:
            meaning = column.meaning.replace("|", r"\|")
            text += f"| `{column.name}` | {column.kind} | {column.unit} | {meaning} |\n"
    return text


if __name__ == "__main__":
    files.write_text(TARGET, markdown())
