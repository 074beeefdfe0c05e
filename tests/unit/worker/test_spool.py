import os
import random

import pytest

from dlbench.worker import spool as spool_module
from dlbench.worker.spool import Spool, SpoolFull


@pytest.fixture
def spool(tmp_path):
    made = Spool(tmp_path / "a b 한.spool")
    yield made
    made.close()


def line(number):
    return f"{number}\n".encode()


def test_lines_come_back_in_order_and_after_a_number(spool):
    for number in range(1, 6):
        spool.append(line(number))
    assert (spool.first, spool.last, len(spool)) == (1, 5, 5)
    assert list(spool.lines_after(0)) == [line(number) for number in range(1, 6)]
    assert list(spool.lines_after(3)) == [line(4), line(5)]


def test_only_unacknowledged_lines_stay(spool):
    for number in range(1, 6):
        spool.append(line(number))
    spool.acknowledge(3)
    assert list(spool.lines_after(0)) == [line(4), line(5)]
    spool.acknowledge(1)  # an old acknowledgement, late
    assert spool.first == 4


def test_the_file_exists_only_while_something_is_in_it(spool):
    assert not spool.path.exists()
    spool.append(line(1))
    assert spool.path.stat().st_mode & 0o777 == 0o600
    spool.acknowledge(1)
    assert not spool.path.exists()
    assert spool.last == 1
    spool.append(line(2))
    assert list(spool.lines_after(1)) == [line(2)]


def test_a_long_stream_that_is_never_quite_acknowledged_keeps_the_file_small(spool, monkeypatch):
    monkeypatch.setattr(spool_module, "COMPACT_BYTES", 1000)
    sizes = []
    for number in range(1, 2001):
        spool.append(line(number))
        spool.acknowledge(number - 3)
        sizes.append(spool.path.stat().st_size)
    assert max(sizes) < 1200
    assert list(spool.lines_after(0)) == [line(number) for number in (1998, 1999, 2000)]


def test_a_full_disk_is_bridged_by_memory_up_to_a_limit(spool, monkeypatch):
    spool.append(line(1))
    spool._memory_limit = 100

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        spool.append(line(2))
        spool.append(line(3))
        with pytest.raises(SpoolFull, match="No space left"):
            spool.append(b"x" * 100)
    spool.append(line(4))
    assert list(spool.lines_after(0)) == [line(number) for number in (1, 2, 3, 4)]
    spool.acknowledge(3)
    spool.append(b"x" * 99 + b"\n")
    assert next(spool.lines_after(3)) == line(4)


def test_a_folder_that_is_gone_is_like_a_full_disk(tmp_path):
    spool = Spool(tmp_path / "gone" / "x.spool")
    spool.append(line(1))
    assert list(spool.lines_after(0)) == [line(1)]
    spool.acknowledge(1)


def test_a_file_cut_short_is_an_error_and_no_wrong_line(spool):
    spool.append(line(1))
    os.truncate(spool.path, 0)
    with pytest.raises(OSError, match="cut short"):
        list(spool.lines_after(0))


def test_somebody_elses_link_in_its_place_is_not_followed(tmp_path):
    target = tmp_path / "precious"
    target.write_text("keep")
    (tmp_path / "x.spool").symlink_to(target)
    spool = Spool(tmp_path / "x.spool")
    spool.append(line(1))
    assert target.read_text() == "keep"
    assert list(spool.lines_after(0)) == [line(1)]


def test_any_order_of_events_gives_what_a_list_gives(tmp_path, monkeypatch):
    monkeypatch.setattr(spool_module, "COMPACT_BYTES", 64)
    chance, spool, kept, first = random.Random(1), Spool(tmp_path / "x"), [], 1
    for number in range(1, 500):
        spool.append(line(number) * chance.randint(1, 5))
        kept.append(next(iter(spool.lines_after(number - 1))))
        if chance.random() < 0.4:
            acknowledged = chance.randint(first - 1, number)
            spool.acknowledge(acknowledged)
            kept, first = kept[acknowledged + 1 - first :], acknowledged + 1
        assert list(spool.lines_after(0)) == kept
        assert all(text.startswith(line(first + place)) for place, text in enumerate(kept))
    spool.close()
