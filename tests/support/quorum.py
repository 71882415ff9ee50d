"""Clusters of controllers in one process, with memory disks, a memory network and a simulated clock.

    async def scenario(cluster: Controllers) -> None:
        await cluster.start(1, 2, 3)
        leader = await cluster.leader()
        cluster.network.isolate(leader.node_id)
        …

    run(scenario)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import trio
import trio.testing

from minikafka.controller.quorum.bootstrap_checkpoint import write_bootstrap_checkpoint
from minikafka.controller.quorum.quorum_settings import quorum_settings
from minikafka.controller.quorum_controller import QuorumController
from minikafka.controller.raft.voter_set import ReplicaKey, Voter, VoterEndpoint, VoterSet
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from minikafka.protocol.messages.broker_registration import BrokerRegistrationRequest, Listener
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.names import uuid_text
from minikafka.storage.directories.directory_identity import WrongDirectory
from minikafka.storage.disks.checkpoint_files import write_properties
from minikafka.storage.disks.memory_disk import MemoryDisk
from support.memory_network import MemoryNetwork

START_MS = 1_700_000_000_000
CLUSTER_ID = "q_K-x5ZtR3mH9zO0Yv1bCg"
FAST = {
    "controller.quorum.election.timeout.ms": "400",
    "controller.quorum.fetch.timeout.ms": "800",
    "broker.session.timeout.ms": "1000",
}


@dataclass(slots=True, eq=False)
class Member:
    """One node of the cluster, running."""

    node_id: int
    controller: QuorumController
    scope: trio.CancelScope
    ended: trio.Event
    failure: str = ""


class Controllers:
    """A cluster. Disks survive the nodes that use them. Nodes of the ids `brokers` start as brokers only."""

    def __init__(self, nursery: trio.Nursery, *, voters: int, seed: int, dynamic: bool = False) -> None:
        self.network = MemoryNetwork()
        self.disks: dict[int, MemoryDisk] = {}
        self.running: dict[int, Member] = {}
        self.given: dict[str, str] = {}
        self.brokers: set[int] = set()
        self._nursery = nursery
        self._voters = range(1, voters + 1)
        self._dynamic = dynamic
        self.ports: dict[int, int] = {}
        self.mistaken_ids: dict[int, int] = {}
        self._seed = seed

    async def start(self, *node_ids: int, **given: str) -> None:
        """Start nodes; ids above the number of voters are not controllers. Settings are written with `_` for dots."""
        for node_id in node_ids:
            self._seed += 1
            disk = self.disk(node_id)
            own_id = self.mistaken_ids.get(node_id, node_id)
            static = StaticSettings(own_id, {**self._settings(own_id), **self.given, **_names(given)})
            is_controller = (node_id in self._voters or self._dynamic) and node_id not in self.brokers
            port = self.ports.get(node_id, 9093)
            controller = QuorumController(
                static,
                quorum_settings(
                    static,
                    [("", port)] if is_controller else [],
                    is_controller=is_controller,
                    advertised=[VoterEndpoint("CONTROLLER", f"node-{node_id}", port)],
                ),
                disk=disk,
                network=self.network.of(node_id),
                now_ms=lambda: START_MS + int(trio.current_time() * 1000),
                random=Random(f"{self._seed}/{node_id}"),
            )
            member = Member(node_id, controller, trio.CancelScope(), trio.Event())
            self.running[node_id] = member
            await self._nursery.start(self._run, member)

    def disk(self, node_id: int) -> MemoryDisk:
        """A node's disk, created on first use."""
        return self.disks.setdefault(node_id, MemoryDisk(Random(f"{self._seed}/{node_id}")))

    def format(self, *node_ids: int, number: int = 0, voters: bool = False) -> None:
        """Give nodes an empty disk with a directory id, and with the first voters of a dynamic quorum."""
        first = VoterSet(self.voter(node_id) for node_id in self._voters)
        for node_id in node_ids:
            self.disks[node_id] = disk = MemoryDisk(Random(f"{self._seed}/{node_id}"))
            disk.make_directory("/data")
            named = {"node.id": str(node_id), "directory.id": uuid_text(self.voter(node_id, number).key.directory_id)}
            write_properties(disk, "/data/meta.properties", {"version": "1", "cluster.id": CLUSTER_ID, **named})
            if voters:
                write_bootstrap_checkpoint(disk, "/data", first, now_ms=START_MS)

    def voter(self, node_id: int, number: int = 0) -> Voter:
        """A node as a voter, with its disk of this number."""
        key = ReplicaKey(node_id, bytes([0x40, node_id, number]) + bytes(13))
        return Voter(key, (VoterEndpoint("CONTROLLER", f"node-{node_id}", self.ports.get(node_id, 9093)),))

    def _settings(self, node_id: int) -> dict[str, str]:
        voters = ",".join(f"{voter}@node-{voter}:9093" for voter in self._voters)
        servers = ",".join(f"node-{other}:9093" for other in range(1, 6))
        name, value = ("bootstrap.servers", servers) if self._dynamic else ("voters", voters)
        return {"node.id": str(node_id), "log.dirs": "/data", f"controller.quorum.{name}": value, **FAST}

    async def _run(self, member: Member, *, task_status: trio.TaskStatus[None]) -> None:
        try:
            with member.scope:
                await member.controller.run(task_status=task_status)
        except* (WrongDirectory, AssertionError) as group:
            member.failure = str(first_of(group))
        self.network.listeners.pop(member.node_id, None)
        member.ended.set()

    async def kill(self, *node_ids: int) -> None:
        """End nodes as a power cut does: unsynced changes may be lost."""
        for node_id in node_ids:
            member = self.running.pop(node_id)
            member.scope.cancel()
            await member.ended.wait()
            self.disks[node_id].crash()

    async def leader(self, among: tuple[int, ...] = ()) -> Member:
        """The node with the active controller, once there is one."""
        while True:
            for node_id in among or tuple(self.running):
                if self.running[node_id].controller.is_active:
                    return self.running[node_id]
            await trio.sleep(0.01)

    async def agree(self) -> None:
        """Wait until all nodes follow the same leader, and have applied the same offset."""
        while True:
            known = {(one.controller.leader_id, one.controller.offset) for one in self.running.values()}
            if len(known) == 1 and -1 not in next(iter(known)):
                return
            await trio.sleep(0.01)

    def stay_alive(self, node_id: int) -> None:
        """Report contact of a node's broker as long as the node runs."""
        self._nursery.start_soon(self._report_contact, self.running[node_id])

    async def _report_contact(self, member: Member) -> None:
        while not member.ended.is_set():
            await member.controller.report_contact()
            await trio.sleep(0.2)

    def __getitem__(self, node_id: int) -> QuorumController:
        return self.running[node_id].controller


