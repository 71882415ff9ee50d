"""Attacks on three nodes: on what they forward, on their controller listeners and on their metrics listeners.

After each attack the same processes serve and decide, and their memory is bounded. `make hostile` repeats all attacks
for MINUTES, and looks at the memory a minute later; the suite does the same for a few seconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import count, islice
from random import Random
from urllib.parse import urlsplit

import pytest
from support.clients_raw import RawConnection, frame, growth_bytes, resident_bytes
from support.clusters import active_controller, check_nobody_crashed
from support.grammar import Grammar
from support.storm import mutated, rounds_for, storm

from minikafka.broker.apis.forwarded import FORWARDED
from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin
from minikafka.controller.quorum.handshake import Hello, hello_map
from minikafka.controller.quorum.peer_frames import encode_frame
from minikafka.controller.raft.messages import BeginEpoch, Fetch, FetchSnapshot, Vote
from minikafka.protocol.apis import APIS
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest

MIB = 1 << 20
COUNT = int(os.environ.get("MINIKAFKA_HOSTILE_REQUESTS") or 240) // 4
MINUTES = float(os.environ.get("MINIKAFKA_HOSTILE_MINUTES") or 0)
SIZE_BYTES_MAX, CONNECTIONS = MIB, 8
GROWTH_BYTES_MAX = 132 * MIB
LEFT_BYTES_MAX = 20 * MIB
ROUND, IDLE_S = (200, 60) if MINUTES else (20, 0)
STRANGER = 77
"""A node id that no node has."""
HTTP = [b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"HEAD /healthz HTTP/1.0\r\n\r\n", b"GET /" + b"x" * 9_000]
Attack = Callable[[LocalCluster, object], tuple[tuple[str, int], Iterator[bytes]]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three nodes that are brokers and controllers, with metrics listeners."""
    settings = {"auto.create.topics.enable": "false", "num.partitions": 1}
    folder = tmp_path_factory.mktemp("hostile")
    with LocalCluster(folder / "three", brokers=3, settings=settings, metrics=True) as running:
        yield running


@pytest.fixture(autouse=True)
def unharmed(cluster: LocalCluster) -> Iterator[None]:
    """In place of the fixture for one node."""
    before = processes(cluster)
    yield
    check_nobody_crashed(cluster)
    assert list(processes(cluster)) == list(before)
    for pid, size in before.items():
        assert growth_bytes(pid, size, GROWTH_BYTES_MAX) < GROWTH_BYTES_MAX
    for node_id in cluster.broker_ids:
        with Admin(cluster.address(node_id)) as admin:
            assert admin.describe_quorum().leader_id in cluster.controller_ids
            admin.list_topics()
        assert "Traceback" not in cluster.log_tail(node_id, 100_000)


def processes(cluster: LocalCluster) -> dict[int, int]:
    """The memory of each process."""
    return {cluster.pid(one): resident_bytes(cluster.pid(one)) for one in cluster.node_ids}


def versions_at(address: tuple[str, int]) -> ApiVersionsResponse:
    with RawConnection(address) as connection:
        found: ApiVersionsResponse = connection.ask(ApiVersionsRequest(), 0)
        return found


def follower(cluster: LocalCluster) -> tuple[str, int]:
    """The client listener of a broker whose controller is another node."""
    other = active_controller(cluster) % len(cluster.node_ids) + 1
    return "127.0.0.1", cluster.nodes[other].port


def controller(cluster: LocalCluster) -> tuple[str, int]:
    """The controller listener of the active controller."""
    return "127.0.0.1", cluster.nodes[active_controller(cluster)].controller_port


def forwarded(cluster: LocalCluster, seed: object) -> tuple[tuple[str, int], Iterator[bytes]]:
    """Requests that go to another node; none takes a broker out of the cluster, as an operator may."""
    address = follower(cluster)
    only = FORWARDED.keys() - {UnregisterBrokerRequest}
    made = Grammar(versions_at(address), seed, size_bytes_max=SIZE_BYTES_MAX, only=only)
    return address, made.requests()


