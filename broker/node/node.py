"""`Node`: a node that serves clients, alone or in a cluster. Starts its parts in order, and stops them in order.

    controller → logs on disk → coordinators, replication, ISR changes → listeners bound → registered
        → partitions take their roles → unfenced → connections accepted → ready

    stop: controlled shutdown → resign from the quorum → everything is cancelled → logs closed → controller closed

A node that is the only voter and the only live broker leaves out the first two steps: nobody can take over from it.
"""

from collections.abc import Sequence
from contextlib import ExitStack

import trio

from minikafka.broker.connections.idle_connections import close_idle_connections
from minikafka.broker.connections.listener_addresses import advertised_endpoints
from minikafka.broker.connections.listening import Listening
from minikafka.broker.node.broker_parts import BrokerParts
from minikafka.broker.node.controller_listener import ControllerListener
from minikafka.broker.node.registration import Registration
from minikafka.broker.node.start_log import NodeLog
from minikafka.broker.node.system import System
from minikafka.broker.partitions.log_housekeeping import repeat
from minikafka.broker.security.node_tls import tls_of, with_tls
from minikafka.broker.settings.altered_settings import tls_texts, without_effect
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.metadata.cluster_ids import new_id
from minikafka.controller.metadata.records import Record
from minikafka.controller.settings.metadata_log_settings import data_directories, metadata_directory
from minikafka.storage.directories.data_directory import DataDirectory
from minikafka.storage.steps import in_steps

ROOM_CHECK_MS = 1000
"""The interval in milliseconds at which a node looks whether a full disk has room again."""


