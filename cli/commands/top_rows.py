"""Computes the output of `minikafka top` from the state of a cluster at two moments, with rates between them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from minikafka.cli.terminal.tables import table
from minikafka.protocol.counted import counted

if TYPE_CHECKING:
    from minikafka.client import ClusterDescription, TopicPartition
    from minikafka.client.connections.cluster_metadata import Partition, Topic

Row = dict[str, Any]


@dataclass(frozen=True)
class GroupSample:
    """A group at a moment, with its committed offsets by partition."""

    group_id: str
    state: str
    members: int
    committed: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class Sample:
    """The state of a cluster at a moment.

    Attributes:
        at_s: the time in seconds of a monotonic clock.
        controller: the node id of the active controller, None if it is not known.
        ends: the end offset of each partition that has a leader.
        sizes: the size of each topic in bytes, with all its replicas.
    """

    at_s: float
    cluster: ClusterDescription
    controller: int | None
    topics: Sequence[Topic]
    ends: Mapping[TopicPartition, int]
    sizes: Mapping[str, int] = field(default_factory=dict)
    groups: Sequence[GroupSample] = ()


def details(before: Sample | None, now: Sample) -> Row:
    """The details of a frame for JSON; rates are null in the first frame."""
    added = growth({} if before is None else before.ends, now.ends)
    seconds = None if before is None else max(now.at_s - before.at_s, 1e-3)
    partitions = [one for topic in now.topics for one in topic.partitions]
    return {
        "cluster_id": now.cluster.cluster_id,
        "controller": now.controller,
        "partitions": len(partitions),
        "under_replicated": sum(map(lacks, partitions)),
        "offline": sum(one.leader < 0 for one in partitions),
        "brokers": broker_rows(now, added, seconds),
        "topics": topic_rows(now, added, seconds),
        "groups": group_rows(before, now, seconds),
    }


def growth(before: Mapping[TopicPartition, int], now: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The growth of each partition's offset. Partitions that were created anew or are not in both are left out."""
    return {tp: end - before[tp] for tp, end in now.items() if tp in before and end >= before[tp]}


def rate(counts: Iterable[int], seconds: float | None) -> float | None:
    """The rate per second of counts; None if the time is not known."""
    return None if seconds is None else round(sum(counts) / seconds, 1)


def lacks(partition: Partition) -> bool:
    """Whether replicas of a partition are not in sync."""
    return len(partition.in_sync_replicas) < len(partition.replicas)


def broker_rows(now: Sample, added: Mapping[TopicPartition, int], seconds: float | None) -> list[Row]:
    """A row for each broker, by id: the partitions that it leads, and the records per second sent to them."""
    leaders = {(topic.name, one.index): one.leader for topic in now.topics for one in topic.partitions}
    partitions = [one for topic in now.topics for one in topic.partitions]
    return [
        {
            "broker": one.node_id,
            "address": f"{one.host}:{one.port}",
            "leads": sum(some.leader == one.node_id for some in partitions),
            "in_sync": sum(one.node_id in some.in_sync_replicas for some in partitions),
            "replicas": sum(one.node_id in some.replicas for some in partitions),
            "records_per_s": rate((n for tp, n in added.items() if leaders[tp] == one.node_id), seconds),
        }
        for one in sorted(now.cluster.brokers, key=lambda one: one.node_id)
    ]


def topic_rows(now: Sample, added: Mapping[TopicPartition, int], seconds: float | None) -> list[Row]:
    """A row for each topic, the busiest first."""
    rows = [
        {
            "topic": one.name,
            "partitions": len(one.partitions),
            "under_replicated": sum(map(lacks, one.partitions)),
            "size_bytes": now.sizes.get(one.name),
            "records_per_s": rate((n for tp, n in added.items() if tp.topic == one.name), seconds),
        }
        for one in now.topics
    ]
    return sorted(rows, key=lambda row: (-(row["records_per_s"] or 0), row["topic"]))


def group_rows(before: Sample | None, now: Sample, seconds: float | None) -> list[Row]:
    """A row for each group, the group with the largest lag first."""
    known = {one.group_id: one.committed for one in before.groups} if before is not None else {}
    rows = [
        {
            "group": one.group_id,
            "state": one.state,
            "members": one.members,
            "lag": lag(one.committed, now.ends),
            "records_per_s": rate(growth(known.get(one.group_id, {}), one.committed).values(), seconds),
        }
        for one in now.groups
    ]
    return sorted(rows, key=lambda row: (-(row["lag"] or 0), row["group"]))


def lag(committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int | None:
    """The number of records that a group still has to read; None if it has not committed any offset."""
    known = [max(ends[tp] - offset, 0) for tp, offset in committed.items() if tp in ends]
    return sum(known) if known else None


def lines(frame: Row, rows_max: int) -> list[str]:
    """A frame as text, with at most `rows_max` rows of each table."""
    controller = "-" if frame["controller"] is None else frame["controller"]
    summary = [
        f"cluster {frame['cluster_id']}, controller {controller}, {counted(len(frame['brokers']), 'broker')}",
        f"{counted(frame['partitions'], 'partition')}, "
        f"{frame['under_replicated']:,} under-replicated, {frame['offline']:,} without leader",
    ]
    shown = [
        (frame["brokers"], ("broker", "address", "leads", "in sync", "replicas", "records/s")),
        (frame["groups"], ("group", "state", "members", "lag", "records/s")),
        (frame["topics"], ("topic", "partitions", "under-replicated", "size", "records/s")),
    ]
    text = summary
    for rows, titles in shown:
        if rows:
            text += ["", *table(titles, [cells(row) for row in rows[:rows_max]])]
    return text


def cells(row: Row) -> list[object]:
    """The cells of a row of a table."""
    from minikafka.cli.commands.log_dirs import size_text

    readable = {**row, "records_per_s": rate_text(row["records_per_s"])}
    if "lag" in row:
        readable["lag"] = "-" if row["lag"] is None else row["lag"]
    if "size_bytes" in row:
        readable["size_bytes"] = size_text(row["size_bytes"])
    return list(readable.values())


def rate_text(per_second: float | None) -> str:
    """A rate as text: whole from 10 on, otherwise with one decimal; `-` for None."""
    if per_second is None:
        return "-"
    return f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.1f}"
