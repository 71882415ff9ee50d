"""`NodeLog`: logs the start and stop of a node: `node starting`, `node ready`, `node stopped`."""

from collections.abc import Sequence

import structlog

from minikafka import __version__
from minikafka.broker.node.system import System
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.protocol.shortened import shortened

__all__ = ["NodeLog"]

log = structlog.get_logger("minikafka")

NAMES_MAX = 20
"""The number of settings that one line names."""


class NodeLog:
    """Logs the life of one node, and the warnings of its settings.

    Args:
        config: The settings of the node.
        system: Provides the clock.
    """

    def __init__(self, config: NodeConfig, system: System) -> None:
        self._config = config
        self._now_ms = system.now_ms
        self._began_ms = system.now_ms()

    def starting(self) -> None:
        """Log the version, the roles, the data directories and the warnings, before the node opens any file."""
        config = self._config
        log.info(
            "node starting",
            version=__version__,
            node=config.node_id,
            roles=config.items("process.roles"),
            directories=config.log_dirs if config.is_broker else (config.metadata_log_dir,),
        )
        for warning in config.warnings():
            log.warning("configuration warning", warning=warning)
        if opened := [str(listener) for listener in config.open_listeners]:
            log.warning("every client that reaches this node is let in, without authentication", listeners=opened)

    def ready(self, cluster_id: str, listeners: list[str], *, leads: int = 0, follows: int = 0) -> None:
        """Log that the node serves clients, or, as a controller, brokers.

        Args:
            cluster_id: The id of the node's cluster.
            listeners: The addresses at which the node listens.
            leads, follows: The numbers of partitions that the node leads and follows.
        """
        log.info(
            "node ready",
            node=self._config.node_id,
            cluster=cluster_id,
            listeners=listeners,
            leads=leads,
            follows=follows,
            seconds=self._seconds(),
        )

    def altered(self, without_effect: Sequence[str]) -> None:
        """Log once that settings were altered that do not change while the node runs, if there are any."""
        if without_effect:
            names = [shortened(name) for name in without_effect[:NAMES_MAX]]
            log.warning("settings altered without effect", settings=names, count=len(without_effect))

    def stopped(self, *, clean: bool) -> None:
        """Log that the node has stopped, as the last line. `clean` tells whether all logs were closed cleanly."""
        log.info("node stopped", node=self._config.node_id, clean=clean, seconds=self._seconds())

    def _seconds(self) -> float:
        return (self._now_ms() - self._began_ms) / 1000