def run(
    scenario: Callable[[Controllers], Awaitable[Any]],
    *,
    voters: int = 3,
    seed: int = 0,
    given: Mapping[str, str] | None = None,
    dynamic: bool = False,
) -> Any:
    """Run a scenario in simulated time; all nodes have the given settings. In a dynamic quorum every node is a
    controller, and has to be formatted first."""

    async def main() -> Any:
        async with trio.open_nursery() as nursery:
            cluster = Controllers(nursery, voters=voters, seed=seed, dynamic=dynamic)
            cluster.given.update(given or {})
            result = await scenario(cluster)
            nursery.cancel_scope.cancel()
        return result

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def first_of(group: BaseException) -> BaseException:
    """The first exception in a group of groups."""
    return first_of(group.exceptions[0]) if isinstance(group, BaseExceptionGroup) else group


def _names(given: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): text for name, text in given.items()}


async def create(controller: QuorumController, *names: str, timeout_ms: int = 10_000) -> list[int]:
    """Create topics without a broker that could serve them; returns the error codes."""
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    response = await controller.handle(CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms), 7)
    return [result.error_code for result in response.topics]


async def register(controller: QuorumController, node_id: int, incarnation: int = 0) -> int:
    """Register a broker and unfence it; returns its epoch."""
    request = BrokerRegistrationRequest(
        broker_id=node_id,
        cluster_id=controller.image.cluster_id,
        incarnation_id=bytes([node_id, incarnation]) * 8,
        listeners=[Listener(name="PLAINTEXT", host=f"node-{node_id}", port=9092)],
        rack=None,
    )
    response = await controller.handle(request, 4)
    assert not response.error_code, response
    controller.broker_epoch = response.broker_epoch
    await heartbeat(controller, node_id, response.broker_epoch)
    return int(response.broker_epoch)


async def heartbeat(controller: QuorumController, node_id: int, epoch: int, **wishes: bool) -> Any:
    """One heartbeat; returns the response."""
    request = BrokerHeartbeatRequest(
        broker_id=node_id, broker_epoch=epoch, current_metadata_offset=controller.offset, **wishes
    )
    return await controller.handle(request, 1)
