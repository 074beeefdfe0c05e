"""The processor's name, where the kernel gives one and where it does not."""

import platform
from pathlib import Path

from dlbench.trainers import _processor


def test_name_of_the_first_processor(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Fast   CPU @ 2.00GHz\nmodel name\t: Other\n", encoding="utf-8")
    assert _processor.name(cpuinfo) == "Fast CPU @ 2.00GHz"


def test_architecture_where_there_is_no_name(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t:\n", encoding="utf-8")
    assert _processor.name(cpuinfo) == platform.machine()
    assert _processor.name(tmp_path / "missing") == platform.machine()
