"""What says that memory has run out."""

from pathlib import Path

import pytest

from dlbench.records import memory


def test_the_kernel_s_counter_is_a_number() -> None:
    assert memory.oom_kills() >= 0


def test_the_kernel_s_counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_PROC", tmp_path)
    assert memory.oom_kills() == 0
    (tmp_path / "vmstat").write_text("nr_free_pages 9\noom_kill 4\noom_kill_other 7\n")
    assert memory.oom_kills() == 4
    (tmp_path / "vmstat").write_text("oom_kill\n")
    assert memory.oom_kills() == 0
