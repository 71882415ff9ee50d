"""Applies the deserializers of a consumer; `RecordDeserializationError` names the first record for which one fails."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, repeat
from typing import Any, NamedTuple

from minikafka.client.option_checks import Deserializer, RecordDeserializer
from minikafka.client.user_code import ENDS_PROGRAM
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.columns import Columns
from minikafka.protocol.records.record import Headers


class RecordDeserializationError(KafkaError):
    """A deserializer raised an exception, which is the cause. All earlier records were returned.

    The consumer stays at this record, and the next request for records raises again, as in the JVM client (KIP-334,
    KIP-1036). To skip the record, seek to `offset` + 1.

    Attributes:
        topic_partition, offset, timestamp, headers: those of the record.
        origin: "key" or "value".
        key, value: the bytes received.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        offset: int,
        origin: str,
        error: BaseException,
        *,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
    ) -> None:
        super().__init__(
            f"{topic_partition}: the {origin} of the record at offset {offset} cannot be deserialized: {error!r};"
            f" seek to {offset + 1} to skip it"
        )
        self.topic_partition = topic_partition
        self.offset = offset
        self.origin = origin
        self.key, self.value = key, value
        self.timestamp = timestamp
        self.headers = headers
        self.__cause__ = error


class Deserialized(NamedTuple):
    """The deserialized objects of a column, up to the first field that failed; `error` is the exception for it."""

    objects: Sequence[Any]
    error: BaseException | None = None


def deserialized(
    column: Sequence[bytes | None],
    first: int,
    deserializer: Deserializer | None,
    topic: str,
    headers: Sequence[Headers] | None,
) -> Deserialized:
    """Deserialize a column from index `first` on; `headers` is None if no record has any."""
    if deserializer is None:
        return Deserialized(column[first:] if first else column)
    objects: list[Any] = []
    try:
        if isinstance(deserializer, RecordDeserializer):
            rows = zip(islice(column, first, None), repeat(()) if headers is None else headers[first:], strict=False)
            objects.extend(
                None if one is None else deserializer.deserialize(topic, some, one) for one, some in rows
            )
            return Deserialized(objects)
        objects.extend(None if one is None else deserializer(one) for one in islice(column, first, None))
    except ENDS_PROGRAM:
        raise
    except BaseException as error:  # noqa: BLE001 (the user's function may raise anything; the application receives it)
        return Deserialized(objects, error)
    return Deserialized(objects)


def deserialization_error(
    tp: TopicPartition, columns: Columns, first: int, keys: Deserialized, values: Deserialized
) -> RecordDeserializationError:
    """The error of the first record of which the key or the value could not be deserialized."""
    of_key = keys.error is not None and (values.error is None or len(keys.objects) <= len(values.objects))
    error = keys.error if of_key else values.error
    assert error is not None
    index = first + len(keys.objects if of_key else values.objects)
    return RecordDeserializationError(
        tp,
        columns.offsets[index],
        "key" if of_key else "value",
        error,
        key=columns.keys()[index],
        value=columns.values()[index],
        timestamp=columns.timestamps[index],
        headers=columns.headers[index] if columns.headers is not None else (),
    )
