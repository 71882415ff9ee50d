"""The Python client: Producer, Consumer and Admin for asyncio and trio.

    import asyncio
    from minikafka.client import Consumer, Producer

    async def main():
        async with Producer(bootstrap_servers="localhost:9092") as producer:
            await producer.send("greetings", b"hello", key=b"world")
        async with Consumer("greetings", auto_offset_reset="earliest") as consumer:
            async for record in consumer:
                print(record.offset, record.key, record.value)

    asyncio.run(main())

`minikafka.client.blocking` has the same three for code without async. Arguments have Kafka's names with underscores;
errors are the KafkaError classes of `minikafka.protocol.errors`. The client works with Apache Kafka as well.

A producer with a `transactional_id` writes in transactions, which may include the offsets of the records read:

        async with producer.transaction():
            await producer.send("delays", …)
            await producer.send_offsets_to_transaction({partition: record.offset + 1}, consumer.group_metadata())

The path of a record: `Producer.send` appends it to the open batch of its partition; a background task sends full or old
batches to the partitions' leaders, and the response completes the records' deliveries. A consumer's background task
fetches ahead of the user; each chunk of records is decoded when its first record is requested. All clients share one
layer of connections, metadata and retries. Logic is pure and tested without sockets; tasks and sockets are thin.

    options.py           the options of all clients, with defaults and bounds
    option_checks.py     which values an option may have
    broker_limits.py     options whose values brokers limit, and the error message for a value that a broker refuses
    arguments.py         the options of all clients as TypedDicts, for type checkers and editors
    argument_kinds.py    which values an argument of a method may have, derived from its annotation
    argument_checks.py   makes the public methods of a class check their arguments
    security/            TLS and SASL: their options, certificates and logins
    connections/         sockets, requests and responses, metadata, retries and backoff
    producer/            partitioning, batches, sequence numbers, Produce requests
    consumer/            positions, Fetch requests, records, subscriptions, commits, Arrow
    groups/              group membership (classic and consumer protocol) and assignors
    assignor.py          the interface of an assignor: the assignors in `groups/` implement it, and users may
    metrics.py           metrics with the names of the JVM client
    records.py           records as applications see them
    interceptors.py      the interfaces of interceptors, which users implement
    offsets.py           an offset with metadata, or with a timestamp
    offset_queries.py    ListOffsets, OffsetFetch and OffsetCommit, for consumer and admin client
    admin/               topics, configs, groups, replicas and the quorum
    security/            key stores, trust stores and contexts of TLS
    blocking/            Producer, Consumer and Admin for code without async

Caveats:
    * A client must be used in an `async with` block, and its background tasks run in a task group there. There is no
      `start()` and `stop()`.
    * The default of `batch_size` is much larger than Kafka's 16 KiB, as Python is slow with small batches, and it
      counts uncompressed bytes.
    * Without a `Listener`, rebalances happen in the background, even while a record is being processed: its partition
      may be reassigned meanwhile, and another member may consume its last records again. Automatic commits never
      include the record being processed; after a reassignment, a commit of its offset is rejected. With a `Listener`, a
      rebalance waits for the application's next request for records, as in the JVM client.
    * `allow_auto_create_topics` is False for Consumer and Admin. Kafka's consumer lets brokers create topics it reads.
    * A batch that decompresses to more than 256 MiB is rejected as corrupt. All records of a batch are decoded at once,
      whatever `max_poll_records` is: 1.25 million empty records, in 1 MB, take 1.8 s and 300 MB.
    * A blocking producer does not call `on_delivery` for a record that is refused, or dropped at closing, before the
      event loop has taken the record: `result()` raises the error, or the log reports it.
    * No share groups.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minikafka.client.admin.admin import Admin
    from minikafka.client.admin.admin_types import (
        ApiVersionRange,
        ClientQuota,
        ClusterDescription,
        ConfigEntry,
        ConfigSynonym,
        Feature,
        FeaturesDescription,
        GroupDescription,
        GroupListing,
        HangingTransaction,
        LogDirectory,
        NewTopic,
        ProducerState,
        QuorumDescription,
        QuorumReplica,
        Reassignment,
        TransactionDescription,
        TransactionListing,
    )
    from minikafka.client.admin.security_types import Acl, AclFilter, DelegationToken
    from minikafka.client.consumer.consumer import Consumer
    from minikafka.client.consumer.deserialization import RecordDeserializationError
    from minikafka.client.consumer.listener import Listener
    from minikafka.client.consumer.position_validation import LogTruncationError
    from minikafka.client.groups.group_metadata import GroupMetadata
    from minikafka.client.interceptors import ConsumerInterceptor, ProducerInterceptor
    from minikafka.client.metrics import MetricName
    from minikafka.client.offset_queries import EARLIEST, LATEST, MAX_TIMESTAMP
    from minikafka.client.offsets import OffsetAndMetadata, OffsetAndTimestamp
    from minikafka.client.options import InvalidOption
    from minikafka.client.producer.producer import Producer
    from minikafka.client.producer.producer_batch import Delivery
    from minikafka.client.producer.transaction_state import (
        AbortableTransactionError,
        FatalTransactionError,
        ProducerFenced,
        TransactionAborted,
    )
    from minikafka.client.records import ConsumerRecord, ProducerRecord, RecordBatch, RecordMetadata
    from minikafka.protocol.errors import KafkaError
    from minikafka.protocol.names import TopicPartition

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "AbortableTransactionError",
    "Acl",
    "AclFilter",
    "Admin",
    "ApiVersionRange",
    "ClientQuota",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigSynonym",
    "Consumer",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "DelegationToken",
    "Delivery",
    "FatalTransactionError",
    "Feature",
    "FeaturesDescription",
    "GroupDescription",
    "GroupListing",
    "GroupMetadata",
    "HangingTransaction",
    "InvalidOption",
    "KafkaError",
    "Listener",
    "LogDirectory",
    "LogTruncationError",
    "MetricName",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Producer",
    "ProducerFenced",
    "ProducerInterceptor",
    "ProducerRecord",
    "ProducerState",
    "QuorumDescription",
    "QuorumReplica",
    "Reassignment",
    "RecordBatch",
    "RecordDeserializationError",
    "RecordMetadata",
    "TopicPartition",
    "TransactionAborted",
    "TransactionDescription",
    "TransactionListing",
]

_PLACES = {
    "client.admin.admin": ("Admin",),
    "client.admin.admin_types": (
        "ApiVersionRange",
        "ClientQuota",
        "ClusterDescription",
        "ConfigEntry",
        "ConfigSynonym",
        "Feature",
        "FeaturesDescription",
        "GroupDescription",
        "GroupListing",
        "HangingTransaction",
        "LogDirectory",
        "NewTopic",
        "ProducerState",
        "QuorumDescription",
        "QuorumReplica",
        "Reassignment",
        "TransactionDescription",
        "TransactionListing",
    ),
    "client.admin.security_types": (
        "Acl",
        "AclFilter",
        "DelegationToken",
    ),
    "client.consumer.consumer": ("Consumer",),
    "client.consumer.deserialization": ("RecordDeserializationError",),
    "client.consumer.listener": ("Listener",),
    "client.consumer.position_validation": ("LogTruncationError",),
    "client.groups.group_metadata": ("GroupMetadata",),
    "client.interceptors": (
        "ConsumerInterceptor",
        "ProducerInterceptor",
    ),
    "client.metrics": ("MetricName",),
    "client.offset_queries": (
        "EARLIEST",
        "LATEST",
        "MAX_TIMESTAMP",
    ),
    "client.offsets": (
        "OffsetAndMetadata",
        "OffsetAndTimestamp",
    ),
    "client.options": ("InvalidOption",),
    "client.producer.producer": ("Producer",),
    "client.producer.producer_batch": ("Delivery",),
    "client.producer.transaction_state": (
        "AbortableTransactionError",
        "FatalTransactionError",
        "ProducerFenced",
        "TransactionAborted",
    ),
    "client.records": (
        "ConsumerRecord",
        "ProducerRecord",
        "RecordBatch",
        "RecordMetadata",
    ),
    "protocol.errors": ("KafkaError",),
    "protocol.names": ("TopicPartition",),
}
"""The public names by module. They are imported on first use: a broker needs only `connections`, and starts faster."""


if not TYPE_CHECKING:  # With it a type checker would accept any name.

    def __getattr__(name: str) -> Any:
        """A public name, or a module of the client, imported on first use. Raises AttributeError."""
        for module, names in _PLACES.items():
            if name in names:
                value = globals()[name] = getattr(import_module(f"minikafka.{module}"), name)
                return value
        if name.startswith("_") or find_spec(f"{__name__}.{name}") is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
