"""Stories about nodes whose disks have faults."""

from __future__ import annotations

from random import Random

import pytest

from simulation.faults import disks
from simulation.faults.chaos import Chaos
from simulation.faults.disks import end_at_operation
from simulation.invariants import broken_at_rest
from simulation.story import Story, Tell
from simulation.test_directory_stories import RECORDS, home, with_topic


def test_a_directory_that_has_just_failed_is_reported_as_failed() -> None:
    story = Story({"log.dirs": "/data/a,/data/b"}, nodes=3)
    story.start()
    story.create("t", [1, 2, 3])
    directories = story.node(1).parts.logs.directories
    for one in directories:
        total_bytes, usable_bytes = one.sizes() or (0, 0)
        assert usable_bytes > 0
        assert total_bytes >= usable_bytes
    story.hosts[1].disk.fail_directory("/data/b")
    found = [(one.path, one.sizes() is None) for one in directories]
    assert found == [("/data/a", False), ("/data/b", True)]
    story.end()


def test_a_process_ends_exactly_at_an_operation_of_its_disk() -> None:
    """Its host loses power, which nobody hears of before its session ends."""
    story = Story({"broker.session.timeout.ms": "3000"}, nodes=3)
    story.start()
    story.create("t", [1, 2, 3])
    chaos = Chaos(story.cluster, durable=False, tolerates_loss=True)
    host = story.hosts[1]
    chaos.inject("at an operation", end_at_operation, chaos, Random(1), host, 3, "write")
    story.produce("t", *"abcdef", acks="all")
    story.until(lambda: not host.is_running)
    assert any(f"{host.name}: ends at" in line for line in story.lines)
    story.until(lambda: host.ready)
    assert story.world.coverage["fault: at an operation"] == 1
    assert story.read("t") == [*"abcdef"]
    story.end()


def test_a_broker_on_an_old_copy_of_its_disk_catches_up_and_leads_nothing_before() -> None:
    story = Story({"min.insync.replicas": "2"}, brokers=3)
    story.start()
    story.create("t", [1, 2, 3])
    story.produce("t", "a", acks="all")
    host = story.hosts[1]
    copies = [host.disk.copy(path) for path in host.directories]
    story.produce("t", "b", "c", acks="all")
    story.cluster.kill(host)
    for copy in copies:
        host.disk.restore(copy)
    story.start()
    story.until_in_sync("t", 1, 2, 3)
    story.prefer("t", 1, 2, 3)
    assert story.read("t") == ["a", "b", "c"]
    story.end()


def test_a_host_with_a_fault_that_nobody_knows_of_stays_unsafe() -> None:
    story = Story({"min.insync.replicas": "2"}, nodes=3)
    story.start()
    story.create("t", [1, 2, 3])
    story.until_in_sync("t", 1, 2, 3)
    chaos = Chaos(story.cluster, durable=True, tolerates_loss=True)
    one, two = story.hosts[1], story.hosts[2]
    assert chaos.may_lose_disk(one)
    chaos.loses_disk(one)
    chaos.pin(one)
    assert chaos.may_lose_disk(one)
    assert not chaos.may_lose_disk(two)
    assert not chaos.may_lose_records(two), "a broker that loses power is no eligible leader"
    chaos.unpin(one)
    assert chaos.may_lose_disk(two), "it is in every ISR"
    chaos.pin(one, for_good=True)
    chaos.pin(one)
    chaos.unpin(one)
    assert not chaos.may_lose_disk(two), "the end of one fault is not the end of the other"
    story.end()


@pytest.mark.parametrize("left", [False, True])
def test_a_rotten_disk_with_a_failed_directory_is_replaced_when_the_faults_end(tell: Tell, left: bool) -> None:
    """The directory is mounted again first; one that has failed for good stays as it is, and its node goes on."""
    story = with_topic(tell)
    host, failed = story.hosts[1], home(story, 1, "t")
    chaos = Chaos(story.cluster, durable=False, tolerates_loss=True)
    host.disk.fail_directory(failed)
    chaos.pin(host, for_good=True)
    chaos.at_heal["replace"] = lambda: disks._replace(chaos, host)
    if left:
        chaos.left_failed[1] = failed
    story.wait(1)
    chaos.heal()
    story.until(lambda: host.ready)
    story.until_in_sync("t", *((2, 3) if left else (1, 2, 3)))
    story.until(lambda: broken_at_rest(story.hosts.values()) == [])
    assert story.read("t") == RECORDS


def test_a_voter_whose_disk_takes_eight_seconds_knows_its_leader_and_its_broker_is_not_fenced(tell: Tell) -> None:
    """Nothing that it sends before its records are on the device is missed: the disk says nothing about the leader."""
    story = tell(nodes=3)
    story.start()
    story.create("t", [1, 2, 3])
    story.until_in_sync("t", 1, 2, 3)
    leader = story.active
    slow = next(node_id for node_id in story.hosts if node_id != leader)
    for directory in story.hosts[slow].directories:
        story.hosts[slow].disk.slow(directory, lambda _: 8.0)
    before = len(story.lines)
    for number in range(3):
        story.create(f"u{number}", [one for one in (1, 2, 3) if one != slow])
        story.wait(15)
    assert [line for line in story.lines[before:] if "fenced" in line or "following" in line] == []
    assert story.active == leader
    assert not story.image.brokers[slow].fenced
