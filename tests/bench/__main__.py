"""`make bench`: what dlbench itself costs, measured in interleaved turns.

python -m tests.bench                      every section but the extra ones, on a machine with nothing else to do
python -m tests.bench resnet20 hook        only these
python -m tests.bench --quick cnn          two short turns in a temporary folder, to try whether everything works
python -m tests.bench tables               no measurement: make the tables of results/bench/README.md anew
python -m tests.bench inference            no measurement: simulate the judge into results/bench/inference
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.bench import inference
from tests.bench.commands import ROOT
from tests.bench.rows import Recorder
from tests.bench.sections import QUICK, QUICK_TURNS, SECTIONS, Effort, Section
from tests.bench.tables import block, update

RESULTS = ROOT / "results" / "bench"
TABLES, INFERENCE = "tables", "inference"
QUICK_FAMILIES = 100


def main() -> int:
    """Measure the sections that were asked for, and make the tables."""
    options = arguments()
    chosen = options.sections or [*(name for name, section in SECTIONS.items() if not section.is_extra), INFERENCE]
    with tempfile.TemporaryDirectory(prefix="dlbench-bench-") as folder:
        for name in chosen:
            if name == INFERENCE:
                inference.bench(
                    None if options.quick else options.output, QUICK_FAMILIES if options.quick else inference.FAMILIES
                )
            elif name != TABLES:
                measure(name, SECTIONS[name], options.turns, Path(folder) if options.quick else RESULTS, options.quick)
    if not options.quick:
        write_tables()
    return 0


def arguments() -> argparse.Namespace:
    """Return the command line."""
    lines = [
        f"  {name:12}{section.about}; {section.minutes:g} min{', extra' * section.is_extra}"
        for name, section in SECTIONS.items()
    ]
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description=__doc__,
        epilog="sections:\n" + "\n".join(lines),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="default: all but the extra ones")
    parser.add_argument("--turns", type=int, help="how often every side is measured; default: the section's own")
    parser.add_argument(
        "--output", type=Path, default=RESULTS / INFERENCE, help=f"folder of the section {INFERENCE}: %(default)s"
    )
    parser.add_argument("--quick", action="store_true", help="two short turns, kept nowhere")
    options = parser.parse_args()
    unknown = set(options.sections) - {*SECTIONS, TABLES, INFERENCE}
    if unknown:
        parser.error(
            f"no such section: {', '.join(sorted(unknown))}; there are: {', '.join(SECTIONS)}, {TABLES}, {INFERENCE}"
        )
    return options


def measure(name: str, section: Section, turns: int | None, folder: Path, is_quick: bool) -> None:
    """Measure one section into its file, and print its tables."""
    print(f"== {name}: {section.about}", flush=True)
    record = Recorder(name, folder)
    turns = turns or (QUICK_TURNS if is_quick else section.turns)
    section.measure(record, turns, QUICK if is_quick else Effort())
    print(block(record.rows, section.comparisons), flush=True)


def write_tables() -> None:
    """Make the tables of the README from the rows beside it."""
    readme = RESULTS / "README.md"
    readme.write_text(update(readme, {name: section.comparisons for name, section in SECTIONS.items()}))


if __name__ == "__main__":
    sys.exit(main())
