"""Makes table rows and JSON of consumer groups: members, committed offsets and lag. Pure except for requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minikafka.client import Admin, GroupDescription, TopicPartition
    from minikafka.client.admin.admin_types import GroupMember

NOTES_MAX = 3
"""The most notes that are printed one by one; more notes are combined into one line for each kind."""
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


@dataclass(frozen=True)
class PartitionOffsets:
    """A partition of a group: its committed offset and its end, None if not known, and the member that has it."""

    partition: TopicPartition
    committed: int | None
    end: int | None
    member: GroupMember | None

    @property
    def lag(self) -> int | None:
        """The distance from the committed offset to the end; negative if the log was truncated or created anew."""
        return None if self.committed is None or self.end is None else self.end - self.committed

    def details(self, group: GroupDescription) -> dict[str, Any]:
        """The details for JSON."""
        return {
            "group": group.group_id,
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "committed": self.committed,
            "end": self.end,
            "lag": self.lag,
            "member": None if self.member is None else self.member.member_id,
            "host": None if self.member is None else self.member.host,
            "client": None if self.member is None else self.member.client_id,
        }


@dataclass(frozen=True)
class GroupOffsets:
    """A group with its partitions, sorted: those that are assigned, and those with committed offsets."""

    description: GroupDescription
    partitions: list[PartitionOffsets]


async def read_group_offsets(admin: Admin, group_id: str) -> GroupOffsets:
    """Read a group's members, committed offsets and end offsets. Raises KafkaError.

    The committed offsets are read before the end offsets, so that the lag of an active group is not negative.
    """
    description = await admin.describe_group(group_id)
    committed = {tp: one.offset for tp, one in (await admin.list_group_offsets(group_id)).items()}
    members = {tp: one for one in description.members for tp in one.assignment}
    ends = await end_offsets(admin, {**committed, **members})
    partitions = sorted({**committed, **members})
    return GroupOffsets(
        description, [PartitionOffsets(tp, committed.get(tp), ends.get(tp), members.get(tp)) for tp in partitions]
    )


async def end_offsets(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The end offsets of the partitions that exist and have a leader."""
    from minikafka.client import LATEST

    wanted = list(partitions)
    led = await led_partitions(admin, wanted)
    found = await admin.list_offsets({tp: LATEST for tp in wanted if led.get(tp)})
    return {tp: one.offset for tp, one in found.items()}


async def led_partitions(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, bool]:
    """For each partition of the topics that exist, whether it has a leader."""
    from minikafka.client import TopicPartition

    topics = await admin.describe_topics(list(dict.fromkeys(tp.topic for tp in partitions)))
    return {
        TopicPartition(name, one.index): one.leader >= 0
        for name, topic in topics.items()
        for one in getattr(topic, "partitions", ())
    }


def notes_of(found: Iterable[GroupDescription]) -> list[str]:
    """Notes about the states of groups, in few lines, since the table after the notes is the result of the command."""
    notes: list[str] = []
    by_kind: dict[bool, list[str]] = {}
    for one in found:
        if note := note_of(one):
            notes.append(note)
            by_kind.setdefault(one.state == "Empty", []).append(one.group_id)
    if len(notes) <= NOTES_MAX:
        return notes
    words = {True: "without active members", False: "that are rebalancing"}
    return [
        f"Consumer groups {words[is_empty]} ({len(names):,}): {', '.join(names[:NOTES_MAX])}"
        + (", …" if len(names) > NOTES_MAX else "")
        for is_empty, names in by_kind.items()
    ]


def note_of(group: GroupDescription) -> str:
    """The note of Kafka's tool about the state of a group; "" for a stable group."""
    if group.state == "Empty":
        return f"Consumer group '{group.group_id}' has no active members."
    if group.state in REBALANCING:
        return f"Warning: Consumer group '{group.group_id}' is rebalancing."
    return ""


def lag_rows(group: GroupOffsets) -> list[list[object]]:
    """A table row for each partition of a group."""
    return [
        [
            group.description.group_id,
            one.partition.topic,
            one.partition.partition,
            _known(one.committed),
            _known(one.end),
            _known(one.lag),
            one.member.member_id if one.member else "-",
            one.member.host if one.member else "-",
            one.member.client_id if one.member else "-",
        ]
        for one in group.partitions
    ]


def member_rows(group: GroupDescription) -> list[list[object]]:
    """A table row for each member of a group, sorted by member id."""
    return [
        [
            group.group_id,
            one.member_id,
            one.instance_id or "-",
            one.host,
            one.client_id,
            one.epoch if one.epoch >= 0 else "-",
            len(one.assignment),
            assignment_text(one),
        ]
        for one in sorted(group.members, key=lambda one: one.member_id)
    ]


def assignment_text(member: GroupMember) -> str:
    """The partitions of a member as text: `flights:0,1 delays:2`, with the target in brackets if it differs."""
    text = partitions_text(member.assignment)
    if member.epoch >= 0 and set(member.target) != set(member.assignment):
        text += f" (to have {partitions_text(member.target)})"
    return text


def partitions_text(partitions: Sequence[TopicPartition]) -> str:
    """Partitions as text: `flights:0,1 delays:2`; `-` for none."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return " ".join(f"{topic}:{','.join(map(str, some))}" for topic, some in by_topic.items()) or "-"


def description_json(group: GroupDescription) -> dict[str, Any]:
    """A group for JSON, without its members."""
    return {
        "group": group.group_id,
        "type": group.group_type,
        "state": group.state,
        "protocol": group.protocol_type,
        "assignor": group.assignor or None,
        "coordinator": group.coordinator,
        "epoch": group.epoch if group.epoch >= 0 else None,
        "members": len(group.members),
    }


def member_json(group: GroupDescription, member: GroupMember) -> dict[str, Any]:
    """A member for JSON."""
    return {
        "group": group.group_id,
        "member": member.member_id,
        "instance": member.instance_id,
        "host": member.host,
        "client": member.client_id,
        "epoch": member.epoch if member.epoch >= 0 else None,
        "assignment": [list(tp) for tp in sorted(member.assignment)],
        "target": [list(tp) for tp in sorted(member.target)] if member.epoch >= 0 else None,
    }


def _known(value: int | None) -> int | str:
    return "-" if value is None else value
