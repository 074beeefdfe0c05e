"""`make bench`: what dlbench itself costs, measured in interleaved turns.

python -m tests.bench                      every section but the extra ones, on a machine with nothing else to do
python -m tests.bench resnet20 hook        only these
python -m tests.bench --quick cnn          two short turns in a temporary folder, to try whether everything works
python -m tests.bench tables               no measurement: make the tables of results/bench/README.md anew
python -m tests.bench inference            no measurement: simulate the judge into results/bench/inference
python -m tests.bench repeats              no measurement: simulate repeats until decided into results/bench/repeats
python -m tests.bench searches             no measurement: simulate searches for rates into results/bench/searches
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.bench import inference, repeats, searches
from tests.bench.commands import ROOT
from tests.bench.rows import Recorder
from tests.bench.sections import QUICK, QUICK_TURNS, SECTIONS, Effort, Section
from tests.bench.tables import block, update

RESULTS = ROOT / "results" / "bench"
TABLES = "tables"
# What is simulated, with how many families or studies of each kind, and how many for a quick try.
SIMULATED = {
    "inference": (inference.bench, inference.FAMILIES, 100),
    "repeats": (repeats.bench, repeats.STUDIES, 20),
    "searches": (searches.bench, searches.SEARCHES, 10),
}


def main() -> int:
    """Measure the sections that were asked for, and make the tables."""
    options = arguments()
    chosen = options.sections or [*(name for name, section in SECTIONS.items() if not section.is_extra), *SIMULATED]
    with tempfile.TemporaryDirectory(prefix="dlbench-bench-") as folder:
        for name in chosen:
            if name in SIMULATED:
                simulate, count, few = SIMULATED[name]
                output = None if options.quick else options.output or RESULTS / name
                simulate(output, few if options.quick else count)
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
    parser.add_argument("--output", type=Path, help="folder of what is simulated; default: its own in results/bench")
    parser.add_argument("--quick", action="store_true", help="two short turns, kept nowhere")
    options = parser.parse_args()
    unknown = set(options.sections) - {*SECTIONS, TABLES, *SIMULATED}
    if unknown:
        there = ", ".join((*SECTIONS, TABLES, *SIMULATED))
        parser.error(f"no such section: {', '.join(sorted(unknown))}; there are: {there}")
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
