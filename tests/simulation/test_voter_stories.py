"""Stories about nodes whose quorum is a dynamic one: its voters come and go (KIP-853)."""

from __future__ import annotations

from random import Random

import pytest

from minikafka.broker.node.format import Voters
from minikafka.client.admin.admin import Admin
from minikafka.client.connections.seams import Seams
from minikafka.controller.raft.voter_set import ReplicaKey
from minikafka.protocol.errors import KafkaError
from simulation.faults.chaos import Chaos
from simulation.faults.operators import Change, adding, removing, upgrade
from simulation.invariants import broken_at_rest
from simulation.story import Story
from simulation.world.quorums import (
    BOOTSTRAP,
    INITIAL,
    STANDALONE,
    UPGRADED,
    endpoints_of,
    format_host,
    key_on_disk,
    move_controller,
    quorum_was_upgraded,
)


def tool(story: Story, change: Change) -> None:
    """An operator makes a change, again and again until it is made."""

    async def program(seams: Seams) -> str:
        async with Admin(story.cluster.bootstrap_servers, seams=seams) as admin:
            try:
                await change(admin)
            except KafkaError as error:
                return str(error)
        return ""

    for _ in range(20):
        refusal = story.do(program)
        if not refusal:
            return
        story.wait(0.5)
    raise AssertionError(refusal)


def key(story: Story, node_id: int) -> ReplicaKey:
    """A node as its disk names it."""
    found = key_on_disk(story.hosts[node_id])
    assert found is not None
    return found


def add(story: Story, node_id: int) -> None:
    tool(story, adding(key(story, node_id), endpoints_of(story.hosts[node_id])))


def until_voters(story: Story, *node_ids: int) -> None:
    """Let time pass until all controllers that run have these voters."""
    keys = tuple(key(story, node_id) for node_id in node_ids)
    story.until(lambda: all(one.membership.voter_set.keys == keys for one in story.controllers.values()))


def replace(story: Story, node_id: int, *directories: str) -> ReplicaKey:
    """A node comes back with new, formatted disks; returns the voter that it was."""
    host = story.hosts[node_id]
    lost = key(story, node_id)
    cluster_id = story.image.cluster_id
    story.cluster.kill(host)
    for path in directories or host.directories:
        host.disk.wipe(path)
    format_host(host, Voters(none_yet=True), Random(node_id), cluster_id=cluster_id)
    story.cluster.start(host)
    return lost


@pytest.mark.parametrize("layout", ["3", "3+2", "1:3", "3:2"])
def test_a_quorum_of_one_grows_to_all_controllers_and_shrinks_again(layout: str) -> None:
    story = Story(layout=layout, quorum=STANDALONE)
    story.start()
    controllers = [*story.controllers]
    voters = [one for one in controllers if "controller" in story.hosts[one].settings["process.roles"]]
    for node_id in voters[1:]:
        add(story, node_id)
    until_voters(story, *voters)
    for node_id in voters[:-1]:
        tool(story, removing(key(story, node_id)))
    until_voters(story, voters[-1])
    story.until(lambda: story.active == voters[-1])
    story.create("t", [max(story.hosts)])
    story.end()


def test_a_voter_whose_disks_were_replaced_is_another_one() -> None:
    story = Story({"min.insync.replicas": "2"}, nodes=3, quorum=INITIAL)
    story.start()
    story.create("t", [1, 2, 3])
    story.produce("t", *"abc", acks="all")
    lost = replace(story, 2)
    tool(story, removing(lost))
    add(story, 2)
    until_voters(story, 1, 2, 3)
    story.until_in_sync("t", 1, 2, 3)
    story.until(lambda: not broken_at_rest(story.hosts.values()))
    assert story.read("t") == [*"abc"]
    story.end()


def test_only_the_disk_of_a_voters_metadata_is_replaced() -> None:
    story = Story({"log.dirs": "/data", "metadata.log.dir": "/metadata"}, nodes=3, quorum=INITIAL)
    story.start()
    story.create("t", [1, 2, 3])
    story.produce("t", *"abc", acks="all")
    lost = replace(story, 2, "/metadata")
    story.until(lambda: story.hosts[2].ready)
    tool(story, removing(lost))
    add(story, 2)
    until_voters(story, 1, 2, 3)
    story.until_in_sync("t", 1, 2, 3)
    assert story.read("t") == [*"abc"]
    story.end()


def with_a_moved_controller(node_id: int) -> Story:
    """Three nodes, one of which was killed and has started at another address."""
    story = Story(nodes=3, quorum=INITIAL)
    story.start()
    host = story.hosts[node_id]
    story.cluster.kill(host)
    move_controller(host)
    story.start()
    return story


def test_a_controller_that_has_moved_is_found_at_its_new_address() -> None:
    story = with_a_moved_controller(3)
    story.until(lambda: not broken_at_rest(story.hosts.values()))
    [(_, address)] = endpoints_of(story.hosts[3]).items()
    assert address == "node-3:9193"
    story.end()


