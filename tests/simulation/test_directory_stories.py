"""Stories about brokers with several data directories: one fails, is missing, or comes back (KIP-112, KIP-858)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random

import pytest

from minikafka.protocol.errors import KafkaStorageError
from minikafka.protocol.names import TopicPartition
from simulation.story import Story, Tell
from simulation.world.cluster import Host
from simulation.world.rot import SEGMENT_MIDDLE

TWO = {"log.dirs": "/data/a,/data/b", "metadata.log.dir": "/metadata", "min.insync.replicas": "2"}
SYNCED = {**TWO, "log.flush.interval.messages": "1"}
RECORDS = [f"record {number}" for number in range(20)]


def home(story: Story, node_id: int, topic: str) -> str:
    """The data directory that has a broker's replica."""
    return story.replica(node_id, topic).log.directory.rpartition("/")[0]


def with_topic(tell: Tell, settings: Mapping[str, str] = TWO) -> Story:
    """Three brokers, and a topic with acknowledged records, which node 1 leads."""
    story = tell(settings, nodes=3)
    story.start()
    story.create("t", [1, 2, 3])
    assert story.produce("t", *RECORDS, acks="all") == list(range(20))
    story.until_in_sync("t", 1, 2, 3)
    return story


def stop(story: Story, node_id: int) -> None:
    """Stop a node cleanly, and wait for its end."""
    host = story.hosts[node_id]
    story.cluster.stop(host)
    story.until(lambda: not host.is_running)


def logs_of(host: Host, topic: str) -> list[str]:
    """The paths of a topic's logs on a disk, strays too."""
    return sorted(
        f"{path}/{name}"
        for path in host.data_directories
        for name in host.disk.list(path)
        if name.startswith(f"{topic}-0")
    )


def test_a_leader_whose_directory_fails_is_replaced_within_seconds_and_serves_from_the_other(tell: Tell) -> None:
    story = with_topic(tell)
    failed = home(story, 1, "t")
    story.hosts[1].disk.fail_directory(failed)
    assert story.produce("t", "after", acks="all") == [20]
    story.until(lambda: story.state("t").leader in (2, 3) and 1 not in story.state("t").isr, within_s=3)
    assert story.hosts[1].ready
    story.create("u", [1, 2, 3])
    story.produce("u", "new", acks="all")
    assert story.state("u").leader == 1
    assert home(story, 1, "u") != failed
    assert story.read("t") == [*RECORDS, "after"]


def test_a_follower_whose_directory_fails_leaves_the_isr_at_once_and_stays_out(tell: Tell) -> None:
    story = with_topic(tell)
    other = "/data/a" if home(story, 2, "t") == "/data/b" else "/data/b"
    story.create("u", [2, 1, 3])
    story.create("v", [1, 2, 3])
    assert (home(story, 2, "u"), home(story, 2, "v")) == (other, home(story, 2, "t"))
    story.hosts[2].disk.fail_directory(home(story, 2, "t"))
    story.produce("v", "of another topic in the same directory", acks="all")
    story.until_in_sync("t", 1, 3, within_s=3)
    story.until_in_sync("v", 1, 3, within_s=3)
    story.wait(20)
    assert sorted(story.state("t").isr) == sorted(story.state("v").isr) == [1, 3]
    assert not any("isr change rejected" in line for line in story.lines)
    assert story.state("u").leader == 2


@pytest.mark.parametrize("killed", [False, True])
def test_a_directory_that_fails_at_start_means_an_unclean_start_and_no_log_is_made_anew(
    tell: Tell, killed: bool
) -> None:
    story = with_topic(tell, SYNCED)
    host, failed = story.hosts[1], home(story, 1, "t")
    if killed:
        story.cluster.kill(host)
    else:
        stop(story, 1)
    host.disk.fail_directory(failed)
    story.start()
    assert story.node(1).parts.logs.failures.previous_broker_epoch == -1
    story.wait(10)
    assert sorted(story.state("t").isr) == [2, 3]
    story.produce("t", "after", acks="all")
    stop(story, 1)
    host.disk.repair_directory(failed)
    host.disk.mount_again(failed)
    story.start()
    assert home(story, 1, "t") == failed
    assert logs_of(host, "t") == [f"{failed}/t-0"]
    story.until_in_sync("t", 1, 2, 3)
    story.prefer("t", 1, 2, 3)
    assert story.read("t") == [*RECORDS, "after"]


@pytest.mark.parametrize("missing", [False, True])
def test_a_directory_that_is_not_mounted_at_start_and_is_at_the_next(tell: Tell, missing: bool) -> None:
    story = with_topic(tell)
    host, path = story.hosts[1], home(story, 1, "t")
    for mounted in (False, True):
        stop(story, 1)
        if mounted:
            host.disk.mount(path)
        else:
            host.disk.unmount(path, missing=missing)
        story.start()
        story.until_in_sync("t", 1, 2, 3)
        assert home(story, 1, "t") == path
    story.prefer("t", 1, 2, 3)
    assert story.read("t") == RECORDS


