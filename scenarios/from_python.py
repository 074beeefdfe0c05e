"""A study from Python or a notebook: measure, look at the rows as tables, test a difference, draw a figure.

    python scenarios/from_python.py [FOLDER OF STUDIES]

15 runs of softmax regression in NumPy on one core of any machine, half a minute. Expect a small batch to learn more
from the same epochs, because it makes more updates.
"""

import sys

import dlbench
from dlbench.analysis.compare.judgement import JudgementCase, judge

output = sys.argv[1] if len(sys.argv) > 1 else "studies"

# 1. Measure: a scenario is a file or, as here, a mapping. A run that fails is a row with its reason.
study = dlbench.run(
    {
        "name": "small-batches",
        "description": "Does a small batch learn more from the same epochs?",
        "base": {
            "dataset": "digits", "model": "softmax", "trainer": "numpy", "strategy": "single", "epochs": 30,
            "learning_rate": 0.1, "learning_rate_scale": "none", "cores_per_worker": 1,
        },
        "matrix": {"batch_size": [16, 64, 256]},
        "repeats": 5,
    },
    output=output,
)  # fmt: skip
# A study that is there already, here or copied from elsewhere: study = dlbench.load_study("results/dividing")

# 2. Look: `runs` has a row for each attempt; `epochs`, `steps` and `sensors` have their run's columns beside their own.
print(study.runs.groupby("status").size().to_string())
print(study.epochs.groupby(["batch_size", "epoch"])["train_loss"].median().unstack()[[1, 10, 30]].to_string())

# 3. Judge: medians with intervals of each arm, and a test between two of them.
arms = study.arms[study.arms["metric"] == "validation_accuracy"]
print(arms[["label", "n", "median", "low", "high"]].to_string(index=False))
completed = study.runs[study.runs["status"] == "completed"]
scores = {size: tuple(rows["validation_accuracy"]) for size, rows in completed.groupby("batch_size")}
(judgement,) = judge([JudgementCase(scores[16], scores[256], is_score=True)])
print(f"batch 16 against 256: {judgement.verdict}, p = {judgement.p}, A12 = {judgement.a12:.2f}")

# 4. Draw: a figure of matplotlib's, to be shown or changed, and the whole report.
figure = study.figure("learning_curves")
figure.savefig(study.path / "learning_curves.png")
print(study.report() / "report.html")