def test_a_last_voter_that_has_moved_is_found_where_the_bootstrap_servers_name_its_new_address() -> None:
    """Recorded with Apache Kafka 4.3.1; until the settings of the others name it, they find no leader there either."""
    story = with_a_moved_controller(1)
    for node_id in (2, 3):
        tool(story, removing(key(story, node_id)))
    story.until(lambda: story.active == 1)
    for node_id in (2, 3):
        host = story.hosts[node_id]
        host.settings[BOOTSTRAP] = host.settings[BOOTSTRAP].replace("node-1:9093", "node-1:9193")
    story.restart(2, 3)
    until_voters(story, 1)
    story.create("t", [2, 3])
    story.end()


def test_one_voter_stays_where_the_bootstrap_servers_say_while_another_controller_is_away() -> None:
    story = Story(nodes=3, quorum=INITIAL)
    story.start()
    limits = Chaos(story.cluster, durable=False, tolerates_loss=True).voters
    story.until(lambda: story.active != 0 and len(story.controllers) == 3)
    leading = story.active
    staying, moved = (node_id for node_id in (1, 2, 3) if node_id != leading)
    host, leader_key = story.hosts[moved], key(story, leading)
    limits.to_be_removed.update((leader_key, key(story, staying)))
    assert not limits.may_be_moved(host), "the last voter would be elsewhere"
    assert limits.may_be_moved(story.hosts[leading]), "one stays"
    limits.to_be_removed.remove(key(story, staying))
    assert limits.may_be_moved(host), "one stays"
    assert {one.id for one in limits.may_be_removed()} == {1, 2, 3}
    story.cluster.kill(host)
    move_controller(host)
    assert {one.id for one in limits.may_be_removed()} == {leading, moved}, "the other one must stay"
    limits.to_be_removed.clear()
    assert {one.id for one in limits.may_be_removed()} == {1, 2, 3}, "one of two stays"
    story.end()


def test_a_quorum_of_fixed_voters_is_upgraded_and_a_voter_replaced() -> None:
    story = Story(nodes=3, quorum=UPGRADED)
    story.start()
    tool(story, upgrade)
    story.until(lambda: all(one.membership.kraft_version for one in story.controllers.values()))
    quorum_was_upgraded(story.cluster)
    lost = replace(story, 1)
    tool(story, removing(lost))
    add(story, 1)
    until_voters(story, 1, 2, 3)
    story.restart(1, 2, 3)
    story.until(lambda: not broken_at_rest(story.hosts.values()))
    story.end()


@pytest.mark.parametrize("missing", [False, True])
def test_a_voter_without_its_metadata_directory_refuses_to_start(missing: bool) -> None:
    story = Story({"log.dirs": "/data", "metadata.log.dir": "/metadata"}, nodes=3, quorum=INITIAL)
    story.start()
    host = story.hosts[1]
    story.cluster.kill(host)
    host.disk.unmount("/metadata", missing=missing)
    story.cluster.start(host)
    story.until(lambda: not host.is_running)
    assert "/metadata has no metadata log, but /data belongs to a cluster" in host.refused
    host.disk.mount("/metadata")
    story.start()
    story.until(lambda: not broken_at_rest(story.hosts.values()))
    story.end()


def test_a_voter_that_lost_its_metadata_log_but_neither_its_directory_id_nor_its_data_refuses_to_start() -> None:
    story = Story(nodes=3, quorum=INITIAL)
    story.start()
    story.create("t", [1, 2, 3])
    host = story.hosts[1]
    story.cluster.kill(host)
    host.disk.remove_tree("/data/__cluster_metadata-0")
    story.cluster.start(host)
    story.until(lambda: not host.is_running)
    assert "/data has no metadata log, but /data belongs to a cluster" in host.refused
    story.end()


def test_a_fixed_voter_on_a_new_metadata_disk_beside_its_data_refuses_to_start() -> None:
    story = Story({"log.dirs": "/data", "metadata.log.dir": "/metadata"}, nodes=3)
    story.start()
    story.create("t", [1, 2, 3])
    host, cluster_id = story.hosts[2], story.image.cluster_id
    story.cluster.kill(host)
    host.disk.wipe("/metadata")
    format_host(host, Voters(), Random(1), cluster_id=cluster_id)
    story.cluster.start(host)
    story.until(lambda: not host.is_running)
    assert "/metadata has no metadata log, but /data belongs to a cluster" in host.refused
    story.end()


def test_fixed_voters_with_a_directory_for_their_metadata_are_upgraded() -> None:
    story = Story({"log.dirs": "/data", "metadata.log.dir": "/metadata"}, nodes=3, quorum=UPGRADED)
    story.start()
    tool(story, upgrade)
    story.until(lambda: all(one.membership.kraft_version for one in story.controllers.values()))
    quorum_was_upgraded(story.cluster)
    story.restart(1, 2, 3)
    until_voters(story, 1, 2, 3)
    story.end()