def to_controllers(cluster: LocalCluster, seed: object) -> tuple[tuple[str, int], Iterator[bytes]]:
    address = controller(cluster)
    only = {api.request for api in APIS.values()} - {UnregisterBrokerRequest}
    return address, Grammar(versions_at(address), seed, size_bytes_max=SIZE_BYTES_MAX, only=only).requests()


def mutated_to_controllers(cluster: LocalCluster, seed: object) -> tuple[tuple[str, int], Iterator[bytes]]:
    """Mutated requests of Kafka's protocol."""
    dice = Random(str(seed))
    made = Grammar(versions_at(controller(cluster)), seed, size_bytes_max=10_000).requests()
    return controller(cluster), (frame(mutated(one[4:], dice)) for one in made)


def from_peers(cluster: LocalCluster, seed: object) -> tuple[tuple[str, int], Iterator[bytes]]:
    """Handshakes of nodes, and mutated requests behind a right one."""
    with Admin(cluster.bootstrap) as admin:
        cluster_id = admin.describe_cluster().cluster_id
    return controller(cluster), _peer_frames(cluster_id, Random(str(seed)))


def _peer_frames(cluster_id: str, dice: Random) -> Iterator[bytes]:
    hello = encode_frame(hello_map(Hello(STRANGER, None, cluster_id, {})))
    raft = [
        Vote(epoch=1, candidate=STRANGER, last_epoch=0, last_offset=0, pre_vote=True),
        BeginEpoch(epoch=1, leader=STRANGER),
        Fetch(1, STRANGER, 0, 0, 0, max_wait_ms=10, max_bytes=1000),
        FetchSnapshot(1, STRANGER, (0, 0), 0, max_bytes=1000),
    ]
    bodies = [("raft", one.to_map()) for one in raft]
    bodies += [("applied", {"epoch": 1, "offset": 1}), ("describe", {}), ("forward", {"key": 19, "version": 7})]
    asks = [
        encode_frame({"kind": "ask", "id": number, "what": what, "body": body})
        for number, (what, body) in enumerate(bodies)
    ]
    while True:
        yield frame(mutated(hello[4:], dice))
        yield hello + frame(mutated(dice.choice(asks)[4:], dice))


def to_metrics(cluster: LocalCluster, seed: object) -> tuple[tuple[str, int], Iterator[bytes]]:
    """Mutated HTTP requests; those without an end are slow ones."""
    parts, dice = urlsplit(cluster.metrics_url(active_controller(cluster))), Random(str(seed))
    return (parts.hostname or "", parts.port or 0), (mutated(dice.choice(HTTP), dice) for _ in count())


ATTACKS: dict[str, Attack] = {
    "forwarded requests": forwarded,
    "requests to a controller": to_controllers,
    "mutated requests to a controller": mutated_to_controllers,
    "mutated frames of peers": from_peers,
    "mutated HTTP requests": to_metrics,
}


@pytest.mark.sweep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_harms_no_node(cluster: LocalCluster, name: str) -> None:
    assert attack(cluster, name, 0, COUNT) > COUNT // 4


def attack(cluster: LocalCluster, name: str, seed: object, times: int) -> int:
    """How many requests were answered, or ended their connection."""
    address, requests = ATTACKS[name](cluster, seed)
    return storm(address, islice(requests, times), CONNECTIONS).heard_of


@pytest.mark.sweep
@pytest.mark.timeout(7200)
def test_what_attacks_took_is_given_back(cluster: LocalCluster) -> None:
    """For MINUTES, and idle for one."""
    rounds = count()

    def attack_all(minutes: float) -> None:
        for number in rounds_for(minutes, rounds):
            for name in ATTACKS:
                attack(cluster, name, number, ROUND)

    attack_all(MINUTES / 4)
    before = processes(cluster)
    attack_all(MINUTES)
    time.sleep(IDLE_S)
    left = {pid: growth_bytes(pid, size, LEFT_BYTES_MAX) for pid, size in before.items()}
    assert max(left.values()) < LEFT_BYTES_MAX, {pid: f"{size / MIB:.0f} MiB" for pid, size in left.items()}