class Node:
    """One node that serves clients: a broker, which may also be a controller, or the whole cluster.

    Args:
        config: The settings of the node.
        system: The clock, disk, network and randomness of the node.

    Raises:
        The errors of `run`, except an OSError of a port.

    Attributes:
        parts: The parts of the node.
    """

    def __init__(self, config: NodeConfig, system: System) -> None:
        self._log = NodeLog(config, system)
        self._log.starting()
        self._tls = tls_of(config)
        self.parts = BrokerParts(config, system, self._tls)
        self._config = config
        self._system = system
        self._stopping = trio.Event()
        self._logs_loaded = False
        self._waits_for = "the controllers of the cluster"
        self._registration: Registration | None = None

    async def run(self, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until `stop`, then close the logs cleanly. `task_status` receives the address of the first listener.

        Raises:
            OSError: A directory or a port cannot be used.
            WrongDirectory: The data belongs to another node or cluster.
            KafkaError: The cluster refuses this broker's registration; or no data directory is left; or the directory
                of the metadata log has failed.
        """
        parts = self.parts
        try:
            if parts.controller.cluster_id is not None:
                self._load_logs()
            async with trio.open_nursery() as nursery:
                self._system.nobody_waited()
                nursery.start_soon(self._shut_down_when_stopped, nursery.cancel_scope)
                await self._serve_metrics(nursery)
                await nursery.start(parts.controller.run)
                await nursery.start(self._controller_listener().run)
                if not self._logs_loaded:
                    await self._join_for_the_first_time()
                for task in parts.housekeeping().tasks():
                    nursery.start_soon(repeat, *task)
                nursery.start_soon(parts.log_cleaner().run)
                nursery.start_soon(parts.replicas.moves.run)
                self._waits_for = "the registration of this broker"
                await nursery.start(parts.coordinators.groups.run)
                await nursery.start(parts.coordinators.transactions.run)
                await nursery.start(parts.replicas.fetchers.run)
                nursery.start_soon(parts.replicas.isr_changes.run)
                await self._serve_clients(nursery, task_status)
        finally:
            if self._logs_loaded:
                await self._close_logs()
            self._log.stopped(clean=self._logs_loaded and all(one.failure is None for one in parts.logs.directories))
            await self._system.disk.run(parts.controller.close)  # Nobody uses it any more: in a thread as a whole.
            self._system.disk.unlock_all()

    def why_not_ready(self) -> str:
        """Why the node does not serve clients now, in words; "" if the node serves them."""
        if self._stopping.is_set():
            return "stopping"
        if self._waits_for:
            return f"starting: waits for {self._waits_for}"
        return "" if self.parts.image.is_alive(self._config.node_id) else "fenced by the controller"

    def stop(self) -> None:
        """Make `run` end cleanly. This method returns at once; a controlled shutdown may take a few seconds."""
        self._stopping.set()

    async def _close_logs(self) -> None:
        """Close the logs completely, also if the node was cancelled. Other tasks of the event loop run meanwhile."""
        with trio.CancelScope(shield=True):
            watermarks = await self.parts.housekeeping().high_watermarks()
            await self.parts.logs.close_async(watermarks, broker_epoch=self._epoch_of_logs())

    # -- start ---------------------------------------------------------------------------------------------------

    def _epoch_of_logs(self) -> int:
        """The broker epoch in which the logs were written: before the registration, that of the previous process."""
        epoch = self.parts.controller.broker_epoch
        return epoch if epoch >= 0 else self.parts.logs.failures.previous_broker_epoch

    async def _serve_metrics(self, nursery: trio.Nursery) -> None:
        if self._config.metrics_listener is not None:
            from minikafka.broker.node.metrics_parts import broker_collectors, serve_metrics

            config, system = self._config, self._system
            collectors = broker_collectors(config, system, self.parts, self.why_not_ready)
            self._system.nobody_waited()
            await nursery.start(serve_metrics, config, system, self._tls, collectors, self.why_not_ready)

    def _load_logs(self) -> None:
        self.parts.logs.load()
        self._claim_metadata_directory()
        self.parts.runtime_settings.update()
        self._logs_loaded = True
        self.parts.directory_reports.check()

    def _claim_metadata_directory(self) -> None:
        """Give the metadata directory of a controller an id, also if it is not one of `log.dirs`.

        Once the voters can change, the id of the directory is a part of the voter (KIP-853).
        """
        static, system = self._config.static, self._system
        path = metadata_directory(static)
        if self._config.is_controller and path not in data_directories(static):
            directory = DataDirectory(system.disk, path)
            directory.open(static.node_id, self.parts.controller.cluster_id, random=system.random)

    def _controller_listener(self) -> ControllerListener:
        return ControllerListener(self._config, self._system, self.parts.controller)

    async def _join_for_the_first_time(self) -> None:
        """Give data directories without a cluster id the cluster id of the quorum, and load the logs."""
        self.parts.logs.join(await self.parts.controller.wait_for_cluster_id())
        self._load_logs()

    async def _serve_clients(self, nursery: trio.Nursery, task_status: trio.TaskStatus[str]) -> None:
        """Bind the listeners, register, and accept connections once this broker may lead partitions."""
        if listeners_with_tls := with_tls(self._config.client_listeners):
            await self._system.disk.run(self._tls.load, listeners_with_tls)
        with ExitStack() as listeners:
            bound: list[tuple[str, Listening]] = []
            for listener in self._config.client_listeners:
                bound.append((listener.name, self._tls.secured(listener.name, self._system.listen(listener))))
                listeners.callback(bound[-1][1].close)
            await self._register(nursery, bound)
            listeners.pop_all()  # They are closed by the server from now on.
        server = self.parts.server
        nursery.start_soon(self.parts.long_polls.run)
        for name, listening in bound:
            nursery.start_soon(server.serve, listening, name)
        nursery.start_soon(close_idle_connections, server.connections, self._config.number("connections.max.idle.ms"))
        self._waits_for = ""
        host, port = bound[0][1].address
        leads = sum(partition.is_leader for partition in self.parts.partitions)
        self._log.ready(
            self.parts.image.cluster_id,
            [f"{name}://{_address(*listening.address)}" for name, listening in bound],
            leads=leads,
            follows=len(self.parts.partitions) - leads,
        )
        task_status.started(f"{host}:{port}")

    def _texts(self) -> dict[str, str]:
        """The settings by which the TLS of this broker is set up."""
        return tls_texts(self.parts.services.setup.effective)

    async def _register(self, nursery: trio.Nursery, bound: Sequence[tuple[str, Listening]]) -> None:
        """Register, follow the metadata from then on, and wait until this broker is unfenced.

        The image must be as new as the registration. With an older image, a leader that lost its log in a crash would
        lead again.
        """
        ports = {name: listening.address[1] for name, listening in bound}
        registration = Registration(
            self._config,
            self.parts.controller,
            incarnation_id=new_id(self._system.random),
            endpoints=advertised_endpoints(self._config.listeners.advertised, ports),
            previous_broker_epoch=self.parts.logs.failures.previous_broker_epoch,
            log_dirs=self.parts.logs.online_ids,
            cordoned=self.parts.logs.cordoned_ids,
        )
        await registration.register()
        self._registration = registration
        nursery.start_soon(registration.send_heartbeats)
        await self._follow_metadata()
        nursery.start_soon(repeat, ROOM_CHECK_MS, self._look_for_room, "room")
        self._waits_for = "the controller, which has to unfence this broker"
        registration.ready_to_lead()
        nursery.start_soon(self.parts.directory_reports.run)
        await registration.unfenced.wait()

    async def _follow_metadata(self) -> None:
        """Create the replicas of the present metadata, then apply its changes.

        No change is missed in between: a change that is committed early waits until the replicas are created.
        """
        follower = self.parts.replicas.follower
        started = trio.Event()

        async def apply_settings(records: Sequence[Record]) -> None:
            self.parts.coordinators.lookup.remember_partitions()
            self.parts.runtime_settings.apply(records)
            await in_steps(self.parts.runtime_settings.apply_quotas(records))
            self._log.altered(without_effect(records, self._config.node_id))
            if listeners := self._tls.named_by(records):
                await self._system.disk.run(self._tls.renew, listeners, self._texts())

        async def apply(records: Sequence[Record]) -> None:
            await started.wait()
            await in_steps(follower.apply(records))

        await self._tls.catch_up(self._system.disk, self._texts)
        self.parts.controller.subscribe(apply_settings)
        self.parts.controller.subscribe(apply)
        self.parts.coordinators.lookup.remember_partitions()
        self.parts.runtime_settings.update()
        await in_steps(self.parts.runtime_settings.load_quotas())
        await in_steps(follower.start())
        started.set()

    async def _look_for_room(self) -> None:
        await in_steps(self.parts.replicas.follower.look_for_room())

    # -- stop ----------------------------------------------------------------------------------------------------

    async def _shut_down_when_stopped(self, scope: trio.CancelScope) -> None:
        await self._stopping.wait()
        self.parts.directory_reports.stop()
        if not self._is_only_node():
            if self._registration is not None:
                await self._registration.controlled_shutdown()
            await self.parts.controller.resign()
        scope.cancel()

    def _is_only_node(self) -> bool:
        """Whether no other node is a voter or a live broker."""
        return {*self.parts.controller.voters, *self.parts.image.live_brokers()} <= {self._config.node_id}


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
