"""`scenarios/explore.ipynb` is committed without outputs, and its cells run in order and say what the study says.

They are plain Python and run in one namespace, as in a kernel, but in a process of our own: without ports and messages.
"""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "scenarios" / "explore.ipynb"
STUDY = ROOT / "results" / "digits-batch-workers"
# Runs cells from standard input as a kernel does: the value of a last expression is shown. Prints what tests look at.
KERNEL = """
import ast, contextlib, io, json, sys
space, shown, printed = {"__name__": "__main__"}, [], io.StringIO()
for number, source in enumerate(json.load(sys.stdin), start=1):
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), space)
        value = None if last is None else eval(compile(last, f"cell {number}", "eval"), space)
    if value is not None:
        shown.append([type(value).__name__, value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)])
plt = space["plt"]
legends = [plt.figure(number).axes[0].get_legend().get_texts() for number in plt.get_fignums()]
print(json.dumps({"shown": shown, "printed": printed.getvalue(), "legends": [len(texts) for texts in legends]}))
"""


@pytest.fixture(scope="module")
def notebook() -> nbformat.NotebookNode:
    return nbformat.read(NOTEBOOK, as_version=4)


def times(label: str) -> list[float]:
    with (STUDY / "runs.csv").open(encoding="utf-8", newline="") as file:
        return [float(row["train_time_s"]) for row in csv.DictReader(file) if row["label"] == label]


def test_it_is_a_valid_notebook_without_outputs(notebook: nbformat.NotebookNode) -> None:
    nbformat.validate(json.loads(NOTEBOOK.read_text(encoding="utf-8")))
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) > 5
    assert [cell for cell in code if cell.outputs or cell.execution_count is not None] == []
    assert notebook.cells[0].cell_type == "markdown"
    assert "Expect" in notebook.cells[0].source


def test_its_cells_run_and_say_what_the_study_says(notebook: nbformat.NotebookNode, tmp_path: Path) -> None:
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    variables = {"MPLBACKEND": "Agg", "MPLCONFIGDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    before = sorted(NOTEBOOK.parent.iterdir())
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", KERNEL], input=json.dumps(cells), cwd=NOTEBOOK.parent,
        env=os.environ | variables, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert sorted(NOTEBOOK.parent.iterdir()) == before
    found = json.loads(done.stdout)

    kinds = [kind for kind, _ in found["shown"]]
    assert (kinds.count("DataFrame"), kinds.count("Figure")) == (2, 1)
    one, two = times("batch_size=16 workers=1"), times("batch_size=16 workers=2")
    assert f"<td>{round(median(one), 2):.2f}</td>" in found["shown"][0][1]
    assert found["legends"] == [2, 1, 3]
    assert "two workers against one: keeps, better: True" in found["printed"]
    assert f"{median(two) / median(one):.2f} times the training time" in found["printed"]
