"""A coordinator that loads the log has the groups that its predecessor had, also from a compacted log."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.conversation import read
from support.coordinator_node import MemoryNode
from support.coordinator_player import can_play, play_in_memory

from minikafka.broker.coordinator.groups.group_settings import GroupSettings
from minikafka.broker.coordinator.groups.group_shard import GroupShard
from minikafka.broker.coordinator.groups.state.classic_group import ClassicGroup
from minikafka.broker.coordinator.groups.state.consumer_group import ConsumerGroup
from minikafka.broker.coordinator.groups.state.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from minikafka.broker.coordinator.groups.state.consumer_member import ConsumerMember
from minikafka.broker.coordinator.groups.state.group_records import decode_record

FOLDER = Path(__file__).parents[4] / "conversations"
FILES = [path for path in sorted(FOLDER.glob("*/*/*.txt")) if "ConsumerGroupHeartbeat" in path.read_text()]
PLAYABLE = [path for path in FILES if can_play(read(path))]
PAIRS = list[tuple[bytes, bytes | None]]


def compacted(pairs: PAIRS) -> PAIRS:
    """The last record of each key, without tombstones."""
    last: dict[bytes, bytes | None] = {}
    for key, value in pairs:
        last.pop(key, None)
        last[key] = value
    return [(key, value) for key, value in last.items() if value is not None]


def loaded(pairs: PAIRS, node: MemoryNode) -> dict[str, Any]:
    shard = GroupShard(GroupSettings(), Random(0), node.image)
    for offset, (key, value) in enumerate(pairs):
        known = decode_record(key, value)
        if known is not None:
            shard.apply(*known, offset, -1)
    return {group.group_id: logged(group) for group in shard.groups()}


def logged(group: Any) -> tuple[object, ...]:
    """What the log says of a group."""
    if isinstance(group, ClassicGroup):
        return "classic", group.generation, group.leader, sorted(group.members)
    assert isinstance(group, ConsumerGroup)
    epochs = group.epoch, group.metadata_hash, group.assignment_epoch, group.assignment_timestamp_ms
    subscriptions = group.patterns, group.subscribers
    return epochs, group.members, group.static_members, group.targets, group.owners, subscriptions, group.state


@pytest.mark.parametrize("path", PLAYABLE, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_log_has_all_of_the_state(path: Path) -> None:
    async def compare(node: MemoryNode) -> None:
        live = {group.group_id: logged(group) for shard in node.groups.runtime.states() for group in shard.groups()}
        # Generations of classic groups are in the log when they have an assignment: those in between are not.
        live = {group_id: state for group_id, state in live.items() if state[0] != "classic"}
        for pairs in (node.logs.records(), compacted(node.logs.records())):
            found = loaded(pairs, node)
            assert {group_id: found.get(group_id) for group_id in live} == live

    play_in_memory(read(path), compare)


def test_there_are_conversations() -> None:
    assert len(PLAYABLE) > 10


def test_a_forgotten_group_is_read_until_the_next_record_and_is_in_the_log() -> None:
    shard, successor = (GroupShard(GroupSettings(), Random(0), MemoryNode().image) for _ in range(2))
    record = ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=3)
    for one in (shard, successor):
        one.apply(*record, 0, -1)
    shard.forget(shard.consumer_groups["g"])
    assert shard.find("g") is None
    assert not [*shard.groups()]
    assert shard.find_to_read("g") in [*shard.groups_to_read()]
    shard.apply(ConsumerGroupMetadataKey(group_id="h"), ConsumerGroupMetadataValue(epoch=1), 1, -1)
    assert shard.find_to_read("g") is None
    assert [group.group_id for group in shard.groups_to_read()] == ["h"]
    assert successor.find("g") is not None


def test_a_member_of_which_only_one_tombstone_is_left_has_no_partitions() -> None:
    group = ConsumerGroup("g")
    member = ConsumerMember("m", epoch=2, assigned={bytes(16): {0: 2}})
    group.apply(ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"), member.metadata_value())
    group.apply(ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"), member.assignment_value())
    assert group.owner_of(bytes(16), 0) == "m"
    group.apply(ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"), None)
    assert (group.members, group.owners) == ({}, {})
