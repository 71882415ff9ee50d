"""Kafka in Python: brokers, a client for asyncio, trio and code without async, a Spark data source, and tools.

    import minikafka

    async with minikafka.Producer(bootstrap_servers="localhost:9092") as producer:
        await producer.send("greetings", b"hello", key=b"world")

The public names are those of `minikafka.client`. The first use of one imports the client, so that `import minikafka`
alone is fast. `minikafka.client.blocking` has the same clients for code without async.

In the repository the subpackages (`broker/`, `client/`, …) are top-level folders; only this folder and
`pyspark_minikafka` are in `package/`. `setup.py` puts all of them into a wheel. An editable install puts `package/` on
the import path, and this file adds the repository to `__path__`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minikafka.client import (
        EARLIEST,
        LATEST,
        MAX_TIMESTAMP,
        AbortableTransactionError,
        Acl,
        AclFilter,
        Admin,
        ApiVersionRange,
        ClientQuota,
        ClusterDescription,
        ConfigEntry,
        ConfigSynonym,
        Consumer,
        ConsumerInterceptor,
        ConsumerRecord,
        DelegationToken,
        Delivery,
        FatalTransactionError,
        Feature,
        FeaturesDescription,
        GroupDescription,
        GroupListing,
        GroupMetadata,
        HangingTransaction,
        InvalidOption,
        KafkaError,
        Listener,
        LogDirectory,
        LogTruncationError,
        MetricName,
        NewTopic,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        Producer,
        ProducerFenced,
        ProducerInterceptor,
        ProducerRecord,
        ProducerState,
        QuorumDescription,
        QuorumReplica,
        Reassignment,
        RecordBatch,
        RecordDeserializationError,
        RecordMetadata,
        TopicPartition,
        TransactionAborted,
        TransactionDescription,
        TransactionListing,
    )

__version__ = "0.2.0"

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
    "__version__",
]


if not TYPE_CHECKING:  # With it a type checker would accept any name.

    def __getattr__(name: str) -> Any:
        """A public name of the client, imported on first use. Raises AttributeError."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from minikafka import client

        value = globals()[name] = getattr(client, name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _checkout(package: Path) -> Path | None:
    """The root of the checkout that `package` belongs to, or None where it is installed."""
    root = package.parent.parent
    in_checkout = package.parent.name == "package" and (root / "pyproject.toml").is_file()
    return root if in_checkout and (root / "protocol").is_dir() else None


if (_root := _checkout(Path(__file__).parent)) is not None:
    __path__.append(str(_root))
