"""Pages for tests: contents that are hostile or large, and a reader of HTML that refuses what is not well formed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from dlbench.analysis.answer.answer import Answer, ArmAnswer, Doubt, Judged, Next, Spread
from dlbench.analysis.judge import Verdict
from dlbench.records.machine import read_machine
from dlbench.report.answers import ClaimResult
from dlbench.report.data import ReportData
from dlbench.report.page.content import Content, RenderedFigure
from tests.unit.report.figures.makers import base_line, repeats, report_data, run

# What a name, a label or an error may hold. Each must be read as it is written, and do nothing.
HOSTILE = (
    "<script>window.hit = 1</script>",
    "</script><script>window.hit = 2</script>",
    "</pre></td></style><b>bold</b>",
    '"><img src=x onerror="window.hit = 3">',
    "' onmouseover='window.hit = 4",
    '=HYPERLINK("http://example.org","click")',
    "{{ 7*7 }} {% include 'x' %}",
    "&lt;b&gt; &amp; &#60;",
    "--> <!-- ]]>",
    "a|b `code` _c_ *d* $e$ [f](http://example.org) # 1. ~g~",
    "학습률 오류",
    "שגיאה בריצה",
    "1e-12 1e12",
)
# What cannot be seen as it is, and how it must be shown.
UNSEEN = {
    "\x1b[31mred\x1b[0m": r"\x1b[31mred\x1b[0m",
    "bell\x07": r"bell\x07",
    "\u202egnp.exe": r"\u202egnp.exe",
    "first\rsecond": "first\nsecond",
}
NUL = "nul\x00byte"
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="p-t" width="600pt" height="200pt" '
    'viewBox="0 0 600 200"><title id="p-t">Time</title><path d="M 10 190 L 590 10" fill="none" '
    'stroke="currentColor" stroke-width="2"/></svg>'
)
FILES = ("b.png", "b.svg", "b.csv")
FIXTURE = Path(__file__).parents[3] / "fixtures" / "study-v3"
MACHINE = read_machine(FIXTURE / "machine.json")


@dataclass
class Reader(HTMLParser):
    """A page as it is read: refuses elements that are not closed, or closed in another order."""

    open: list[str] = field(default_factory=list)
    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[tuple[tuple[str, ...], str]] = field(default_factory=list)

    VOID = frozenset({"meta", "link", "br", "input", "img", "hr"})

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice in <{tag}>: {names}"
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another element, line {self.getpos()[0]}"

    def handle_data(self, data: str) -> None:
        self.texts.append((tuple(self.open), data))

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def all(self, *tags: str) -> list[dict[str, str | None]]:
        """Return the attributes of all elements with these names, in order."""
        return [attributes for tag, attributes in self.elements if tag in tags]

    def text(self, *within: str) -> str:
        """Return what is to be read, within an element of one of these names; spaces and line ends are one space."""
        shown = ((data, set(open_)) for open_, data in self.texts if not {"script", "style"} & set(open_))
        return " ".join("".join(data for data, open_ in shown if not within or open_ & set(within)).split())


def read_html(html: str) -> Reader:
    """Return a page that is well formed."""
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


def assert_in_order(text: str, parts: Sequence[str]) -> None:
    """Assert that all parts are in a text, each behind the one before."""
    place = 0
    for part in parts:
        place = text.find(part, place)
        assert place >= 0, f"{part!r} is not after what stands before it"


def study(tmp_path: Path, **others: Any) -> ReportData:
    """Return a small study: two batch sizes, a base line, a run that never completed and one that did at the second."""
    again = {"batch_size": 64, "workers": 2, "repeat": 3}
    return report_data(
        *base_line(3, batch_size=32, samples_per_s=[1000.0, 1010.0, 990.0]),
        *repeats(3, batch_size=32, workers=2, samples_per_s=[1500.0, 1520.0, 1480.0]),
        *repeats(3, batch_size=64, workers=2, samples_per_s=[9000.0, None, 1e12], validation_loss=[0.5, 1e-12, 0.25]),
        run(**again, status="failed", reason="worker 1: RuntimeError: first line\n  File x\nlast line"),
        run(**again, attempt=2),
        run(batch_size=128, workers=2, status="out-of-memory", reason="worker 0: no memory left"),
        tmp_path=tmp_path,
        machine=MACHINE,
        scenario="# What for?\nname: study\ndescription: Does a second worker pay?\nbase: {model: mlp}\n",
        **others,
    )


def answer(title: str) -> Answer:
    """Return an answer that recommends an arm of this title, with all that an answer may have."""
    spread = Spread(median=2.1, low=2.0, high=2.2, n=3)
    judged = Judged(metric="train_time_s", spread=spread, verdict=Verdict.KEEPS, difference=None)
    common = {"study": title, "name": title, "settings": {title: title}, "workers": 2, "completed": 3, "runs": 3}
    use = ArmAnswer(title=title, word="keeps", value=judged, **common)
    out = ArmAnswer(title=f"{title} out", word="out", reason=f"1 of 3 runs did not complete: {title}", **common)
    return Answer(
        **dict.fromkeys(("condition", "emulated", "currency"), ""),
        **dict.fromkeys(("cheaper", "knee", "faster")),
        **dict.fromkeys(("either", "open"), ()),
        task=title,
        given={},
        goal="least training time",
        use=use,
        arms=(use, out),
        doubts=(Doubt(text=f"three repeats show little of {title} (`repeats: 5`)", weight=70),),
        next=Next(command=f"dlbench report {title}", why="charts", seconds=None),
    )


def content(found: ReportData, **others: Any) -> Content:
    """Return a content with something in every part."""
    parts: dict[str, Any] = {
        "answers": (answer("mpi, 2 workers, batch 64"),),
        "judged": (
            ClaimResult("kim2023", "training time falls", "holds", "six batch sizes"),
            ClaimResult("kim2023", "accuracy falls at the end", "cannot be told", "one repeat"),
            ClaimResult("kim2018", "scale-out closes in", "does not hold", "it is 5% slower at 4 workers"),
        ),
        "drawn": (RenderedFigure("batch_size", "Against batch size.", "Training time", SVG, "n = 3.", FILES),),
        "left_out": (("strategies", "needs two strategies; there is `mpi` only"),),
    }
    return Content(data=found, **{**parts, **others})


def hostile(tmp_path: Path) -> Content:
    """Return a content in which every text from outside is hostile."""
    texts = (*HOSTILE, *UNSEEN)
    bad = " ".join(HOSTILE)
    common = {"study": f"study {bad}", "scenario": bad, "device_name": bad}
    rows = [
        run(**common, batch_size=32, **{"model.name": text}, label=text, run_id=f"{place}-{bad}-r0")
        for place, text in enumerate(texts)
    ]
    rows += [
        run(**common, batch_size=64, status="failed", reason=text, label=text, run_id=f"failed-{place}-r0")
        for place, text in enumerate((*texts, "\n".join(texts), "x" * 100_000))
    ]
    found = report_data(
        *rows,
        tmp_path=tmp_path,
        scenario="\n" + "\n".join((*texts, NUL)),
        machine={"cpu": {"model": bad}, "gpus": [{"name": bad}, 3], "software": {"libraries": {bad: bad}, "os": [1]}},
    )
    return content(
        found,
        answers=(answer(" ".join((*texts, NUL))),),
        judged=(ClaimResult(bad, bad, "holds", bad + NUL),),
        drawn=(RenderedFigure(bad, bad, bad, SVG, "\n".join((*texts, NUL)), (f"{bad}.png", "javascript:alert(1)")),),
        left_out=((bad, bad),),
    )


def large(tmp_path: Path, number: int = 1000) -> Content:
    """Return a content of so many runs: five repeats of each of many batch sizes and workers, some of which failed."""
    rows = []
    for arm in range(number // 5):
        settings = {"batch_size": 8 * (arm // 4 + 1), "learning_rate_base": 0.01 * (arm % 7 + 1)}
        settings["samples_per_s"] = [1000.0 / (place + arm + 3) for place in range(5)]
        rows += repeats(5, workers=arm % 4 + 1, **settings) if arm % 4 else base_line(5, **settings)
    for row in rows[96::97]:
        row |= {"status": "failed", "reason": "no", "samples_per_s": None, "train_time_s": None}
    return content(report_data(*rows, tmp_path=tmp_path))
