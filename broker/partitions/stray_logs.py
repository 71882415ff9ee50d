"""Sets stray logs aside when the broker starts: logs on disk that belong to no partition of this broker.

A stray log belongs to a topic that was deleted or re-created, or to a replica that was moved, while the broker was
down; or it was written with another metadata log. Stray logs are kept as `-stray` directories, which the node reports
at every start and never removes.
"""

from collections.abc import Callable, Generator

import structlog

from minikafka.broker.partitions.partition_table import Partitions
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition
from minikafka.storage.directories.log_manager import LogManager

log = structlog.get_logger("minikafka.partitions")


def set_stray_logs_aside(
    logs: LogManager, partitions: Partitions, is_assigned: Callable[[TopicPartition], bool]
) -> Generator[None]:
    """Rename the logs without a partition; other tasks may run at each `yield`. A failing directory goes offline.

    Args:
        is_assigned: Whether this node has a replica of a partition according to the metadata, served or not; the logs
            of such a replica stay. A replica that cannot be served now is tried again later; a log that belongs to
            another topic is set aside then.
        partitions: The partitions of a caught-up metadata image; otherwise the logs of newer partitions look stray.
    """
    unsettled = [key for key in logs.unsettled if not is_assigned(key)]
    unserved = [key for key in logs.logs if partitions.get(*key) is None and not is_assigned(key)]
    others = {
        key
        for key in (*logs.failures.corrupt, *logs.futures.partitions)
        if key not in logs.logs and not is_assigned(key)
    }
    for key in [*unsettled, *unserved, *sorted(others)]:
        try:
            if key in unsettled:
                logs.settle(key, None)
            else:
                logs.set_aside(key)
        except KafkaError as error:
            log.error("stray log not set aside", partition=str(key), error=str(error))
        yield
