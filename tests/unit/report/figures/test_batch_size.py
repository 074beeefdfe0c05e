"""Against batch size: the right numbers at the right place, and nothing joined that does not belong together."""

from pathlib import Path

from dlbench.report.figures.batch_size import chart
from dlbench.report.lines import ALONE
from tests.unit.report.figures.cases import Case, check_cases, drawn, see
from tests.unit.report.figures.makers import Row, base_line, repeats, run


def two_sizes(**values: object) -> list[Row]:
    small = repeats(3, batch_size=16, train_time_s=[4.0, 2.0, 3.0], samples_per_s=[100.0, 120.0, 110.0], **values)
    large = repeats(3, batch_size=64, train_time_s=[1.5, 1.0, 2.0], samples_per_s=[300.0, 310.0, 290.0], **values)
    return small + large


BASE = [*base_line(2, batch_size=16, train_time_s=5.0), *base_line(2, batch_size=64, train_time_s=4.0)]
CASES = (
    Case(
        "each quantity has a panel with every run and the median", two_sizes(workers=2), num_runs=6,
        titles=["training time", "throughput", "training loss", "validation loss", "training accuracy",
                "validation accuracy"],
        shows={"training time": {"measured": {16: see(2, 3, 4, value=3, low=2, high=4), 64: 1.5}},
               "throughput": {"measured": {16: 110, 64: 300}}},
        says=["The learning rate (0.1) was the same at every batch size; it was not tuned for each."],
    ),
    Case(
        "base lines stand beside their arms", [*two_sizes(workers=2), *BASE],
        {"training time": {"measured": {16: 3, 64: 1.5}, ALONE: {16: 5, 64: 4}}},
    ),
    Case(
        "a model without a second size is named", [*two_sizes(model="cnn"), run(model="resnet20", batch_size=16)],
        says=["Left out, with one batch size only: resnet20."], num_runs=6,
    ),
    Case(
        "losses of random numbers are not shown", two_sizes(input="synthetic"),
        titles=["training time", "throughput"], says=["synthetic"],
    ),
    Case(
        "the learning rate is said to be as it was", two_sizes(learning_rate_scale="linear", learning_rate_base=0.02),
        says=["The learning rate (0.02 at a global batch of 32) grew with the global batch; it was not tuned for each"],
    ),
)  # fmt: skip


def test_cases(tmp_path: Path) -> None:
    check_cases(chart, CASES, tmp_path)


def test_batches_of_one_worker_and_of_all_never_share_a_panel(tmp_path: Path) -> None:
    # Mirrored counts all samples here: the scope follows from the strategy, and must still split the panels.
    rows = [*two_sizes(workers=2), *two_sizes(workers=2, batch_scope="global", strategy="mirrored")]
    panels = drawn(chart, *rows, tmp_path=tmp_path).panels
    labels = {one.x.label: one for one in panels if one.title.endswith("training time")}
    assert set(labels) == {"batch size of one worker (samples)", "batch size of all workers (samples)"}
    assert all(len(one.series) == 1 and one.x.scale == "log2" for one in labels.values())
    assert len({one.title for one in panels}) == len(panels) == 12
