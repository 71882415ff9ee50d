"""Stray logs: logs on disk that belong to no partition of this broker, deleted when the broker starts.

They belong to a topic that was deleted or re-created, or to a replica that was moved, while the broker was down.
"""

import structlog

from minikafka.broker.partitions.partition_table import Partitions
from minikafka.storage.log_manager import LogManager

log = structlog.get_logger("minikafka.partitions")


def delete_stray_logs(logs: LogManager, partitions: Partitions) -> None:
    """Delete the logs without a partition.

    Args:
        partitions: Must be those of a caught-up metadata image, or logs of newer partitions are lost.
    """
    for stray in [key for key in logs.logs if partitions.get(*key) is None]:
        log.warning("deleting stray log", partition=str(stray))
        logs.delete(stray)
