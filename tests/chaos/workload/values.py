"""The values of records: each names its record, and big ones can be checked against their name; tombstones have it in
a header."""

from __future__ import annotations

from chaos.history import Read
from minikafka.client import ConsumerRecord
from minikafka.protocol.names import TopicPartition

KEY_COUNT = 8
NAME_HEADER = "name"
"""The header of a tombstone with the name of the record."""
_PADDED = "+"


def name_of(client: str, number: int, size_bytes: int = 0) -> str:
    """The name of a record, which is its value in the history. It has the size of a value that is longer than it."""
    return f"{client}:{number}{_PADDED}{size_bytes}" if size_bytes else f"{client}:{number}"


def value_bytes(name: str) -> bytes:
    """The value of a record: its name, repeated up to the size that it has."""
    data = name.encode()
    size_bytes = int(name.rpartition(_PADDED)[2]) if _PADDED in name else len(data)
    return (data + b" ") * (size_bytes // (len(data) + 1)) + data if size_bytes > len(data) else data


def read_of(record: ConsumerRecord, topic: str | None = None) -> Read:
    """A record as it is recorded. A value that does not match its name is recorded whole, as no producer has sent it.

    Args:
        topic: The name in the history.
    """
    partition = TopicPartition(topic or record.topic, record.partition)
    key = None if record.key is None else record.key.decode(errors="replace")
    return Read(partition, record.offset, key, _named(record))


def _named(record: ConsumerRecord) -> str:
    if record.value is not None:
        return name_in(record.value)
    return next((value.decode(errors="replace") for name, value in record.headers if name == NAME_HEADER and value), "")


def name_in(value: bytes) -> str:
    """The name in a value; the whole value if it does not match its name."""
    name = value.rpartition(b" ")[2].decode(errors="replace")
    return name if value_bytes_or_none(name) == value else value.decode(errors="replace")


def value_bytes_or_none(name: str) -> bytes | None:
    """The value of a name, None if it is no name."""
    try:
        return value_bytes(name)
    except ValueError:
        return None
