"""The Python client: produce, consume and administer, under asyncio and under trio alike.

    import asyncio
    from minikafka.client import Consumer, Producer

    async def main():
        async with Producer(bootstrap_servers="localhost:9092") as producer:
            await producer.send("greetings", b"hello", key=b"world")
        async with Consumer("greetings", auto_offset_reset="earliest") as consumer:
            async for record in consumer:
                print(record.offset, record.key, record.value)

    asyncio.run(main())

`minikafka.client.blocking` has the same three for code without async. Arguments carry Kafka's names with underscores;
errors are the KafkaError classes of `minikafka.protocol.errors`. It speaks to Apache Kafka as well.

The idea: what decides is pure, what waits is thin. A record that is sent goes into the open batch of its partition at
once (`accumulator`, `batch`, `partitioner`); nothing is made for it but a small handle. Full or old batches leave in
requests, one batch per partition, up to five requests in flight per broker, and answers settle them (`sender`). A
consumer fetches ahead of its user: answers become chunks (`fetcher`, `fetch_loop`), each decoded as a whole when its
first record is wanted. A group is a state machine (`membership`, `assignors`) with a driver (`group`).

    options.py                     what clients can be told, checked
    seams.py shell_*.py            clock, randomness, sockets; a shell of ours for each event loop
    connection.py metadata.py stalls.py cluster.py backoff.py     requests and answers; who leads what; retries
    partitioner.py batch.py accumulator.py sender.py producer.py
    fetcher.py fetch_loop.py offsets.py consumer.py
    assignors.py membership.py group.py subscription.py
    admin.py admin_groups.py admin_replicas.py admin_types.py
    blocking.py                    the same for code without async
    arrow.py                       records as columns, for pandas, polars and Spark (needs pyarrow and numpy)

Caveats:
    * A client lives in an `async with` block, and its background in a task group there: no `start()` and `stop()`.
    * `batch_size` is 256 KiB, not 16, and counts uncompressed bytes: with small batches Python could not keep up.
    * Rebalances happen in the background, also while a record is being processed: a partition may move on
      meanwhile, and its last records come to another member once more. Automatic commits never take in the
      record being processed.
    * A batch that decompresses to more than 256 MiB is refused as damaged.
    * No transactions, no KIP-848 groups, no share groups, no TLS and SASL, no fetch sessions and no rack-aware
      fetching yet. A consumer does not look for truncation after an unclean leader election (KIP-320).
"""

from minikafka.client.admin.admin import Admin
from minikafka.client.admin.admin_types import (
    ClusterDescription,
    ConfigEntry,
    GroupDescription,
    GroupListing,
    LogDirectory,
    NewTopic,
    QuorumDescription,
    QuorumReplica,
    Reassignment,
)
from minikafka.client.consumer.consumer import Consumer
from minikafka.client.consumer.consumer_record import ConsumerRecord, RecordBatch
from minikafka.client.consumer.subscription import Listener
from minikafka.client.offset_queries import EARLIEST, LATEST, MAX_TIMESTAMP, OffsetAndMetadata, OffsetAndTimestamp
from minikafka.client.options import InvalidOption
from minikafka.client.producer.producer import Producer
from minikafka.client.producer.producer_batch import Delivery, RecordMetadata
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "Admin",
    "ClusterDescription",
    "ConfigEntry",
    "Consumer",
    "ConsumerRecord",
    "Delivery",
    "GroupDescription",
    "GroupListing",
    "InvalidOption",
    "KafkaError",
    "Listener",
    "LogDirectory",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Producer",
    "QuorumDescription",
    "QuorumReplica",
    "Reassignment",
    "RecordBatch",
    "RecordMetadata",
    "TopicPartition",
]
