"""`PartitionStates`: what the controllers have decided about partitions is possible, at every moment.

A leader is in sync and not fenced; a fenced broker is in no ISR, unless it is the last one in it; a leader epoch has
one leader, and epochs do not go back. Source: the invariants of Kafka's `ReplicationControlManager`, KIP-966.
"""

from __future__ import annotations

from collections.abc import Iterator

from minikafka.controller.metadata.image import Image, PartitionState
from simulation.metadata_checks import LOOK_EVERY_S
from simulation.world.cluster import Cluster

Key = tuple[bytes, int]
"""Topic id and partition."""


class PartitionStates:
    """See above.

    Attributes:
        broken: What is wrong, as a sentence; "" if nothing is.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._seen = -1
        self._epochs: dict[Key, tuple[int, int]] = {}
        self._leaders: dict[tuple[Key, int], int] = {}
        self.broken = ""

    def keep_looking(self) -> None:
        """Look at the newest metadata, again and again."""
        self.look()
        self._cluster.world.after(LOOK_EVERY_S, self.keep_looking)

    def look(self) -> None:
        """Judge the newest metadata that a node has applied."""
        running = [one for host in self._cluster.hosts.values() if (one := host.controller) is not None]
        newest = max(running, key=lambda one: one.offset, default=None)
        if newest is None or newest.offset <= self._seen:
            return
        self._seen = newest.offset
        for what in self._broken(newest.image):
            if not self.broken:
                self._cluster.world.trace("chaos", f"broken: {what}")
                self.broken = what

    def _broken(self, image: Image) -> Iterator[str]:
        fenced = {node_id for node_id, broker in image.brokers.items() if broker.fenced}
        for topic in image.topics.values():
            for index, state in enumerate(topic.partitions):
                name = f"{topic.name}-{index}"
                yield from (f"{name} {what}" for what in _impossible(state, fenced))
                yield from (f"{name} {what}" for what in self._backwards((topic.id, index), state))

    def _backwards(self, key: Key, state: PartitionState) -> Iterator[str]:
        before, now = self._epochs.get(key, (-1, -1)), (state.leader_epoch, state.partition_epoch)
        if any(one < known for one, known in zip(now, before, strict=True)):
            yield f"has leader epoch and partition epoch {now}, which were {before}"
        self._epochs[key] = now
        if state.leader >= 0:
            known = self._leaders.setdefault((key, state.leader_epoch), state.leader)
            if known != state.leader:
                yield f"has leaders {known} and {state.leader} in epoch {state.leader_epoch}"


def _impossible(state: PartitionState, fenced: set[int]) -> Iterator[str]:
    if state.leader >= 0 and state.leader not in state.isr:
        yield f"is led by {state.leader}, which is not in the ISR {state.isr}"
    if state.leader in fenced:
        yield f"is led by {state.leader}, which is fenced"
    if len(state.isr) > 1 and fenced.intersection(state.isr):
        yield f"has fenced brokers {sorted(fenced.intersection(state.isr))} in its ISR {state.isr}"
    if not {*state.isr, *state.elr} <= {*state.replicas}:
        yield f"has replicas {state.replicas}, and others in its ISR {state.isr} or among the eligible ones {state.elr}"
    if {*state.isr} & {*state.elr}:
        yield f"has ISR {state.isr} and eligible replicas {state.elr}, which overlap"
