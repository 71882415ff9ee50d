"""Retention works in steps, each of which looks at what it deletes."""

from __future__ import annotations

import pytest
from support.logs import append, memory_disk, open_log

from minikafka.storage.log_config import LogConfig
from minikafka.storage.segments.segment import Segment


def test_retention_looks_at_the_sizes_of_the_segments_that_it_deletes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at those of all that stay, once for each step of a retention."""
    log = open_log(memory_disk(), config=LogConfig(segment_bytes=1024, retention_bytes=0, retention_ms=-1))
    for _ in range(400):
        append(log, bytes(200))
    sizes, looks = Segment.size, list[int]()
    assert log.size_bytes > 0

    def counted(segment: Segment) -> int:
        looks.append(segment.base_offset)
        return sizes.fget(segment)  # type: ignore[attr-defined]

    monkeypatch.setattr(Segment, "size", property(counted))
    count = len(log.segments)
    assert count > 60
    while log.delete_old_segments(300, at_most=4):
        assert log.size_bytes == sum(log.segments[index].size_bytes for index in range(len(log.segments)))
    assert len(looks) <= 6 * (count - len(log.segments)) + 10
