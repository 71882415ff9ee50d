"""The metadata applier: the records that subscribers get when a snapshot replaces the image."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import cast

import trio
import trio.testing

from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import ConfigRecord, Record, RemoveTopic, TopicRecord
from minikafka.controller.metadata.snapshot_encoding import encode_snapshot, records_of
from minikafka.controller.quorum.metadata_applier import MetadataApplier
from minikafka.controller.quorum.raft_log import StoredRaftLog
from minikafka.controller.raft.log_interface import SnapshotId

TOPIC_RESOURCE = 2


class EmptyLog:
    """A stored log without records and without a snapshot."""

    start_offset = 0
    bytes_since_snapshot = 0

    def latest_snapshot(self) -> None:
        return None

    def snapshot_data(self) -> None:
        return None


def installed(before: Sequence[Record], after: Sequence[Record]) -> list[Record]:
    """The records that subscribers get when a snapshot of `after` replaces `before`."""
    applier = MetadataApplier(cast(StoredRaftLog, EmptyLog()), snapshot_bytes=1 << 20)
    for record in before:
        applier.image.apply(record)
    told: list[Record] = []

    async def tell(records: Sequence[Record]) -> None:
        told.extend(records)

    applier.subscribe(tell)
    image = Image()
    for record in after:
        image.apply(record)

    async def install() -> None:
        applier.installed(SnapshotId(10, 1), encode_snapshot(records_of(image)))
        with trio.move_on_after(1):
            await applier.run()

    trio.run(install, clock=trio.testing.MockClock(autojump_threshold=0))
    return told


def topic(name: str) -> TopicRecord:
    return TopicRecord(Random(name).randbytes(16), name)


def config(name: str, value: str) -> ConfigRecord:
    return ConfigRecord(TOPIC_RESOURCE, "a", name, value)


def test_a_topic_that_a_snapshot_lacks_is_removed() -> None:
    assert RemoveTopic(topic("b").topic_id) in installed([topic("a"), topic("b")], [topic("a")])


def test_a_setting_that_a_snapshot_lacks_is_removed() -> None:
    before = [topic("a"), config("retention.ms", "1000"), config("segment.ms", "1000")]
    told = installed(before, [topic("a"), config("segment.ms", "1000")])
    assert ConfigRecord(TOPIC_RESOURCE, "a", "retention.ms", None) in told
    assert ConfigRecord(TOPIC_RESOURCE, "a", "segment.ms", None) not in told
