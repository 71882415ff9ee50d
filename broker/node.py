"""A node: everything put together, started in order, stopped in order.

    metadata (controller, image) → logs on disk → partitions → coordinators → listeners → ready

Nothing here decides anything; it is where the rooms meet.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import structlog
import trio

from minikafka.broker.apis import HANDLERS
from minikafka.broker.config import NodeConfig
from minikafka.broker.config_listeners import Listener
from minikafka.broker.context import RequestContext
from minikafka.broker.dispatch import Dispatcher, routes_of
from minikafka.broker.fetch_sessions import SessionCache
from minikafka.broker.lifecycle import Housekeeping, MetadataFollower, repeat
from minikafka.broker.metadata import Address
from minikafka.broker.partitions import Partitions
from minikafka.broker.producer_ids import ProducerIds
from minikafka.broker.server import Server
from minikafka.controller.controller import Controller
from minikafka.storage.disk import Disk
from minikafka.storage.logs import LogManager

log = structlog.get_logger("minikafka")


class Node:
    """One node of a cluster.

    Args:
        config: Its settings.
        disk: Where it keeps everything.
        now_ms: The wall clock.
        random: For ids of sessions and placements.
    """

    def __init__(self, config: NodeConfig, *, disk: Disk, now_ms: Callable[[], int], random: Random) -> None:
        self.config = config
        self.now_ms = now_ms
        self._disk = disk
        self._random = random
