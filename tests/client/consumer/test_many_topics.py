"""A subscription to thousands of topics takes time in proportion to their number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client import TopicPartition


class Counted(dict[TopicPartition, Any]):
    """Counts how often somebody looks at all items."""

    looks = 0

    def __iter__(self) -> Iterator[TopicPartition]:
        self.looks += 1
        return super().__iter__()


def test_the_partitions_of_a_pattern_are_found_in_one_look() -> None:
    async def story() -> None:
        cluster = ScriptedCluster(**{f"t{number}": 2 for number in range(100)})
        async with cluster.consumer() as consumer:
            await consumer.subscribe(pattern="t.*")
            cluster.delete("t5")
            consumer._fetcher.states = states = Counted(consumer._fetcher.states)
            found = consumer._subscriptions._all_partitions()
            assert states.looks == 1
            assert len(found) == 200
            assert consumer._loop is not None
            consumer._loop._missing._report_missing(states.values())
            assert states.looks == 1
            consumer._fetcher.states = dict(states)

    on_virtual_time(story)
