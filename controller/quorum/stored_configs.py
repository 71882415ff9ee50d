"""The configs of brokers in the metadata log on disk, for what a node needs before it has the metadata."""

from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.metadata_log import decoded_records
from minikafka.controller.metadata.records import ConfigRecord
from minikafka.controller.quorum.raft_log import READ_SIZE, StoredRaftLog
from minikafka.controller.settings.effective_settings import ResourceType
from minikafka.protocol.records.batch import batches
from minikafka.storage.steps import at_once

__all__ = ["stored_configs"]


def stored_configs(stored: StoredRaftLog, image: Image, name_part: str) -> Image:
    """Read the configs of brokers whose names contain `name_part`, in a new image that has nothing else.

    They may be outdated, or not committed: what uses them must look again once the node has the metadata. Blocking.

    Args:
        stored: the log, whose records follow `image`.
        image: the metadata of the newest snapshot.
        name_part: a part of the names; other records are not decoded.

    Raises:
        UnreadableRecord: the log is damaged.
    """
    found, offset, mark = Image(), stored.start_offset, name_part.encode()
    for broker, values in image.configs_of(ResourceType.BROKER).items():
        for name, value in values.items():
            _apply(found, ConfigRecord(ResourceType.BROKER, broker, name, value), name_part)
    while data := stored.read(offset, READ_SIZE):
        for batch in batches(data):
            offset = batch.next_offset
            if not batch.is_control and mark in bytes(batch.data):
                for record in at_once(decoded_records(batch)):
                    _apply(found, record, name_part)
    return found


def _apply(found: Image, record: object, name_part: str) -> None:
    if isinstance(record, ConfigRecord) and record.resource_type == ResourceType.BROKER and name_part in record.name:
        found.apply(record)
