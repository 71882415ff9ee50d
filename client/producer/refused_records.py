"""The errors of records that a producer refuses before it queues them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from minikafka.client.argument_kinds import shown
from minikafka.client.options import ProducerOptions
from minikafka.client.producer.transaction_state import TransactionState
from minikafka.protocol.counted import counted
from minikafka.protocol.errors import KafkaError, MessageTooLargeError, RequestTimedOutError

Refusing = TypeVar("Refusing", bound=Exception)


@contextmanager
def refusing(transaction: TransactionState | None) -> Iterator[None]:
    """A block whose KafkaError refuses a record of the open transaction, if there is one."""
    try:
        yield
    except KafkaError as error:
        refused(error, transaction)
        raise


def refused(error: Refusing, transaction: TransactionState | None) -> Refusing:
    """Note in the open transaction, if there is one, that a record is refused; return the error."""
    if transaction is not None:
        transaction.refused(error)
    return error


def too_large(topic: str, size_bytes: int, options: ProducerOptions) -> MessageTooLargeError:
    """The error of a record that is larger than an option allows."""
    name = "max_request_size" if size_bytes > options.max_request_size else "buffer_memory"
    bound = f"{name} is {getattr(options, name)}"
    return MessageTooLargeError(f"a record of {counted(size_bytes, 'byte')} for topic {topic!r}: {bound}")


def no_partition(topic: str, partition: object, partition_count: int) -> ValueError:
    """The error of a record for a partition that its topic does not have."""
    return ValueError(f"topic {topic!r} has no partition {shown(partition)}: it has 0 to {partition_count - 1}")


def no_memory(options: ProducerOptions, why: str) -> RequestTimedOutError:
    """The error of a record for which no memory became free; `why` is what keeps records from being delivered."""
    return RequestTimedOutError(
        f"no memory for a record within {options.max_block_ms} ms (max_block_ms): buffer_memory of"
        f" {counted(options.buffer_memory, 'byte')} is full, as records are sent faster than brokers"
        f" accept them: {why}"
    )