@pytest.mark.slow
@pytest.mark.parametrize("settings", [TWO, SYNCED])
def test_a_topic_that_is_made_anew_while_its_directory_is_offline(tell: Tell, settings: dict[str, str]) -> None:
    story = with_topic(tell, settings)
    host, failed = story.hosts[1], home(story, 1, "t")
    for directory in (failed, f"{failed}/t-0"):
        host.disk.sync_directory(directory)  # The kernel writes names back at any time.
    host.disk.fail_directory(failed)
    story.produce("t", "after", acks="all")
    story.delete("t")
    story.create("t", [1, 2, 3])
    story.produce("t", "of the second topic", acks="all")
    assert home(story, 1, "t") != failed
    stop(story, 1)
    host.disk.repair_directory(failed)
    host.disk.mount_again(failed)
    story.start()
    story.until_in_sync("t", 1, 2, 3)
    story.prefer("t", 1, 2, 3)
    assert story.read("t") == ["of the second topic"]
    kept, stray = sorted(logs_of(host, "t"), key=lambda path: path.endswith("-stray"))
    assert not kept.startswith(failed)
    assert stray.startswith(f"{failed}/t-0.")
    assert any("stray log set aside" in line for line in story.lines)


@pytest.mark.parametrize("paths", [["/data/a", "/data/b"], ["/metadata"]])
def test_without_a_data_directory_or_that_of_the_metadata_the_node_stops_and_says_so(
    tell: Tell, paths: list[str]
) -> None:
    story = with_topic(tell)
    host = story.hosts[1]
    story.create("u", [1, 2, 3])
    for path in paths:
        host.disk.fail_directory(path)
    story.produce("t", "after", acks="all")
    story.produce("u", "after", acks="all")
    story.until(lambda: not host.is_running)
    assert "/metadata" in paths or "all its data directories have failed" in host.refused
    story.until(lambda: story.state("t").leader in (2, 3))


def test_a_lone_node_goes_on_with_the_directory_that_is_left(tell: Tell) -> None:
    story = tell({**SYNCED, "min.insync.replicas": "1"}, nodes=1)
    story.start()
    for topic in ("t", "u"):
        story.create(topic, [1])
        story.produce(topic, *RECORDS)
    host, failed = story.hosts[1], home(story, 1, "t")
    assert home(story, 1, "u") != failed
    host.disk.fail_directory(failed)
    writing = story.begin(story.producing("t", "after", delivery_timeout_ms=120_000))
    story.until(lambda: lone_leaders(story) == {"t": -1, "u": 1}, within_s=3)
    story.produce("u", "after")
    story.restart(1)
    assert lone_leaders(story) == {"t": -1, "u": 1}
    stop(story, 1)
    host.disk.repair_directory(failed)
    host.disk.mount_again(failed)
    story.start()
    assert lone_leaders(story) == {"t": 1, "u": 1}
    story.until(lambda: writing.done)
    assert story.read("t") == [*RECORDS, "after"]
    assert story.read("u") == [*RECORDS, "after"]


def lone_leaders(story: Story) -> dict[str, int]:
    """Leader by topic, as the only node sees them."""
    image = story.node(1).parts.image
    return {name: topic.partitions[0].leader for name, topic in image.topics.items() if not name.startswith("__")}


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("missing", [False, True])
def test_a_node_without_its_metadata_directory_refuses_to_start(tell: Tell, nodes: int, missing: bool) -> None:
    story = tell({"log.dirs": "/data/a,/data/b", "metadata.log.dir": "/metadata"}, nodes=nodes)
    story.start()
    story.create("t", [*range(1, nodes + 1)])
    story.produce("t", *RECORDS, acks="all")
    host = story.hosts[1]
    stop(story, 1)
    host.disk.unmount("/metadata", missing=missing)
    story.cluster.start(host)
    story.until(lambda: not host.is_running)
    assert "/metadata has no metadata log, but /data/a and /data/b belong to a cluster" in host.refused
    assert "`rm /data/a/meta.properties /data/b/meta.properties`" in host.refused
    host.disk.mount("/metadata")
    story.start()
    assert story.read("t") == RECORDS


def test_what_the_refusal_tells_to_type_starts_a_lone_node_and_keeps_its_logs(tell: Tell) -> None:
    story = tell({"log.dirs": "/data/a,/data/b", "metadata.log.dir": "/metadata"}, nodes=1)
    story.start()
    story.create("t", [1])
    story.produce("t", *RECORDS)
    host = story.hosts[1]
    stop(story, 1)
    host.disk.unmount("/metadata")
    for path in host.data_directories:
        host.disk.remove(f"{path}/meta.properties")
    story.start()
    (stray,) = logs_of(host, "t")
    assert stray.endswith("-stray")
    assert host.disk.file_size(f"{stray}/00000000000000000000.log") > 0
    assert any("stray log set aside" in line for line in story.lines)
    story.create("t", [1])
    assert story.read("t") == []
    story.restart(1)
    assert len(logs_of(host, "t")) == 2
    assert any("stray log kept" in line for line in story.lines)


