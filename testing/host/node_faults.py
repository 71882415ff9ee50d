"""`NodeFaults`: what happens to whole nodes: their links, disks and clocks, and work on their logs that is done now."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable

from minikafka.broker.node.node import Node
from minikafka.broker.partitions.partition import Partition
from minikafka.storage.disks.disk import FileSlice
from minikafka.testing.faults.fault import Action, Fault, Limits, Selection
from minikafka.testing.host.nodes import Nodes

__all__ = ["NodeFaults"]

_ALWAYS = 1 << 62
_WRITES = ("write", "sync")
_RECORDS_AT = 61
"""Where the records of a batch begin."""


class NodeFaults:
    """The faults of nodes, and the work of their logs. All methods raise ValueError for a node that there is not."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    # -- until they are removed ----------------------------------------------------------------------------------

    def isolate(self, node: int, from_: int | str | None = None, *, one_way: bool = False) -> Fault:
        """Cut the links of a node to and from others.

        Args:
            from_: Another node; `nodes` for all of them; None for all nodes and all clients.
            one_way: The node cannot connect to others, but they to it.
        """
        thread = self._nodes.thread(node)
        others = [self._nodes.thread(from_).node_id] if isinstance(from_, int) else self._nodes.others(node)
        links = [(node, other) for other in others]
        if not one_way:
            links += [(other, node) for other in others]
        self._nodes.links.cut(links)
        if from_ is None:
            thread.refuse_clients()

        def mend() -> None:
            self._nodes.links.mend(links)
            if from_ is None:
                thread.admit_clients()

        return self._until_removed("isolate", node, mend)

    def fill_disk(self, node: int) -> Fault:
        """Leave no room on the disk of a node."""
        disk = self._nodes.thread(node).disk
        left, disk.remaining_bytes = disk.remaining_bytes, 0

        def make_room() -> None:
            self._nodes.thread(node).disk.remaining_bytes += left

        return self._until_removed("fill_disk", node, make_room)

    def fail_disk(self, node: int) -> Fault:
        """Let all writes to the disk of a node fail. A broker without a good directory ends, as in Kafka."""
        for kind in _WRITES:
            self._nodes.thread(node).disk.fail(kind, times=_ALWAYS, code=errno.EIO)
        return self._until_removed("fail_disk", node, lambda: self._nodes.thread(node).disk.heal())

    def skew_clock(self, node: int, seconds: float) -> Fault:
        """Set the wall clock of a node ahead of the others, or behind them."""
        thread = self._nodes.thread(node)
        thread.skew_ms += (skew_ms := int(seconds * 1000))

        def set_right() -> None:
            thread.skew_ms -= skew_ms

        return self._until_removed("skew_clock", node, set_right)

    def _until_removed(self, verb: str, node: int, undo: Callable[[], None]) -> Fault:
        fault = self._nodes.faults.add(Selection(node=node), Action(verb), Limits())
        fault.at_end(undo)
        return fault

    # -- now -----------------------------------------------------------------------------------------------------

    def apply_retention(self) -> None:
        """Delete on all nodes what retention allows to delete now."""
        self._on_all(lambda node: node.parts.housekeeping().retain())

    def roll_segment(self, topic: str | None = None) -> None:
        """Begin new segments on all nodes, of one topic or of all."""

        async def roll(node: Node) -> None:
            for partition in list(node.parts.partitions):
                if topic in (None, partition.topic_partition.topic):
                    partition.log.roll()

        self._on_all(roll)

    def _on_all(self, work: Callable[[Node], Awaitable[None]]) -> None:
        for node_id in self._nodes.node_ids:
            if self._nodes.state_of(node_id) == "running":
                self._nodes.thread(node_id).in_node(work)

    def corrupt(self, topic: str, partition: int, offset: int) -> None:
        """Damage the batch that has an offset, where it is stored on its leader. Raises ValueError if there is none."""

        async def damage(node: Node) -> bool:
            found = node.parts.partitions.get(topic, partition)
            return found is not None and found.is_leader and _damage(found, offset)

        running = [one for one in self._nodes.node_ids if self._nodes.state_of(one) == "running"]
        if not any(self._nodes.thread(node_id).in_node(damage) for node_id in running):
            raise ValueError(f"no running node leads {topic}-{partition} and has a record at offset {offset}")


def _damage(partition: Partition, offset: int) -> bool:
    """Change a byte of the records of the batch with an offset; returns whether there is one."""
    log = partition.log
    if not log.start_offset <= offset < log.end_offset:
        return False
    found = log.read(offset, max_bytes=1)
    if not isinstance(found, FileSlice) or len(found) <= _RECORDS_AT:
        return False
    position = found.position + len(found) - 1
    (last,) = found.file.pread(position, 1)
    found.file.pwrite(position, bytes([last ^ 0xFF]))
    return True
