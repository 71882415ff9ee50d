"""`Cluster`: the hosts of a cluster: nodes started as `broker.node.main` starts them, and the processes of clients."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random

import trio
from support.logins import Logins

from minikafka.broker.node.controller_node import ControllerNode
from minikafka.broker.node.main import CannotStart, cause_of, make_node, serve
from minikafka.broker.node.node import Node
from minikafka.broker.node.system import System
from minikafka.broker.settings.node_config import load_config
from minikafka.client.connections.seams import Seams
from minikafka.controller.quorum_controller import QuorumController
from simulation.world.disk import SimulatedDisk
from simulation.world.log_capture import capture_logs
from simulation.world.machine import Machine
from simulation.world.network import SimulatedNetwork
from simulation.world.process_disk import ProcessDisk
from simulation.world.sockets import Sockets
from simulation.world.world import World

EPOCH_MS = 1_700_000_000_000
SUPERVISION_S = 1.0
CLIENT_PORT, CONTROLLER_PORT = 9092, 9093
NAMING_A_QUORUM = {"controller.quorum.voters", "controller.quorum.bootstrap.servers"}
DISK_LATENCIES_S = (0.00005, 0.0005, 0.004)
"""What `disk.run` takes on average; each host has one of these."""


class WallClock:
    """A host's wall clock, which may be wrong, run fast or slow, and jump. Milliseconds since 1970."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.offset_ms = 0.0
        self.rate = 1.0

    def set_right(self) -> None:
        """As time synchronisation does; it may jump back."""
        self.offset_ms, self.rate = 0.0, 1.0

    def __call__(self) -> int:
        return EPOCH_MS + int(self._world.now * 1000 * self.rate + self.offset_ms)


class Signals:
    """The signals that a process receives."""

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[int](8)

    def send(self, number: int) -> None:
        """From outside, by `Machine.call`. Signals that wait already are enough."""
        with suppress(trio.WouldBlock):
            self._send.send_nowait(number)

    async def __aiter__(self) -> AsyncIterator[int]:
        async for number in self._receive:
            yield number


@dataclass
class Host:
    """A computer that runs a node, again and again.

    Attributes:
        settings: The node's settings, as in its properties file.
        disk: Outlives the processes; `files` is how the running one sees it, None if none runs.
        descriptors_max: The limit of descriptors of the next process; None for no limit.
        machine: The process that runs, or None.
        node: Its node.
        ready: It serves clients (a controller: the cluster has its first records).
        incarnation: Counts the processes.
        refused: Why the last process did not start or ended by itself, or "".
        unclean: A process has ended without a controlled shutdown; `Chaos` resets it once the host has caught up.
        supervised: The node is started again whenever it has ended.
    """

    name: str
    node_id: int
    settings: dict[str, str]
    clock: WallClock
    disk: SimulatedDisk = field(init=False)
    machine: Machine | None = None
    node: Node | ControllerNode | None = None
    signals: Signals | None = None
    files: ProcessDisk | None = None
    descriptors_max: int | None = None
    ready: bool = False
    incarnation: int = 0
    refused: str = ""
    unclean: bool = False
    supervised: bool = False

    def ended(self) -> None:
        """Note that the process has ended, by itself or not."""
        self.ready = False

    @property
    def is_running(self) -> bool:
        return self.machine is not None and not self.machine.ended

    @property
    def controller(self) -> QuorumController | None:
        """The controller of the node, if it runs and is a part of a cluster."""
        if not self.is_running or self.node is None:
            return None
        controller = self.node.parts.controller if isinstance(self.node, Node) else self.node.controller
        return controller if isinstance(controller, QuorumController) else None

    @property
    def data_directories(self) -> list[str]:
        """The directories of `log.dirs`."""
        return [path.strip() for path in self.settings["log.dirs"].split(",")]

    @property
    def metadata_directory(self) -> str:
        """Where the metadata log is."""
        return self.settings.get("metadata.log.dir") or self.data_directories[0]

    @property
    def directories(self) -> list[str]:
        """All directories, each once."""
        return list(dict.fromkeys((*self.data_directories, self.metadata_directory)))

    def empty_disk(self, random: Random) -> SimulatedDisk:
        """A disk with empty directories, of which any could be a device of its own."""
        disk = SimulatedDisk(random, now_ms=self.clock, directories=self.directories)
        mean_s = random.choice(DISK_LATENCIES_S)
        disk.latency(lambda random: random.expovariate(1 / mean_s))
        return disk