def test_a_voter_that_lost_its_metadata_joins_again_when_told_to(tell: Tell) -> None:
    story = with_topic(tell)
    host = story.hosts[1]
    stop(story, 1)
    host.disk.unmount("/metadata")
    for path in host.data_directories:
        host.disk.remove(f"{path}/meta.properties")
    story.start()
    story.until_in_sync("t", 1, 2, 3)
    assert [path.rpartition("/")[2] for path in logs_of(host, "t")] == ["t-0"]
    assert story.read("t") == RECORDS


@pytest.mark.parametrize("settings", [TWO, {"min.insync.replicas": "2"}], ids=["three directories", "one"])
def test_what_the_refusal_of_a_damaged_metadata_log_tells_to_do_starts_the_node(
    tell: Tell, settings: Mapping[str, str]
) -> None:
    story = with_topic(tell, settings)
    host = story.hosts[1]
    stop(story, 1)
    metadata = "/metadata" if settings is TWO else host.data_directories[0]
    assert host.disk.rot(metadata, Random(1), kinds=[SEGMENT_MIDDLE], concerns=lambda path: "__cluster" in path)
    story.cluster.start(host)
    story.until(lambda: not host.is_running)
    (moved,) = re.findall(r"If the other voters run, move (\S+) away, and remove meta.properties of each", host.refused)
    host.disk.remove_tree(moved)
    for path in {metadata, *host.data_directories}:
        if host.disk.exists(f"{path}/meta.properties"):
            host.disk.remove(f"{path}/meta.properties")
    story.start()
    story.until_in_sync("t", 1, 2, 3)
    assert [path.rpartition("/")[2] for path in logs_of(host, "t")] == ["t-0"]
    assert story.read("t") == RECORDS


def test_metadata_say_where_each_replica_is(tell: Tell) -> None:
    story = with_topic(tell)
    story.until(lambda: all(_placed(story, node_id) for node_id in (1, 2, 3)), within_s=3)


def _placed(story: Story, node_id: int) -> bool:
    logs = story.node(node_id).parts.logs
    return story.state("t").directory(node_id) == logs.directory_id(TopicPartition("t", 0))


# -- full directories ------------------------------------------------------------------------------------------------


def test_a_leader_whose_directory_is_full_is_replaced_until_there_is_room(tell: Tell) -> None:
    story = with_topic(tell)
    full = home(story, 1, "t")
    story.hosts[1].disk.full(full)
    assert story.produce("t", "after", acks="all") == [20]
    story.until(lambda: story.state("t").leader in (2, 3) and 1 not in story.state("t").isr, within_s=5)
    assert story.produce("t", "later", acks="all") == [21]
    assert story.hosts[1].ready
    story.wait(20)
    assert 1 not in story.state("t").isr
    story.hosts[1].disk.free(full)
    story.until_in_sync("t", 1, 2, 3)
    story.prefer("t", 1, 2, 3)
    assert story.produce("t", "last", acks="all") == [22]
    assert story.read("t") == [*RECORDS, "after", "later", "last"]


def test_a_lone_replica_in_a_full_directory_is_read_and_refuses_writes_until_there_is_room(tell: Tell) -> None:
    story = tell({**TWO, "min.insync.replicas": "1"}, nodes=3)
    story.start()
    story.create("alone", [1])
    story.produce("alone", "a", "b")
    full = home(story, 1, "alone")
    story.hosts[1].disk.full(full)
    with pytest.raises(KafkaStorageError, match=r"alone-0 cannot be written: .*No space left on device"):
        story.produce("alone", "c", retries=0)
    story.wait(5)
    assert story.state("alone").leader == 1
    assert story.read("alone") == ["a", "b"]
    story.hosts[1].disk.free(full)
    story.produce("alone", "d")
    assert story.read("alone") == ["a", "b", "d"]


def test_two_logs_without_topic_ids_that_were_never_flushed_are_set_aside_and_the_node_starts(tell: Tell) -> None:
    """A topic is made anew while the directory with its log is offline; then power fails before either log is flushed.

    Kafka takes logs without a topic id for strays, too.
    """
    story = with_topic(tell)
    host, failed = story.hosts[1], home(story, 1, "t")
    host.disk.fail_directory(failed)
    story.until(lambda: story.state("t").leader in (2, 3))
    story.delete("t")
    story.create("t", [1, 2, 3])
    assert story.produce("t", *RECORDS, acks="all") == list(range(20))
    story.until_in_sync("t", 1, 2, 3)
    other = home(story, 1, "t")
    assert other != failed
    story.cluster.lose_power(host)
    host.disk.repair_directory(failed)
    for directory in (failed, other):
        _lose_topic_id(host, f"{directory}/t-0")
    story.start()
    story.until_in_sync("t", 1, 2, 3)
    assert len([path for path in logs_of(host, "t") if path.endswith("-stray")]) == 2
    story.prefer("t", 1, 2, 3)
    assert story.read("t") == RECORDS


def _lose_topic_id(host: Host, log: str) -> None:
    """What the power failure may leave of a log: its directory, without the unsynced file in it."""
    host.disk.make_directory(log)
    if host.disk.exists(f"{log}/partition.metadata"):
        host.disk.remove(f"{log}/partition.metadata")
