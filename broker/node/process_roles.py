"""What a node is: the whole cluster, one of several, or a mere controller, which serves no client.

Trio is imported for the life of a mere controller. What only a cluster needs is imported when there is one, so that a
node alone starts sooner.
"""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import structlog
import trio

from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.quorum.peer_network import Network, TcpNetwork
from minikafka.controller.settings.metadata_log_settings import data_directories, metadata_directory
from minikafka.controller.standalone_controller import StandaloneController
from minikafka.storage.data_directory import DataDirectory
from minikafka.storage.disk import Disk

if TYPE_CHECKING:
    from minikafka.controller.quorum_controller import QuorumController

__all__ = ["ControllerNode", "controller_of"]

log = structlog.get_logger("minikafka")


def controller_of(
    config: NodeConfig,
    *,
    disk: Disk,
    network: Network | None,
    now_ms: Callable[[], int],
    random: Random,
    log_levels: dict[str, str] | None,
) -> "StandaloneController | QuorumController":
    """What decides for a node alone, or the node's part in the quorum."""
    if config.is_alone:
        return StandaloneController(config.static, disk=disk, now_ms=now_ms, random=random, log_levels=log_levels)
    from minikafka.controller.quorum.quorum_settings import quorum_settings
    from minikafka.controller.quorum_controller import QuorumController

    listen_on = [(one.host, one.port) for one in config.listeners.for_controllers] if config.is_controller else []
    return QuorumController(
        config.static,
        quorum_settings(config.static, listen_on, is_controller=config.is_controller),
        disk=disk,
        network=network or TcpNetwork(),
        now_ms=now_ms,
        random=random,
        log_levels=log_levels,
    )


class ControllerNode:
    """A node whose only role is that of a controller. Arguments as of `Node`."""

    def __init__(
        self,
        config: NodeConfig,
        *,
        disk: Disk,
        now_ms: Callable[[], int],
        random: Random,
        network: Network | None = None,
        log_levels: dict[str, str] | None = None,
    ) -> None:
        self._config = config
        self._disk = disk
        self._random = random
        found = controller_of(
            config, disk=disk, network=network, now_ms=now_ms, random=random, log_levels=log_levels
        )
        assert not isinstance(found, StandaloneController), "a mere controller is not alone"
        self.controller = found
        self._stopping = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
        """Take part in the quorum until `stop`. `task_status` is given its address once the cluster has its first
        records, which is when it can be used.

        Raises:
            OSError, WrongDirectory: As `Node.run`.
        """
        for warning in self._config.warnings():
            log.warning("configuration warning", warning=warning)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._end_when_stopped, nursery.cancel_scope)
                await nursery.start(self.controller.run)
                self._claim_directories(await self.controller.wait_for_cluster_id())
                listener = self._config.listeners.for_controllers[0]
                task_status.started(f"{listener.host or '127.0.0.1'}:{listener.port}")
        finally:
            self.controller.close()
            self._disk.unlock_all()

    def _claim_directories(self, cluster_id: str) -> None:
        """See that they are this node's and this cluster's, or write that down."""
        static = self._config.static
        for path in sorted({metadata_directory(static), *data_directories(static)}):
            DataDirectory(self._disk, path).open(static.node_id, cluster_id, random=self._random)

    async def _end_when_stopped(self, scope: trio.CancelScope) -> None:
        await self._stopping.wait()
        await self.controller.resign()
        scope.cancel()

    def stop(self) -> None:
        """Have `run` end; returns at once."""
        self._stopping.set()
