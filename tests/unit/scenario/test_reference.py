"""Reference files: what they say, what is refused and where, and how a scenario finds one."""

from pathlib import Path

import pytest

from dlbench.errors import UserError
from dlbench.records import files
from dlbench.records.columns import TABLES
from dlbench.scenario.claims import COLUMNS, COMPARING, PLACES, SERIES, Claim, Shape
from dlbench.scenario.read.scenario_file import parse as parse_scenario
from dlbench.scenario.read.scenario_file import read as read_scenario
from dlbench.scenario.read.scenario_file import reference_of
from dlbench.scenario.reference import KEPT, OF_A_STUDY, Reference, find, parse, read

PROJECT = Path(__file__).parents[3] / "scenarios" / "reference"
HEAD = "# source: Who 2024\n# x: workers\n"
SMALL = f"{HEAD}workers,train_time_s\n1,10\n2,6\n"


def refused(text: str) -> str:
    with pytest.raises(UserError) as caught:
        parse(text, "r.csv")
    return str(caught.value)


def test_a_file_says_what_it_is_and_its_numbers() -> None:
    found = parse(
        """\
# source: "Who, When <script>"
# about: an 시험
# hardware: 2 x X
# notes:
#   - one that
#     goes on
#   - two
# x: workers
# series: mode
# claims:
#   - {claim: below, column: train_time_s, series: scale-out, than: scale-up, beyond: 4}
mode, workers, train_time_s, train_loss
scale-up, 2, 6e0,
scale-up, 1, 10, 0.5

scale-out, 1, 11, 1e-12
scale-out, 1, 12, 1e12
""",
        "r.csv",
    )
    assert (found.source, found.about, found.hardware) == ("Who, When <script>", "an 시험", "2 x X")
    assert found.notes == ("one that goes on", "two")
    assert (found.x, found.series, found.names) == ("workers", "mode", ("scale-up", "scale-out"))
    assert found.columns == ("train_time_s", "train_loss")
    assert found.curve("train_time_s", "scale-up") == ((1.0, (10.0,)), (2.0, (6.0,)))
    assert found.curve("train_time_s", "scale-out") == ((1.0, (11.0, 12.0)),)
    assert found.curve("train_loss", "scale-up") == ((1.0, (0.5,)),)
    assert found.curve("train_loss", "scale-out") == ((1.0, (1e-12, 1e12)),)
    assert found.curve("samples_per_s") == ()
    assert found.claims == (
        Claim(claim=Shape.BELOW, column="train_time_s", series="scale-out", than="scale-up", beyond=4),
    )


