"""Files in a log directory that are none of its segments: they are not opened, and change nothing."""

from __future__ import annotations

import pytest
from support.compaction import Cleaned
from support.logs import Clock, memory_disk

FOREIGN = (
    "99999999999999999999.log",
    "9223372036854775808".zfill(20) + ".log",
    "99999999999999999999.snapshot",
    "0000000000000000000\u0663.log",
    "0000000000000000000\xb3.log",
    "-0000000000000000001.log",
    " 0000000000000000001.log",
    "1.log",
    "00000000000000000001.log.bak",
    "notes-of-an-operator.cleaned",
    "notes-of-an-operator.swap",
    "notes-of-an-operator.index",
)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_whose_name_has_no_offset_is_no_segment(name: str, *, clean: bool) -> None:
    """Also where it looks like one: the log end offset was beyond the fields of the protocol."""
    cleaned = Cleaned(memory_disk(), clock=Clock())
    for number in range(6):
        cleaned.put((b"%d" % number, bytes(900)))
    cleaned.log.flush()
    rows, bases, disk = cleaned.rows(), list(cleaned.log.segments.bases), cleaned.disk
    path = f"{cleaned.log.directory}/{name}"
    disk.open(path, create=True).close()
    cleaned.restart(clean=clean)
    assert cleaned.log.segments.bases == bases
    assert cleaned.rows() == rows
    assert cleaned.put((b"more", b"")) == 6


def test_a_foreign_file_does_not_undo_a_complete_compaction() -> None:
    """A `.swap` file is removed only if a `.cleaned` file shows that the compaction was interrupted."""
    cleaned = Cleaned(memory_disk(), clock=Clock())
    for number in range(6):
        cleaned.put((b"%d" % number, bytes(900)))
    cleaned.log.flush()
    rows, disk, directory = cleaned.rows(), cleaned.disk, cleaned.log.directory
    disk.rename(f"{directory}/{0:020}.log", f"{directory}/{0:020}.log.swap")
    disk.open(f"{directory}/x.cleaned", create=True).close()
    cleaned.restart(clean=False)
    assert cleaned.rows() == rows
