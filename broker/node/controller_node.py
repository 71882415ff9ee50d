"""`ControllerNode`: a node with `process.roles=controller`, a member of the quorum that serves no clients."""

from collections.abc import Sequence

import trio

from minikafka.broker.node.controller_factory import controller_of
from minikafka.broker.node.controller_listener import ControllerListener
from minikafka.broker.node.start_log import NodeLog
from minikafka.broker.node.system import System
from minikafka.broker.security.node_tls import tls_of
from minikafka.broker.settings.altered_settings import tls_texts, without_effect
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.metadata.records import Record
from minikafka.controller.settings.effective_settings import EffectiveSettings
from minikafka.controller.settings.metadata_log_settings import data_directories, metadata_directory
from minikafka.storage.directories.data_directory import DataDirectory

__all__ = ["ControllerNode"]


class ControllerNode:
    """A node that is only a controller. For the arguments see `Node`."""

    def __init__(self, config: NodeConfig, system: System) -> None:
        self._config = config
        self._system = system
        self._disk = system.disk
        self._random = system.random
        self._log = NodeLog(config, system)
        self._log.starting()
        self._tls = tls_of(config)
        self.controller = controller_of(config, system, self._tls)
        self._stored_offset = self.controller.stored.end_offset
        self._stopping = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
        """Run as a member of the quorum until `stop`.

        `task_status` receives the address (`HOST:PORT`) of the controller listener once the cluster has its first
        records. From then on brokers can register.

        Raises:
            OSError, WrongDirectory: See `Node.run`.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._system.nobody_waited()
                nursery.start_soon(self._end_when_stopped, nursery.cancel_scope)
                await self._serve_metrics(nursery)
                await nursery.start(self.controller.run)
                await nursery.start(ControllerListener(self._config, self._system, self.controller).run)
                nursery.start_soon(self._follow_settings)
                self._claim_directories(await self.controller.wait_for_cluster_id())
                listener = self._config.listeners.for_controllers[0]
                address = f"{listener.host or '127.0.0.1'}:{listener.port}"
                self._log.ready(self.controller.image.cluster_id, [f"{listener.name}://{address}"])
                task_status.started(address)
        finally:
            await self._disk.run(self.controller.close)
            self._log.stopped(clean=True)
            self._disk.unlock_all()

    def why_not_ready(self) -> str:
        """Why the controller does not serve brokers now, in words; "" if the controller serves them."""
        if self._stopping.is_set():
            return "stopping"
        if not self.controller.image.cluster_id:
            return "starting: waits for the first records of the cluster"
        return "" if self.controller.leader_id >= 0 else "no active controller is known"

    async def _serve_metrics(self, nursery: trio.Nursery) -> None:
        if self._config.metrics_listener is not None:
            from minikafka.broker.node.metrics_parts import node_collectors, serve_metrics

            config, system = self._config, self._system
            collectors = node_collectors(config, system, self.controller, self.why_not_ready)
            self._system.nobody_waited()
            await nursery.start(serve_metrics, config, system, self._tls, collectors, self.why_not_ready)

    def _claim_directories(self, cluster_id: str) -> None:
        """Check `meta.properties` of each directory, or write it where it is missing."""
        static = self._config.static
        for path in sorted({metadata_directory(static), *data_directories(static)}):
            DataDirectory(self._disk, path).open(static.node_id, cluster_id, random=self._random)

    async def _follow_settings(self) -> None:
        """Read the certificates that the metadata names, once this node has applied its log, and whenever they change.

        Before, the certificates are those that the log on disk names: what it has in between would bring back old ones.
        """
        while self.controller.offset < min(self._stored_offset, self.controller.stored.end_offset):
            await self.controller.wait_advanced()
        await self._tls.catch_up(self._disk, self._texts)
        self.controller.subscribe(self._apply_settings)

    def _texts(self) -> dict[str, str]:
        return tls_texts(EffectiveSettings(self._config.static, self.controller.image))

    async def _apply_settings(self, records: Sequence[Record]) -> None:
        """Read the certificates again whose settings `records`, which are committed metadata, set."""
        self._log.altered(without_effect(records, self._config.node_id))
        if listeners := self._tls.named_by(records):
            await self._disk.run(self._tls.renew, listeners, self._texts())

    async def _end_when_stopped(self, scope: trio.CancelScope) -> None:
        await self._stopping.wait()
        await self.controller.resign()
        scope.cancel()

    def stop(self) -> None:
        """Make `run` end. This method returns at once."""
        self._stopping.set()
