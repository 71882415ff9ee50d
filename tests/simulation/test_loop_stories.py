"""Stories about event loops: a serving node's never waits for a disk, and a client's does nothing in vain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from minikafka.client import Consumer
from minikafka.client.connections.seams import Seams
from minikafka.protocol.errors import OffsetOutOfRangeError
from minikafka.protocol.names import TopicPartition
from simulation.story import Story, Tell, values
from simulation.world.process_disk import ProcessDisk

SLOW_S = 8.0
"""Nearly as long as the session of a broker (`broker.session.timeout.ms`)."""


class Watch:
    """Which files were synced on event loops, once `armed`."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.armed = False
        self.found: list[str] = []
        self._in_thread = False
        self._call, self._run = ProcessDisk.call, ProcessDisk.run
        watch = self

        def call(disk: ProcessDisk, kind: str, path: str) -> None:
            if kind == "sync" and watch.armed and not watch._in_thread:
                watch.found.append(path)
            watch._call(disk, kind, path)

        async def run(disk: ProcessDisk, function: Callable[..., Any], *args: object) -> Any:
            return await watch._run(disk, watch._in_a_thread, function, *args)

        patch.setattr(ProcessDisk, "call", call)
        patch.setattr(ProcessDisk, "run", run)

    def _in_a_thread(self, function: Callable[..., Any], *args: object) -> Any:
        self._in_thread = True
        try:
            return function(*args)
        finally:
            self._in_thread = False


SETTINGS = {
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
    "metadata.log.max.record.bytes.between.snapshots": "500",
}


def busy(story: Story) -> None:
    """A topic is written, deleted, and made anew; checkpoints and snapshots are due all the time."""
    for round_ in range(2):
        story.create("t", [1, 2, 3], {"segment.bytes": "1048576", "retention.bytes": "1"})
        story.produce("t", *values(0, 50), acks="all")
        story.wait(2)
        if round_ == 0:
            story.delete("t")
            story.wait(2)


def test_no_file_is_synced_on_the_loop_of_a_node_that_serves(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(monkeypatch)
    story = tell(SETTINGS, nodes=3)
    story.start()
    watch.armed = True
    busy(story)
    host = story.hosts[1]
    story.cluster.stop(host)
    story.until(lambda: not host.is_running)
    assert watch.found == []


@pytest.mark.slow
def test_a_metadata_snapshot_is_not_synced_on_the_loop_that_installs_it(
    tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(monkeypatch)
    story = tell(SETTINGS, nodes=3)
    story.start()
    cut_off = next(node_id for node_id in (1, 2, 3) if node_id != story.active)
    watch.armed = True
    story.isolate(cut_off)
    others = [node_id for node_id in (1, 2, 3) if node_id != cut_off]
    for number in range(8):
        story.create(f"t{number}", others)
    story.wait(5)
    story.isolate(cut_off, cut=False)
    story.until(lambda: any("metadata snapshot installed" in line for line in story.lines))
    story.until(lambda: story.controllers[cut_off].image.topics.keys() == story.image.topics.keys())
    assert watch.found == []


@pytest.mark.slow
def test_a_broker_with_a_slow_disk_keeps_its_session(tell: Tell) -> None:
    story = tell(SETTINGS, brokers=3)
    story.start()
    story.hosts[1].disk.slow("/data", lambda random: SLOW_S)
    epoch = story.image.brokers[1].epoch
    busy(story)
    story.wait(30)
    assert story.image.brokers[1].epoch == epoch
    assert not story.image.brokers[1].fenced
    story.hosts[1].disk.fast("/data")
    story.until_in_sync("t", 1, 2, 3)


def test_a_consumer_that_waits_for_a_seek_uses_no_processor(tell: Tell) -> None:
    story = tell(nodes=1)
    story.start()
    story.create("t", [1])
    story.produce("t", *values(0, 5))

    async def program(seams: Seams) -> tuple[int, list[bytes | None]]:
        tp, machine = TopicPartition("t", 0), story.world.running
        assert machine is not None
        bootstrap_servers = story.cluster.bootstrap_servers
        async with Consumer(bootstrap_servers=bootstrap_servers, seams=seams, auto_offset_reset="none") as consumer:
            consumer.assign([tp])
            with pytest.raises(OffsetOutOfRangeError):
                await consumer.poll(5000)
            before = machine.steps
            await trio.sleep(10)
            idle = machine.steps - before
            consumer.seek(tp, 3)
            return idle, [record.value for record in await consumer.poll(5000)]

    idle, found = story.do(program)
    assert found == [b"value 3", b"value 4"]
    assert idle < 10


def test_a_consumer_whose_leader_is_no_known_broker_uses_no_processor(tell: Tell) -> None:
    """As after beginning with the bootstrap addresses again (KIP-1102), while none of them can be reached."""
    story = tell(nodes=1)
    story.start()
    story.create("t", [1])
    story.produce("t", *values(0, 5))
    steps: list[int] = []

    async def program(seams: Seams) -> list[bytes | None]:
        machine = story.world.running
        assert machine is not None
        async with Consumer(
            bootstrap_servers=story.cluster.bootstrap_servers, seams=seams, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            found = [record.value for record in await consumer.poll(5000)]
            steps.append(machine.steps)
            await trio.sleep(5)
            consumer.cluster._begin_again("as a test wants it")
            while not story.hosts[1].is_running:
                await trio.sleep(1)
            steps.append(machine.steps)
            return found + [record.value for record in await consumer.poll(60_000)]

    running = story.begin(program)
    story.until(lambda: bool(steps))
    story.crash(1)
    story.wait(30)
    story.restart(1)
    story.produce("t", *values(5, 6))
    story.until(lambda: running.done, within_s=120)
    assert running.result == [b"value %d" % number for number in range(6)]
    assert steps[1] - steps[0] < 2000
