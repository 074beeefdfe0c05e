import os
import random
import tempfile

import pytest

from dlbench.telemetry.spool import Spool, SpoolFull


def line(number):
    return f"{number}\n".encode()


def full(*_, **__):
    raise OSError(28, "No space left on device")


def test_the_disk_is_used_only_beyond_the_memory_bound(monkeypatch):
    spool, files = Spool(memory_bytes=10), []
    make = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: files.append(make(**options)) or files[-1])
    for number in range(1, 1001):  # a healthy connection: each line is acknowledged soon
        spool.append(line(number))
        spool.acknowledge(number - 1)
    assert not files
    for number in range(1001, 1101):  # a long break
        spool.append(line(number))
    assert len(files) == 1
    assert os.fstat(files[0].fileno()).st_size > 400
    assert list(spool.lines_after(999)) == [line(number) for number in range(1000, 1101)]
    spool.acknowledge(1100)
    assert files[0].closed
    spool.append(line(1101))
    assert (len(files), spool.last) == (1, 1101)


@pytest.mark.parametrize("failing", [(os, "pwrite"), (tempfile, "TemporaryFile")], ids=["full disk", "no folder"])
def test_a_full_disk_is_bridged_by_memory_up_to_a_limit(monkeypatch, failing):
    spool = Spool(memory_bytes=2, last_resort_bytes=100)
    spool.append(line(1))
    with monkeypatch.context() as patch:
        patch.setattr(*failing, full)
        spool.append(line(2))
        spool.append(line(3))
        with pytest.raises(SpoolFull, match="No space left"):
            spool.append(b"x" * 100)
    spool.append(line(4))
    assert list(spool.lines_after(0)) == [line(number) for number in (1, 2, 3, 4)]
    spool.close()


def test_a_file_cut_short_is_an_error_and_no_wrong_line():
    spool = Spool(memory_bytes=0)
    spool.append(line(1))
    os.ftruncate(spool._file.fileno(), 0)
    with pytest.raises(OSError, match="cut short"):
        list(spool.lines_after(0))
    spool.close()


@pytest.mark.parametrize("memory_bytes", [0, 30, 2**20])
def test_any_order_of_events_gives_what_a_list_gives(memory_bytes):
    chance, spool, kept, first = random.Random(1), Spool(memory_bytes), [], 1
    for number in range(1, 500):
        kept.append(line(number) * chance.randint(1, 5))
        spool.append(kept[-1])
        if chance.random() < 0.4:
            acknowledged = chance.randint(first - 2, number)  # the least: an old acknowledgement, late
            spool.acknowledge(acknowledged)
            kept, first = kept[max(0, acknowledged + 1 - first) :], max(first, acknowledged + 1)
        assert (spool.first, spool.last) == (first, number)
        assert list(spool.lines_after(0)) == kept
        assert list(spool.lines_after(first + 1)) == kept[2:]
    spool.close()
    assert (spool.first, spool.last) == (500, 499)
