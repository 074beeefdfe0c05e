"""What all trainers share: the parts of a batch, and the processor's name."""

import platform
from pathlib import Path

from dlbench.records.hardware import processor
from dlbench.trainers import BatchParts


def test_parts_follow_each_other_and_are_nearly_equal() -> None:
    for num_samples, num_parts in ((12, 1), (12, 3), (13, 4), (7, 7), (1000, 7), (3, 4), (1, 3), (0, 2)):
        parts = BatchParts(num_parts).cut(num_samples)
        assert [i for part in parts for i in range(part.start, part.stop)] == list(range(num_samples))
        sizes = [part.stop - part.start for part in parts]
        assert (len(sizes), max(sizes) - min(sizes) <= 1) == (num_parts, True), num_samples
        # The last part is the one that the all-reduce waits for.
        assert sizes[-1] == max(sizes), num_samples


def test_the_processor_has_its_name_or_its_architecture(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "proc" / "cpuinfo"
    cpuinfo.parent.mkdir()
    named = "processor\t: 0\nmodel name\t: Fast   CPU @ 2.00GHz\n"
    cpuinfo.write_text(f"{named}\n{named}", encoding="utf-8")
    assert processor(tmp_path) == "Fast CPU @ 2.00GHz"
    cpuinfo.write_text(f"{named}cpu family\t: 25\nmodel\t\t: 17\n", encoding="utf-8")
    assert processor(tmp_path) == "Fast CPU @ 2.00GHz (family 25 model 17)"
    cpuinfo.write_text("processor\t: 0\nmodel name\t:\n", encoding="utf-8")
    assert processor(tmp_path) == processor(tmp_path / "missing") == platform.machine()
