"""A study from Python or a notebook: measure, look at the rows as tables, test a difference, draw a figure.

    python scenarios/from_python.py [FOLDER OF STUDIES]

15 runs of softmax regression in NumPy on one core of any machine, half a minute. Expect a small batch to learn more
from the same epochs, because it makes more updates.
"""

import sys

import dlbench
from dlbench.analysis.judge import judge
from dlbench.scenario.metrics import BUILT_IN

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

# 3. Judge: medians with intervals of each arm, each arm against the best, and what to use.
metric = "validation_accuracy"
arms = study.arms[study.arms["metric"] == metric]
print(arms[["label", "n", "median", "low", "high"]].to_string(index=False))
completed = study.runs[(study.runs["status"] == "completed") & (study.runs["phase"] == "measure")]
scores = {
    size: {(str(repeat),): value for repeat, value in zip(rows["repeat"], rows[metric], strict=True)}
    for size, rows in completed.groupby("batch_size")
}
family = judge(list(scores.values()), BUILT_IN[metric])
for size, judgement in zip(scores, family.judgements, strict=True):
    against = list(scores)[judgement.against]
    print(f"batch {size} against {against}: {judgement.verdict}, {100 * judgement.gain:+.1f} points")
for answer in study.recommend().answers:
    print(f"{answer.goal}: {answer.use.title if answer.use else 'open'}")

# 4. Draw: a figure of matplotlib's, to be shown or changed, and the whole report.
figure = study.figure("learning_curves")
figure.savefig(study.path / "learning_curves.png")
print(study.report() / "report.html")
