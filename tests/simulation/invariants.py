"""What must hold for the nodes of a cluster that has been healed and is at rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from minikafka.broker.node.node import Node
from minikafka.controller.metadata.snapshot_encoding import records_of
from minikafka.controller.raft.voter_set import VoterEndpoint
from simulation.world.cluster import Host
from simulation.world.quorums import endpoints_of, is_controller, key_on_disk


def broken_at_rest(hosts: Iterable[Host]) -> list[str]:
    """The broken invariants, as sentences; empty once the cluster is at rest.

    - All nodes run, serve, and have the same metadata.
    - All controllers have the same voters, as they are on their disks and in their settings.
    - All replicas are in sync, and each leads or follows as the metadata says, in its epoch; but those in a data
      directory that has failed for good are not, and no others are taken for such.
    - Followers have the end and the high watermark of their leader.
    - No node serves a replica that is not its own.
    - No replica is on its way to another directory, unless a directory of its node has failed for good.
    """
    hosts = list(hosts)
    waiting = [f"{host.name} does not serve: {host.refused}" for host in hosts if not host.ready]
    if waiting:
        return waiting
    images = {host.name: [*records_of(one.image)] for host in hosts if (one := host.controller) is not None}
    first = next(iter(images), "")
    differing = [name for name, records in images.items() if records != images[first]]
    if differing:
        return [f"{name} has other metadata than {first}" for name in differing]
    if broken := [*_broken_voters(hosts)]:
        return broken
    nodes = {host.node_id: host.node for host in hosts if isinstance(host.node, Node)}
    return [*_broken_replicas(nodes)]


def _broken_voters(hosts: Iterable[Host]) -> Iterator[str]:
    """Nothing is demanded where the voters are fixed."""
    found = [(host, host.controller) for host in hosts if is_controller(host)]
    controllers = [(host, one) for host, one in found if one is not None]
    if {one.membership.kraft_version for _, one in controllers} <= {0}:
        return
    wanted = {}
    for host, _ in controllers:
        named = [(name, *address.split(":")) for name, address in endpoints_of(host).items()]
        wanted[key_on_disk(host)] = tuple(VoterEndpoint(name, node, int(port)) for name, node, port in named)
    for host, controller in controllers:
        version = controller.membership.kraft_version
        known = {voter.key: voter.endpoints for voter in controller.membership.voter_set}
        if (version, known) != (1, wanted):
            yield f"{host.name} has kraft.version {version} and voters {known} instead of {wanted}"


def _broken_replicas(nodes: dict[int, Node]) -> Iterator[str]:
    image = next(iter(nodes.values())).parts.image
    expected: dict[int, int] = dict.fromkeys(nodes, 0)
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            name = f"{topic.name}-{index}"
            live = [node_id for node_id in state.replicas if image.has_online(node_id, state.directory(node_id))]
            if sorted(state.isr) != sorted(live):
                yield f"{name} has live replicas {live}, in sync {state.isr}"
                continue
            for node_id in {*state.replicas} - {*live}:
                if all(one.failure is None for one in nodes[node_id].parts.logs.directories):
                    yield f"{name} is taken for lost on node {node_id}, whose directories have not failed"
            led = nodes[state.leader].parts.partitions.get(topic.name, index)
            for node_id in live:
                expected[node_id] += 1
                replica = nodes[node_id].parts.partitions.get(topic.name, index)
                if led is None or replica is None or replica.topic_id != topic.id:
                    yield f"{name} is not served by node {node_id}"
                elif replica.leader_epoch != state.leader_epoch or replica.is_leader != (node_id == state.leader):
                    yield f"{name} on node {node_id} has epoch {replica.leader_epoch} of {state.leader_epoch}"
                elif (replica.log.end_offset, replica.high_watermark) != (led.log.end_offset, led.high_watermark):
                    yield (
                        f"{name} on node {node_id} ends at {replica.log.end_offset}, high watermark"
                        f" {replica.high_watermark}; on its leader {led.log.end_offset}, {led.high_watermark}"
                    )
    for node_id, node in nodes.items():
        moving = [str(key) for key in node.parts.logs.futures.logs]
        if moving and all(one.failure is None for one in node.parts.logs.directories):
            yield f"node {node_id} still moves {', '.join(moving)}"
        served = sum(one.log.failure is None for one in node.parts.partitions)
        if served != expected[node_id]:
            yield f"node {node_id} serves {served} replicas instead of {expected[node_id]}"
