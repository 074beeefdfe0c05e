"""No two places judge a pair of arms differently: every verdict on committed studies, from several entries."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dlbench.analysis.answer.lines import lines
from dlbench.cli import group
from dlbench.report.answers import answers_of
from dlbench.report.figures import winners
from dlbench.report.page.content import Content
from tests.results import comparisons
from tests.results.study import StudyText

RESULTS = Path(__file__).parents[2] / "results"
# Together they have every kind of goal, of answer and of verdict that the committed studies have.
VARIED = {
    "claims-staleness-rates", "dividing", "dynamic-batch", "gpu-smoke", "kim2018-two-hosts-small", "parallax",
    "sandblaster",
}  # fmt: skip
STUDIES = [
    pytest.param(name, marks=() if name in VARIED else pytest.mark.soak)
    for name in sorted(path.parent.name for path in RESULTS.glob("*/runs.csv"))
]


@pytest.mark.parametrize("name", STUDIES)
def test_terminal_page_json_and_pages_of_results_say_the_same(name: str) -> None:
    path, study = RESULTS / name, StudyText(RESULTS / name)
    data = study.data
    found = answers_of(data)
    page = Content(data, found.answers)
    for (_, shown, _), one in zip(page.shown_answers, found.answers, strict=True):
        said = lines(one, data.metrics, gap="; ")
        assert list(shown) == list(said if not said[-1][1].startswith("dlbench report") else said[:-1])
    printed = CliRunner().invoke(group, ["recommend", str(path), "--json"])
    assert json.loads(printed.output) == found.model_dump(mode="json")
    assert printed.exit_code == (0 if all(one.use for one in found.answers) else 4)
    by_name = {arm.name: arm for arm in study._arms}
    for answer in found.answers:
        names = {arm.title: arm.name for arm in answer.arms}
        for arm in answer.arms:
            for judged in filter(None, (arm.quality, arm.value)):
                if (
                    judged.difference is None
                    or arm.word == "out"
                    or (judged is arm.value and arm.quality and arm.word != "keeps")
                ):
                    continue
                pair = ("", by_name[arm.name], by_name[names[judged.difference.against]])
                answered = [
                    ([one.name for one in arms], family) for arms, family in study._families.get(judged.metric, ())
                ]
                (other,) = comparisons.compared([pair], judged.metric, study._arms, answered)
                assert other.judgement.verdict is judged.verdict, (arm.title, judged)
                assert other.judgement.gain == pytest.approx(judged.difference.gain)


@pytest.mark.parametrize("name", ["simulated-strategies", "strategies", "digits-batch-workers"])
def test_the_map_of_winners_has_the_verdicts_of_the_answer(name: str) -> None:
    study = StudyText(RESULTS / name)
    data = study.data
    families = [one for found in study._families.values() for one in found]
    try:
        chart = winners.chart(data)
    except winners.MissingRowsError:
        return
    cells = [mark for panel in chart.panels for series in panel.series for mark in series.marks]
    assert cells
    for mark in cells:
        best = mark.runs[0].rpartition("-r")[0]
        arms, family = next(one for one in families if best in [arm.name for arm in one[0]])
        place = [arm.name for arm in arms].index(best)
        like = [n for n, arm in enumerate(arms) if arm.workers == arms[place].workers and not arm.is_alone]
        level = {
            arms[n].first["strategy"]
            for n in like
            if family.pair(n, place).verdict != "loses" and arms[n].first["strategy"] != arms[place].first["strategy"]
        }
        named = int(mark.name.partition("+")[2] or 0)
        assert named == len(level), mark.name
