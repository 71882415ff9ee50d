"""A segment that cannot be created leaves no files, whichever of them cannot be opened."""

from __future__ import annotations

import errno
from itertools import count
from random import Random

from minikafka.storage import LogConfig, MemoryDisk
from minikafka.storage.segments.segment import Segment

FOLDER = "/log"


class Failing(MemoryDisk):
    """The call of a number fails; later ones succeed."""

    def __init__(self, number: int) -> None:
        super().__init__(Random(0))
        self.left: int | None = None
        self.number = number

    def call(self, kind: str, path: str) -> None:
        super().call(kind, path)
        if self.left is not None and kind != "remove":
            self.left -= 1
            if self.left == -1:
                raise OSError(errno.EMFILE, "injected fault", path)


def test_a_segment_that_cannot_be_created_leaves_no_file() -> None:
    for number in count():
        disk = Failing(number)
        disk.make_directory(FOLDER)
        disk.left = number
        try:
            Segment.create(disk, FOLDER, 8, LogConfig(), now_ms=0)
        except OSError:
            assert disk.list(FOLDER) == [], f"call {number} failed"
        else:
            break
    assert number > 2
