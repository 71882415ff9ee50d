"""`Story`: a small cluster, clients, and faults in an order that a test prescribes, on virtual time.

A story is a test that names what happens, step by step: `do` runs a client's program to its end, `until` waits for a
state of the cluster, `world` and `cluster` have the faults. Everything is decided by the seed, as in seeded runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Any, Generic, TypeVar

from minikafka.broker.node.node import Node
from minikafka.broker.partitions.partition import Partition
from minikafka.client.admin.admin import Admin
from minikafka.client.connections.seams import Seams
from minikafka.client.consumer.consumer import Consumer
from minikafka.client.producer.producer import Producer
from minikafka.controller.metadata.image import Image, PartitionState
from minikafka.controller.quorum_controller import QuorumController
from minikafka.protocol.names import TopicPartition
from simulation.world.cluster import CONTROLLER_PORT, Cluster, Host
from simulation.world.quorums import FIXED, lay_out
from simulation.world.world import World

T = TypeVar("T")
Program = Callable[[Seams], Awaitable[T]]
Tell = Callable[..., "Story"]
"""The fixture `tell`: begins a story with the arguments of `Story`, which is ended with the test."""
CONTROLLER = 9
"""The node id of the only controller, in stories where brokers come and go."""


def values(first: int, end: int) -> list[str]:
    """Values for `Story.produce`."""
    return [f"value {number}" for number in range(first, end)]


class Forgetful(Random):
    """The randomness of a disk that keeps nothing unsynced in a power failure."""

    def randrange(self, *_: Any, **__: Any) -> int:
        return 0

    def randint(self, *_: Any, **__: Any) -> int:
        return 0

    def random(self) -> float:
        return 0.0


class Running(Generic[T]):
    """A client's program.

    Attributes:
        done: It has returned or raised.
        error: What it has raised.
    """

    def __init__(self) -> None:
        self.done = False
        self.error: Exception | None = None
        self._result: T | None = None

    async def run(self, seams: Seams, program: Program[T]) -> None:
        try:
            self._result = await program(seams)
        except Exception as error:  # noqa: BLE001 (raised by `result`)
            self.error = error
        self.done = True

    @property
    def result(self) -> T:
        """Its result; raises its exception."""
        assert self.done, "the program has not ended"
        if self.error is not None:
            raise self.error
        return self._result  # type: ignore[return-value]


class Story:
    """See above.

    Args:
        settings: Of all nodes.
        nodes: Their number; each is a broker and a controller.
        brokers: Instead of `nodes`: the number of brokers, beside one controller, node 9.
        seed: Decides latencies and the order of tasks.
        layout: Instead of `nodes`: see `Cluster.lay_out`.
        quorum: How the voters of `nodes`, or of a layout, are named: see `world/quorums.py`.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        nodes: int = 0,
        brokers: int = 0,
        seed: object = 1,
        layout: str = "",
        quorum: str = FIXED,
    ) -> None:
        self.world = World(seed)
        self.cluster = Cluster(self.world)
        self.lines: list[str] = []
        self.world.listeners.append(self.lines.append)
        self._programs = 0
        given = dict(settings or {})
        if nodes or layout:
            lay_out(self.cluster, layout or str(nodes), given, quorum)
        else:
            voters = {"controller.quorum.voters": f"{CONTROLLER}@node-{CONTROLLER}:{CONTROLLER_PORT}"}
            self.cluster.add_node(CONTROLLER, {**voters, **given}, roles="controller")
            for node_id in range(1, brokers + 1):
                self.cluster.add_node(node_id, {**voters, **given}, roles="broker")

    def start(self) -> None:
        """Start all nodes that do not run, and wait until they serve clients."""
        for host in self.hosts.values():
            self.cluster.start(host)
        self.until(lambda: all(host.ready for host in self.hosts.values()))

    def end(self) -> None:
        """No process has failed."""
        failures = self.cluster.failures
        self.world.close()
        assert failures == []

    # -- the cluster ---------------------------------------------------------------------------------------------

    @property
    def hosts(self) -> dict[int, Host]:
        return self.cluster.hosts

    def make_forgetful(self, *node_ids: int) -> None:
        """A power failure of these nodes loses everything that is not synced. To be called before `start`."""
        for node_id in node_ids:
            host = self.hosts[node_id]
            host.disk = host.empty_disk(Forgetful())

    def node(self, node_id: int) -> Node:
        """A running broker."""
        node = self.hosts[node_id].node
        assert isinstance(node, Node), f"node {node_id} is no running broker"
        return node

    def replica(self, node_id: int, topic: str, index: int = 0) -> Partition:
        """A broker's replica."""
        found = self.node(node_id).parts.partitions.get(topic, index)
        assert found is not None, f"node {node_id} has no replica of {topic}-{index}"
        return found

    @property
    def controllers(self) -> dict[int, QuorumController]:
        """The controllers of all running nodes, by node id."""
        return {node_id: one for node_id, host in self.hosts.items() if (one := host.controller) is not None}

    @property
    def active(self) -> int:
        """The node of the active controller; 0 if there is none or more than one."""
        found = [node_id for node_id, one in self.controllers.items() if one.is_active]
        return found[0] if len(found) == 1 else 0

    @property
    def image(self) -> Image:
        """The newest metadata that a running node has."""
        return max(self.controllers.values(), key=lambda one: one.offset).image

    def state(self, topic: str, index: int = 0) -> PartitionState:
        """Leader and in-sync replicas of a partition."""
        return self.image.topics[topic].partitions[index]

    def isolate(self, node_id: int, *, from_: Sequence[int] = (), cut: bool = True) -> None:
        """Cut a node off, or reconnect it: by default from all nodes, but not from clients."""
        name = self.hosts[node_id].name
        for other in from_ or self.hosts:
            if other != node_id:
                for pair in ((name, self.hosts[other].name), (self.hosts[other].name, name)):
                    (self.cluster.network.cut if cut else self.cluster.network.heal)(*pair)

    def crash(self, node_id: int) -> None:
        """A process is killed, which its peers notice, and its host loses power, with all that is not synced."""
        host = self.hosts[node_id]
        host.disk.power_failure()
        self.cluster.kill(host)

    def restart(self, *node_ids: int) -> None:
        """Stop nodes cleanly, all at once, and start them again."""
        hosts = [self.hosts[node_id] for node_id in node_ids]
        for host in hosts:
            self.cluster.stop(host)
        self.until(lambda: not any(host.is_running for host in hosts))
        self.start()

    # -- time ----------------------------------------------------------------------------------------------------

    def until(self, done: Callable[[], bool], *, within_s: float = 60) -> None:
        """Let time pass until a condition holds."""
        assert self.world.run_until(self.world.now + within_s, done), "\n".join(self.lines[-40:])

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.world.run_until(self.world.now + seconds)

    def until_in_sync(self, topic: str, *node_ids: int, index: int = 0, within_s: float = 60) -> None:
        """Let time pass until these are the in-sync replicas."""
        self.until(lambda: sorted(self.state(topic, index).isr) == sorted(node_ids), within_s=within_s)

    # -- clients -------------------------------------------------------------------------------------------------

    def begin(self, program: Program[T], *, host: str = "client") -> Running[T]:
        """Start a client's program on a host of clients."""
        self._programs += 1
        running: Running[T] = Running()
        self.cluster.start_client(f"program-{self._programs}", host, running.run, program)
        return running

    def do(self, program: Program[T], *, within_s: float = 120) -> T:
        """Run a client's program; returns its result, or raises its exception."""
        running = self.begin(program)
        self.until(lambda: running.done, within_s=within_s)
        return running.result

    def create(self, topic: str, replicas: Sequence[int], configs: Mapping[str, str] | None = None) -> None:
        """Create a topic with one partition; the first replica is its leader."""

        async def program(seams: Seams) -> None:
            async with Admin(self.cluster.bootstrap_servers, seams=seams) as admin:
                await admin.create_topic(topic, assignments={0: replicas}, configs=configs)

        self.do(program)

    def delete(self, topic: str) -> None:
        """Delete a topic."""

        async def program(seams: Seams) -> None:
            async with Admin(self.cluster.bootstrap_servers, seams=seams) as admin:
                await admin.delete_topics([topic])

        self.do(program)

    def prefer(self, topic: str, *replicas: int) -> None:
        """Make the first of these replicas the leader of partition 0."""
        tp = TopicPartition(topic, 0)

        async def program(seams: Seams) -> None:
            async with Admin(self.cluster.bootstrap_servers, seams=seams) as admin:
                await admin.alter_partition_reassignments({tp: replicas})
                await admin.elect_leaders([tp])

        self.do(program)
        self.until(lambda: self.state(topic).leader == replicas[0])

    def delete_records(self, topic: str, before: int) -> None:
        """Delete the records of partition 0 before an offset, on all live replicas."""
        tp = TopicPartition(topic, 0)

        async def program(seams: Seams) -> Any:
            async with Admin(self.cluster.bootstrap_servers, seams=seams) as admin:
                return (await admin.delete_records({tp: before}))[tp]

        assert self.do(program) == before

    def produce(self, topic: str, *values: str, **options: Any) -> list[int]:
        """Produce records to partition 0, each after the other is acknowledged; returns their offsets."""
        return self.do(self.producing(topic, *values, **options))

    def producing(self, topic: str, *values: str, partition: int = 0, **options: Any) -> Program[list[int]]:
        """The program of `produce`, for `begin`."""
        options.setdefault("bootstrap_servers", self.cluster.bootstrap_servers)

        async def program(seams: Seams) -> list[int]:
            async with Producer(seams=seams, **options) as producer:
                sent = [await producer.send_and_wait(topic, one.encode(), partition=partition) for one in values]
                return [one.offset for one in sent]

        return program

    def read(self, topic: str) -> list[str]:
        """All records of partition 0 up to its end."""
        return [value for _, value in self.read_with_offsets(topic)]

    def read_with_offsets(self, topic: str) -> list[tuple[int, str]]:
        """All records of partition 0 up to its end, with their offsets."""
        tp = TopicPartition(topic, 0)

        async def program(seams: Seams) -> list[tuple[int, str]]:
            async with Consumer(
                bootstrap_servers=self.cluster.bootstrap_servers, seams=seams, auto_offset_reset="earliest"
            ) as consumer:
                consumer.assign([tp])
                end = (await consumer.end_offsets([tp]))[tp]
                found: list[tuple[int, str]] = []
                while await consumer.position(tp) < end:
                    found += [(one.offset, (one.value or b"").decode()) for one in await consumer.poll(1000)]
                return found

        return self.do(program)