def test_ends_of_lines_and_a_mark_at_the_start_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    found = read(tmp_path / "r.csv")
    assert {found} == {parse(SMALL, "r.csv")}
    assert found.text == SMALL.replace("\n", "\r\n")


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        ("", "r.csv", "has no head"),
        ("# source: a\nworkers,train_time_s\n1,2\n", "r.csv", "x is missing"),
        ("# source: a\n# sorce: b\n# x: workers\nworkers,train_time_s\n1,2\n", "r.csv:2", "did you mean 'source'?"),
        (f"{HEAD}# series: colour\nworkers,train_time_s\n1,2\n", "r.csv:3", "there are: mode"),
        (f"{HEAD}# series: mode\nworkers,train_time_s\n1,2\n", "r.csv:4", "has no column 'mode'"),
        (HEAD, "r.csv", "has no table"),
        (f"{HEAD}workers,train_time_s\n", "r.csv", "holds no numbers"),
        (f"{HEAD}workers\n1\n", "r.csv:3", "has no measured column"),
        (f"{HEAD}workers,train_tme_s\n1,2\n", "r.csv:3", "did you mean 'train_time_s'?"),
        (f"{HEAD}workers,train_loss,train_loss\n1,2,3\n", "r.csv:3", "two columns 'train_loss'"),
        (f"{HEAD}workers,train_loss\n1,2,3\n", "r.csv:4", "has 3 cells where the table has 2 columns"),
        (f"{HEAD}workers,train_loss\n1,2\n\n2,x\n", "r.csv:6", "train_loss needs a number or nothing, not 'x'"),
        (f"{HEAD}workers,train_loss\n1,1_0\n", "r.csv:4", "not '1_0'"),
        (f"{HEAD}workers,train_loss\n0,1\n", "r.csv:4", "workers needs a number above 0"),
        # An option may be 0.
        ("# source: A\n# x: strategy.bound\nstrategy.bound,train_loss\n0,1\n-1,5\n", "r.csv:5", "of 0 or more"),
        (
            f"{HEAD}# series: mode\n# claims: [{{claim: falls, column: mfu, series: b}}]\nworkers,mode,mfu\n1,a,2\n",
            "r.csv:4",
            "there is no series 'b'; there are: a",
        ),
        (f'{HEAD}workers,train_loss\n1,"1" 2\n', "r.csv:4", "not readable as CSV"),
        (f"{HEAD}# series: mode\nworkers,mode,train_loss\n1,,1\n", "r.csv:5", "mode is empty"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, where: str, said: str) -> None:
    message = refused(text)
    assert message.startswith(f"{where}:")
    assert said in message


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        (["{claim: falls}"], "claims[0].column is missing"),
        (["{claim: most-inside, column: train_loss, flat: 0.1}"], "most-inside takes no `flat`"),
        (["{claim: falls, column: train_los}"], "did you mean 'train_loss'?"),
        (["{claim: falls, column: train_loss, beyond: 4, up_to: 4}"], "no place is beyond 4 and up to 4"),
        (["{claim: falls, column: train_loss, than: a}"], "`than` needs `series`"),
        (["{claim: above, column: train_loss, series: a}"], "above needs `than`"),
        (["{claim: above, column: train_loss, series: a, than: a}"], "compares 'a' with itself"),
        (["{claim: above, column: train_loss, series: a, than: b}"], "there is no series 'a'; the file has no"),
        (["{claim: falls, column: train_loss}"] * 2, "duplicate claim"),
    ],
)
def test_a_claim_that_cannot_be_judged_is_refused(claims: list[str], said: str) -> None:
    listed = "".join(f"#   - {claim}\n" for claim in claims)
    message = refused(f"{HEAD}# claims:\n{listed}workers,train_loss\n1,2\n2,1\n")
    assert said in message
    assert message.startswith("r.csv:")


def test_every_claim_can_be_said() -> None:
    for shape in Shape:
        series = {"series": "a", "than": "b"} if shape in COMPARING else {}
        said = Claim(claim=shape, column="train_loss", **series).said("workers")
        assert [word for word in ("training loss", "number of workers") if word not in said] == []
        assert "None" not in said
    # What is flat depends on the column.
    claims = [Claim(claim=Shape.FALLS, column=column) for column in ("train_time_s", "validation_loss")]
    assert [claim.margin for claim in claims] == [0.02, 0.2]
    assert (
        Claim(claim=Shape.FALLS, column="train_loss", flat=0.005)
        .said("workers")
        .endswith("0.5% or more above an earlier value")
    )


def test_what_a_reference_may_hold_are_columns_of_runs() -> None:
    kinds = {column.name: column.kind for column in TABLES["runs"]}
    assert all(kinds[column] in ("float", "int") for column in COLUMNS)
    assert all(name in kinds for name in (*PLACES, *SERIES))


def test_what_is_claimed_without_numbers_has_no_table() -> None:
    text = (
        "# source: Ho 2013\n# x: strategy.bound\n# series: communicator.slow_workers\n# claims:\n"
        "#   - {claim: least-inside, column: time_to_target_s, series: 0}\n"
        "#   - {claim: flat, column: train_time_s, series: 1, flat: 0.05}\n"
    )
    found = parse(text, "r.csv")
    assert (found.rows, found.columns) == ((), ())
    assert (found.names, found.shown) == (("0", "1"), ("time_to_target_s", "train_time_s"))
    assert found.claims[1].said(found.x).endswith("from the smallest `strategy.bound` to any other")
    with pytest.raises(UserError, match="no series"):
        parse("# source: Ho 2013\n# x: workers\n# claims: [{claim: falls, column: train_loss, series: 1}]\n", "r.csv")