class Cluster:
    """See above.

    Args:
        world: Where it runs.

    Attributes:
        hosts: By node id.
        users: Of a cluster with security.
        failures: Exceptions that ended a process and are no refusal to start: bugs, unless a fault explains them.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.network = SimulatedNetwork(world, world.random("network"))
        self.hosts: dict[int, Host] = {}
        self.clients: dict[str, Machine] = {}
        self.failures: list[tuple[str, BaseException]] = []
        self.users: Logins | None = None
        capture_logs(world)

    # -- nodes ---------------------------------------------------------------------------------------------------

    def add_node(self, node_id: int, settings: Mapping[str, str], *, roles: str = "broker,controller") -> Host:
        """A host with an empty disk; `start` starts its node."""
        name = f"node-{node_id}"
        listeners = {
            "broker": f"PLAINTEXT://{name}:{CLIENT_PORT}",
            "controller": f"CONTROLLER://{name}:{CONTROLLER_PORT}",
        }
        given = {
            "node.id": str(node_id),
            "process.roles": roles,
            "listeners": ",".join(text for role, text in listeners.items() if role in roles.split(",")),
            "log.dirs": "/data",
            **({"controller.listener.names": "CONTROLLER"} if settings.keys() & NAMING_A_QUORUM else {}),
            **settings,
        }
        if "broker" in roles.split(","):
            given.setdefault("advertised.listeners", listeners["broker"])
        clock = WallClock(self.world)
        host = self.hosts[node_id] = Host(name, node_id, given, clock)
        host.disk = host.empty_disk(self.world.random(f"disk of {name}"))
        self.network.hosts[name] = None
        return host

    def add_nodes(self, count: int, settings: Mapping[str, str]) -> None:
        """Nodes 1 to `count`, all of them brokers and controllers; one alone has no quorum."""
        self.lay_out(str(count), settings)

    def lay_out(self, layout: str, settings: Mapping[str, str]) -> None:
        """Hosts by a short description.

        `3` are nodes with both roles (`1` has no quorum), `3+2` and two brokers; `1:3` are a controller and three
        brokers. Ids begin at 1.
        """
        if layout == "1":
            self.add_node(1, {"listeners": f"PLAINTEXT://node-1:{CLIENT_PORT}", **settings})
            return
        voters, brokers = (int(part) for part in (layout.replace(":", "+") + "+0").split("+")[:2])
        quorum = ",".join(f"{one}@node-{one}:{CONTROLLER_PORT}" for one in range(1, voters + 1))
        for node_id in range(1, voters + brokers + 1):
            roles = "broker" if node_id > voters else "controller" if ":" in layout else "broker,controller"
            self.add_node(node_id, {"controller.quorum.voters": quorum, **settings}, roles=roles)

    def start(self, host: Host) -> None:
        """Start the host's node, unless it runs."""
        if host.is_running:
            return
        self.network.power_returned(host.name)
        host.incarnation += 1
        host.ready = False
        host.refused = ""
        name = f"{host.name}/{host.incarnation}"
        random = self.world.random(name)
        host.signals = Signals()
        files = host.files = self._attach(host)
        host.machine = self._boot(name, host.name, self._run_node, host, files, random, host.signals)
        host.machine.on_end += [files.kill, host.ended]
        self.world.trace(host.name, f"process {name} started")

    def _attach(self, host: Host) -> ProcessDisk:
        files = host.disk.attach(
            descriptors_max=host.descriptors_max, descriptors_used_elsewhere=lambda: self.network.descriptors(host.name)
        )
        if files.descriptors is not None:
            self.network.descriptors_max[host.name] = files.descriptors.limit
            self.network.files_open[host.name] = partial(getattr, files.descriptors, "in_files")
        else:
            self.network.descriptors_max.pop(host.name, None)
        return files

    def _boot(self, name: str, host: str, function: Callable[..., Awaitable[object]], *arguments: object) -> Machine:
        machine = self.world.boot(name, host, function, *arguments)
        machine.on_end.append(lambda: self.network.process_ended(machine))
        return machine

    async def _run_node(self, host: Host, files: ProcessDisk, random: Random, signals: Signals) -> None:
        machine = self.world.running
        assert machine is not None
        try:
            config = load_config(properties={}, environment={}, settings=host.settings)
            node = host.node = make_node(config, self._system(host, files, machine, random))
            await serve(node, signals.__aiter__(), task_status=_Readiness(host))
        except Exception as error:  # noqa: BLE001 (whatever ends a process is reported)
            if not machine.killed:
                self._node_failed(host, cause_of(error))
        else:
            self.world.trace(host.name, "process ended")

    def _node_failed(self, host: Host, cause: BaseException) -> None:
        host.unclean = True
        host.refused = f"{type(cause).__name__}: {cause}"
        self.world.trace(host.name, f"process failed: {host.refused}")
        if not isinstance(cause, CannotStart | OSError):
            self.failures.append((host.name, cause))

    def _system(self, host: Host, files: ProcessDisk, machine: Machine, random: Random) -> System:
        sockets = Sockets(self.network, machine)
        return System(
            disk=files,
            now_ms=host.clock,
            random=random,
            peers=sockets,
            listen=sockets.listen_for_clients,
            open_stream=sockets.open_stream,
            loop=Machine.step_watch,
        )

    def kill(self, host: Host) -> None:
        """SIGKILL: the kernel closes its connections, and what was written is on the disk sooner or later.

        A process that takes a step now ends after it, but its disk is dead at once.
        """
        host.disk.process_killed()
        if host.is_running and host.machine is not None:
            host.unclean = True
            self.world.trace(host.name, f"process {host.machine} killed")
            self.world.kill(host.machine)
        self._forget(host)

    def stop(self, host: Host) -> None:
        """SIGTERM: a controlled shutdown."""
        if host.is_running and host.machine is not None and host.signals is not None:
            self.world.trace(host.name, "SIGTERM")
            host.machine.call(host.signals.send, signal.SIGTERM)

    def lose_power(self, host: Host) -> None:
        """The host loses power: unsynced writes are dropped or torn, and its peers are not notified."""
        self.world.trace(host.name, "power lost")
        self.network.power_lost(host.name)
        self.kill(host)
        host.disk.power_failure()

    def keep_running(self, host: Host) -> None:
        """Start the host's node now, and again whenever it has ended, as a supervisor does."""
        host.supervised = True
        self._supervise(host)

    def _supervise(self, host: Host) -> None:
        if host.supervised:
            self.start(host)
            self.world.after(SUPERVISION_S, self._supervise, host)

    def _forget(self, host: Host) -> None:
        host.machine = host.node = host.signals = host.files = None
        host.ready = False

    # -- clients -------------------------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(
            f"{host.name}:{CLIENT_PORT}" for host in self.hosts.values()
            if "broker" in host.settings["process.roles"].split(",")
        )  # fmt: skip

    @property
    def logins(self) -> Logins:
        """How clients reach the cluster."""
        return self.users or Logins.open(self.bootstrap_servers)

    def start_client(
        self, name: str, host: str, program: Callable[..., Awaitable[object]], *arguments: object
    ) -> Machine:
        """Run a program of a client: `await program(seams, …)`; its exceptions are failures."""
        self.network.hosts[host] = None
        clock = WallClock(self.world)

        async def run() -> None:
            machine = self.world.running
            assert machine is not None
            seams = Seams(
                now_ms=clock, random=self.world.random(name), open_stream=Sockets(self.network, machine).open_stream
            )
            try:
                await program(seams, *arguments)
            except Exception as error:  # noqa: BLE001 (whatever ends a program is reported)
                if not machine.killed:
                    self.world.trace(host, f"program failed: {error!r}")
                    self.failures.append((name, cause_of(error)))

        machine = self.clients[name] = self._boot(name, host, run)
        return machine


class _Readiness:
    """A `trio.TaskStatus` that notes when a node serves clients."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def started(self, value: str = "") -> None:
        self._host.ready = True
