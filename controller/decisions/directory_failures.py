"""Handles data directories that a broker can no longer use: their replicas leave every ISR (KIP-112, KIP-858).

The functions are called for heartbeats that name such directories. Directories that failed at the start of a broker
need no such handling: the registration does not list them, and a broker that registers is in no ISR.

Source: `ReplicationControlManager.handleDirectoriesOffline`.
"""

from collections.abc import Generator, Iterable, Set

from minikafka.controller.decisions.broker_fencing import limited
from minikafka.controller.decisions.decision import Context
from minikafka.controller.decisions.leader_election import TopicRules
from minikafka.controller.decisions.partition_changes import changes_where
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import BrokerChange, BrokerRecord, Record
from minikafka.storage.directories.directory_ids import LOST

__all__ = ["directories_failed", "lost_directories"]


def lost_directories(broker: BrokerRecord, failed: Iterable[bytes]) -> set[bytes]:
    """The failed directories that are still in the broker's registration."""
    return set(failed).intersection(broker.log_dirs)


def directories_failed(
    image: Image, broker: BrokerRecord, lost: Set[bytes], context: Context
) -> Generator[None, None, list[Record]]:
    """The records that remove lost directories from the registration, and the replicas in them from the ISRs.

    If the records do not fit into one decision, the directories stay registered; the broker then reports them in its
    next heartbeats too, until they are removed.
    """
    node_id = broker.node_id

    def has_online(node: int, directory: bytes) -> bool:
        return image.has_online(node, directory) and not (node == node_id and directory in lost)

    changes = changes_where(
        image,
        TopicRules(image, context.settings(image), has_online=has_online),
        where=lambda state: node_id in state.isr and state.directory(node_id) in lost,
        leaves_isr=node_id,
    )
    remaining = tuple(directory for directory in broker.log_dirs if directory not in lost)
    # An empty tuple stands for a broker that reports no directories.
    changed = BrokerChange(node_id, broker.epoch, log_dirs=remaining or (LOST,))
    records, more = yield from limited([changed], changes)
    return records[1:] if more else records
