"""Makes a node's controller: a standalone controller, or this node's member of the quorum.

Modules that only a cluster needs are imported when there is one, so that a single node starts faster.
"""

from typing import TYPE_CHECKING

from minikafka.broker.node.system import System
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.standalone_controller import StandaloneController

if TYPE_CHECKING:
    from minikafka.controller.quorum_controller import QuorumController

__all__ = ["controller_of"]


def controller_of(config: NodeConfig, system: System) -> "StandaloneController | QuorumController":
    """A `StandaloneController` where the node is the whole cluster, else a `QuorumController`. Not started."""
    if config.is_alone:
        return StandaloneController(
            config.static,
            disk=system.disk,
            now_ms=system.now_ms,
            random=system.random,
            log_levels=system.log_levels,
        )
    from minikafka.controller.quorum.quorum_settings import quorum_settings
    from minikafka.controller.quorum_controller import QuorumController

    listen_on = [(one.host, one.port) for one in config.listeners.for_controllers] if config.is_controller else []
    return QuorumController(
        config.static,
        quorum_settings(config.static, listen_on, is_controller=config.is_controller),
        disk=system.disk,
        network=system.peers,
        now_ms=system.now_ms,
        random=system.random,
        log_levels=system.log_levels,
    )
