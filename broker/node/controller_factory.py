"""Makes a node's controller: a standalone controller, or this node's member of the quorum.

Modules that only a cluster needs are imported when there is one, so that a single node starts faster.
"""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.quorum.peer_network import Network, TcpNetwork
from minikafka.controller.standalone_controller import StandaloneController
from minikafka.storage.disk import Disk

if TYPE_CHECKING:
    from minikafka.controller.quorum_controller import QuorumController

__all__ = ["controller_of"]


def controller_of(
    config: NodeConfig,
    *,
    disk: Disk,
    network: Network | None,
    now_ms: Callable[[], int],
    random: Random,
    log_levels: dict[str, str] | None,
) -> "StandaloneController | QuorumController":
    """A `StandaloneController` where the node is the whole cluster, else a `QuorumController`. Not started."""
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
