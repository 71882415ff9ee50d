"""The metadata applier: the records that subscribers get when a snapshot replaces the image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import cast

import pytest
import trio
import trio.testing

from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.metadata_log import encode_decision
from minikafka.controller.metadata.records import (
    AclRecord,
    ClientQuotaRecord,
    ConfigRecord,
    Record,
    RemoveTopic,
    TopicRecord,
)
from minikafka.controller.metadata.snapshot_encoding import encode_snapshot, records_of
from minikafka.controller.metadata.steps import RECORDS_IN_A_STEP
from minikafka.controller.quorum.metadata_applier import MetadataApplier
from minikafka.controller.quorum.raft_log import StoredRaftLog
from minikafka.controller.raft.log_interface import SnapshotId
from minikafka.protocol.acl_codes import AclOperation, AclPermission, AclResourceType, PatternType
from minikafka.protocol.records.batch import Batch, batches

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


def an_acl(name: str, permission: AclPermission = AclPermission.ALLOW) -> AclRecord:
    return AclRecord((AclResourceType.TOPIC, name, PatternType.LITERAL, "User:a", "*", AclOperation.READ, permission))


def test_subscribers_know_the_acls_and_quotas_of_a_snapshot_as_if_they_had_got_each_change() -> None:
    """A broker that was away long enough gets a snapshot: what was removed meanwhile must not hold any more."""
    user, default, address = (("user", "a"),), (("client-id", None),), (("ip", "10.0.0.1"),)
    before: list[Record] = [
        *(an_acl("kept"), an_acl("gone"), an_acl("gone", AclPermission.DENY)),
        *(ClientQuotaRecord(user, key, 1.0) for key in ("producer_byte_rate", "consumer_byte_rate")),
        ClientQuotaRecord(default, "producer_byte_rate", 1.0),
        ClientQuotaRecord(address, "connection_creation_rate", 1.0),
    ]
    after: list[Record] = [
        *(an_acl("new"), an_acl("kept"), an_acl("gone")),
        ClientQuotaRecord(user, "producer_byte_rate", 2.0),
        ClientQuotaRecord((("user", None),), "request_percentage", 1.0),
    ]
    followed, expected = Image(), Image()
    for record in [*before, *installed(before, after)]:
        followed.apply(record)
    for record in after:
        expected.apply(record)
    assert (set(followed.acls), followed.quotas) == (set(expected.acls), expected.quotas)


def test_a_setting_that_a_snapshot_lacks_is_removed() -> None:
    before = [topic("a"), config("retention.ms", "1000"), config("segment.ms", "1000")]
    told = installed(before, [topic("a"), config("segment.ms", "1000")])
    assert ConfigRecord(TOPIC_RESOURCE, "a", "retention.ms", None) in told
    assert ConfigRecord(TOPIC_RESOURCE, "a", "segment.ms", None) not in told


def test_a_large_snapshot_is_installed_in_steps_and_notified_as_a_whole() -> None:
    """Other tasks run between the steps, and see the old image until the new one is complete."""
    count = 10 * RECORDS_IN_A_STEP
    image = Image()
    for number in range(count):
        image.apply(topic(f"new-{number}"))
    applier = MetadataApplier(cast(StoredRaftLog, EmptyLog()), snapshot_bytes=1 << 20)
    applier.image.apply(topic("old"))
    told: list[int] = []

    async def tell(records: Sequence[Record]) -> None:
        told.append(len(records))

    applier.subscribe(tell)
    seen: list[list[str]] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(applier.run)
            applier.installed(SnapshotId(10, 1), encode_snapshot(records_of(image)))
            while not told:
                seen.append([name for name in applier.image.topics if name == "old"])
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert len(seen) >= 2 * count // RECORDS_IN_A_STEP
    assert all(seen), "the old image was gone before the new one was complete"
    assert told == [count + 1]
    assert list(applier.image.topics) == list(image.topics)


class Decisions(EmptyLog):
    """A stored log of committed decisions of one record."""

    def __init__(self, records: Sequence[Record]) -> None:
        encoded = (encode_decision([record], 0) for record in records)
        self._data = b"".join(offset.to_bytes(8, "big") + batch[8:] for offset, batch in enumerate(encoded))

    def committed(self, start: int, end: int, max_bytes: int) -> Iterator[Batch]:
        return batches(self._data)


class WroteAll:
    """The term of the node that wrote all decisions."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records

    def records_at(self, offset: int) -> Sequence[Record]:
        return self._records[offset : offset + 1]

    def applied(self, offset: int) -> None:
        pass

    def end(self, high_watermark: int) -> None:
        pass


@pytest.mark.parametrize(("size_bytes", "pauses"), [(1 << 20, range(8, 12)), (1 << 10, range(3))])
def test_others_run_before_a_decision_of_many_bytes_is_applied(size_bytes: int, pauses: range) -> None:
    """It was read, and has to be applied: each takes its time, also of a decision of this node."""
    records: list[Record] = [config("segment.ms", "x" * size_bytes)] * 8
    applier = MetadataApplier(cast(StoredRaftLog, Decisions(records)), snapshot_bytes=100 << 20)
    applier.term = WroteAll(records)

    async def main() -> int:
        turns = -1
        async with trio.open_nursery() as nursery:
            applier.committed(len(records))
            nursery.start_soon(applier.run)
            while applier.progress.offset < len(records):
                turns += 1
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        return turns

    assert trio.run(main) in pauses


def test_a_snapshot_install_that_is_cancelled_leaves_the_image_as_it_was() -> None:
    image = Image()
    for number in range(3 * RECORDS_IN_A_STEP):
        image.apply(topic(f"new-{number}"))

    async def cancelled_after(steps: int) -> bool:
        """Whether the new image was there after so many steps."""
        applier = MetadataApplier(cast(StoredRaftLog, EmptyLog()), snapshot_bytes=1 << 20)
        applier.image.apply(topic("old"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(applier.run)
            applier.installed(SnapshotId(10, 1), encode_snapshot(records_of(image)))
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert list(applier.image.topics) in (["old"], list(image.topics))
        return "old" not in applier.image.topics

    outcomes = [trio.run(cancelled_after, steps) for steps in range(14)]
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}