@pytest.mark.parametrize("path", sorted(PROJECT.glob("*.csv")), ids=lambda path: path.stem)
def test_every_reference_of_the_project_can_be_read_and_says_what_is_inferred(path: Path) -> None:
    found = read(path)
    assert found.rows or found.claims
    assert f"({path.name})" in (PROJECT / "README.md").read_text(encoding="utf-8")
    for claim in found.claims:
        assert claim.said(found.x).endswith(" (inferred)") == claim.inferred
    assert any("nferred" in note for note in found.notes) == any(claim.inferred for claim in found.claims)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that dlbench is started in, with a reference of the project's and a scenario elsewhere."""
    for folder in ("scenarios/reference", "mine/reference"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "scenarios/reference/theirs.csv").write_text(SMALL)
    (tmp_path / "mine/s.yaml").write_text("reference: theirs\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_scenario_finds_the_reference_beside_it_before_the_projects(project: Path) -> None:
    path = project / "mine" / "s.yaml"
    assert _of(path).source == "Who 2024"
    (project / "mine/reference/theirs.csv").write_text(SMALL.replace("Who 2024", "Mine"))
    assert _of(path).source == "Mine"
    found = reference_of(parse_scenario("reference: theirs", "s.yaml"))
    assert found is not None
    assert found.source == "Who 2024"
    assert reference_of(parse_scenario("repeats: 2", "s.yaml"), path) is None


def _of(path: Path) -> Reference:
    found = reference_of(read_scenario(path), path)
    assert found is not None
    return found


def test_a_studys_copy_of_a_scenario_finds_the_studys_copy_of_its_reference(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (files.REFERENCE, files.table("runs")) == (KEPT, OF_A_STUDY)
    (project / "mine" / KEPT).write_text(SMALL.replace("Who 2024", "Kept"))
    assert _of(project / "mine" / "s.yaml").source == "Who 2024"
    monkeypatch.chdir(project / "mine")
    with pytest.raises(UserError, match="there is no reference 'theirs'"):
        _of(project / "mine" / "s.yaml")
    (project / "mine" / OF_A_STUDY).touch()
    assert _of(project / "mine" / "s.yaml").source == "Kept"


def test_an_unknown_reference_is_refused_with_those_there_are(project: Path) -> None:
    (project / "mine/reference/own.csv").write_text(SMALL)
    path = project / "mine" / "s.yaml"
    path.write_text("description: x\nreference: thiers\n")
    with pytest.raises(UserError) as caught:
        read_scenario(path)
    message = str(caught.value)
    assert f"{path}:2: there is no reference 'thiers'; there are: own, theirs" in message
    assert "did you mean 'theirs'?" in message
    (project / "scenarios/reference/theirs.csv").unlink()
    with pytest.raises(UserError, match=r"there is none at all[\s\S]*published numbers"):
        find("any", project / "absent" / "s.yaml")
    for text in ("Kim, Kim & Yu 2023", "../kim2023", "a/b", ".hidden", "x" * 101):
        with pytest.raises(UserError, match="must name published numbers in a file"):
            parse_scenario(f"reference: '{text}'", "s.yaml")


def test_a_broken_reference_is_found_when_the_scenario_is_read(project: Path) -> None:
    (project / "scenarios/reference/theirs.csv").write_text(SMALL.replace("6", "six"))
    with pytest.raises(UserError, match=r"theirs\.csv:5: train_time_s needs a number"):
        read_scenario(project / "mine" / "s.yaml")
    (project / "scenarios/reference/theirs.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not UTF-8 text"):
        read_scenario(project / "mine" / "s.yaml")
