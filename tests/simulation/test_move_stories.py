"""Stories about replicas that move between the data directories of their brokers (KIP-113)."""

from __future__ import annotations

import errno

import pytest
import trio

from minikafka.client.connections.connection import open_connection
from minikafka.client.connections.seams import Seams
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from minikafka.storage.disks.disk import FileSlice
from simulation.story import Story, Tell
from simulation.test_directory_stories import RECORDS, SYNCED, home, logs_of, with_topic


def move(story: Story, node_id: int) -> str:
    """Begin to move a broker's replica of `t` to its other directory; returns that."""
    target = "/data/a" if home(story, node_id, "t") == "/data/b" else "/data/b"
    host, _, port = story.cluster.bootstrap_servers.split(",")[node_id - 1].rpartition(":")
    topic = AlterReplicaLogDirTopic(name="t", partitions=[0])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=target, topics=[topic])])

    async def program(seams: Seams) -> int:
        async with trio.open_nursery() as nursery:
            connection = await open_connection(
                host, int(port), client_id="mover", seams=seams, task_group=nursery, timeout_ms=5000
            )
            response = await connection.request(request, timeout_ms=5000)
            connection.close()
            nursery.cancel_scope.cancel()
        return int(response.results[0].partitions[0].error_code)

    assert story.do(program) == ErrorCode.NONE
    return target


def is_in(story: Story, node_id: int, directory: str) -> bool:
    """Whether the replica is in a directory, and the metadata say so."""
    ids = {one.path: one.id for one in story.node(node_id).parts.logs.directories}
    return home(story, node_id, "t") == directory and story.state("t").directory(node_id) == ids[directory]


def test_a_leader_and_a_follower_move_while_records_are_written(tell: Tell) -> None:
    story = with_topic(tell)
    written = list(RECORDS)
    for round_number in range(3):
        targets = {node_id: move(story, node_id) for node_id in (1, 2)}
        more = [f"round {round_number}, record {number}" for number in range(30)]
        story.produce("t", *more, acks="all")
        written += more
        story.until(lambda targets=targets: all(is_in(story, *one) for one in targets.items()), within_s=10)
    story.until_in_sync("t", 1, 2, 3)
    assert story.read("t") == written
    story.prefer("t", 2, 1, 3)
    assert story.produce("t", "led from the other directory", acks="all") == [len(written)]


@pytest.mark.parametrize("delay_s", [0.02, 0.06, 0.11, 0.3])
def test_a_power_failure_during_a_move_loses_nothing_that_was_flushed(tell: Tell, delay_s: float) -> None:
    story = with_topic(tell, SYNCED)
    target = move(story, 1)
    writing = story.begin(story.producing("t", *(f"more {number}" for number in range(50)), acks="all"))
    story.wait(delay_s)
    story.crash(1)
    story.until(lambda: writing.done)
    story.restart(1)
    story.until_in_sync("t", 1, 2, 3)
    story.until(lambda: is_in(story, 1, target), within_s=10)
    assert story.read("t") == [*RECORDS, *(f"more {number}" for number in range(50))]
    assert [path for path in logs_of(story.hosts[1], "t") if not path.endswith("-delete")] == [f"{target}/t-0"]
    story.prefer("t", 1, 2, 3)
    assert len(story.read("t")) == len(RECORDS) + 50


@pytest.mark.parametrize("node_id", [1, 2])
def test_a_replica_that_cannot_be_read_for_its_copy_is_lost_with_its_directory(tell: Tell, node_id: int) -> None:
    """As in Kafka: others lead and are in sync; the copy, which is not complete, takes nobody's place."""
    story = with_topic(tell)
    host, source = story.hosts[node_id], home(story, node_id, "t")
    host.disk.fail_directory(source, "reads")
    target = move(story, node_id)
    story.until_in_sync("t", *({1, 2, 3} - {node_id}), within_s=10)
    assert story.state("t").leader != node_id
    assert story.produce("t", "later", acks="all") == [len(RECORDS)]
    story.wait(5)
    assert f"{target}/t-0" not in logs_of(host, "t")
    story.crash(node_id)
    host.disk.heal()
    story.start()
    story.until_in_sync("t", 1, 2, 3)
    assert story.read("t") == [*RECORDS, "later"]


def test_a_move_goes_on_after_a_lack_of_descriptors(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is no failure of the disk that the replica is read from."""
    story = with_topic(tell)
    failures = [OSError(errno.EMFILE, "Too many open files")] * 2
    read = FileSlice.read

    def short_of_descriptors(part: FileSlice) -> bytes:
        if failures:
            raise failures.pop()
        return read(part)

    monkeypatch.setattr(FileSlice, "read", short_of_descriptors)
    target = move(story, 1)
    story.until(lambda: is_in(story, 1, target), within_s=10)
    assert failures == []
    assert story.read("t") == RECORDS
