"""The options of the sink: parses and validates the options of Spark's Kafka sink, with its error messages. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from minikafka.protocol.records.compression import Codec
from minikafka.spark_connector.options.producer_settings import ProducerSettings
from minikafka.spark_connector.options.security_settings import SecuritySettings
from minikafka.spark_connector.options.source_options import OPTIONS as SOURCE_OPTIONS
from minikafka.spark_connector.options.source_options import (
    KafkaOptions,
    Numbers,
    RefusedOption,
    check_connection,
    check_names,
)

EXACTLY_ONCE, AT_LEAST_ONCE, ATOMIC = "exactly_once", "at_least_once", "atomic"
CHECKS = ("content", "rows", "none")
OPTIONS = (
    "topic", "includeHeaders", "delivery", "replayCheck", "transactionalIdPrefix", "txnAppId", "txnVersion",
    "atomicBytesMax", "logProgress",
)  # fmt: skip
"""All options except `kafka.*`; only the first two exist in Spark's Kafka sink."""


@dataclass(frozen=True)
class SinkOptions:
    """The parsed options of a write (times in seconds, sizes in bytes).

    Attributes:
        topic: the topic of all records; None: each record's topic is in the column `topic`.
        exactly_once: whether records are written in transactions.
        atomic: whether the driver writes the records of all tasks, in one transaction.
        atomic_bytes_max: the maximum size of such a transaction, encoded and compressed.
        replay_check: what a task of a repeated micro-batch compares with its earlier commit: one of `CHECKS`.
        app_id, version: the options txnAppId and txnVersion; "" and -1 if not given.
        log_progress: whether each write is logged as a warning.
        level: the compression level of the codec; None: the codec's default.
        ignore_keys: whether rows with a key are distributed like rows without a key.
        batch_bytes: the approximate size of a record batch before compression.
    """

    kafka: KafkaOptions
    topic: str | None = None
    exactly_once: bool = True
    atomic: bool = False
    atomic_bytes_max: int = 128 << 20
    replay_check: str = "content"
    prefix: str = "minikafka-spark"
    app_id: str = ""
    version: int = -1
    log_progress: bool = False
    codec: Codec = Codec.NONE
    level: int | None = None
    ignore_keys: bool = False
    acks: int = -1
    batch_bytes: int = 512 << 10
    request_bytes_max: int = 1 << 20
    delivery_timeout_s: float = 120.0
    metadata_age_s: float = 300.0
    transaction_timeout_ms: int | None = None


def parse_sink(given_options: Mapping[str, str]) -> SinkOptions:
    """Parses the options of a write; names are case-insensitive. Raises RefusedOption."""
    options = {name.lower(): value for name, value in given_options.items()}
    ignored = [name.lower() for name in SOURCE_OPTIONS]
    check_names(options, OPTIONS, ignored=ignored, end="sink")
    kafka = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
    if "bootstrap.servers" not in kafka:
        raise RefusedOption("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer")
    check_connection(kafka)
    settings = ProducerSettings(kafka)
    default = SinkOptions(KafkaOptions(""))
    delivery = _one_of(options, "delivery", (EXACTLY_ONCE, AT_LEAST_ONCE, ATOMIC))
    numbers_of_sink = Numbers(options)
    app_id, version = options.get("txnappid", ""), numbers_of_sink.integer_or("txnVersion", -1)
    if bool(app_id) != (version >= 0):
        raise RefusedOption("txnAppId and txnVersion are given together, and txnVersion is not negative")
    if app_id and delivery == AT_LEAST_ONCE:
        raise RefusedOption("txnAppId and txnVersion need delivery exactly_once or atomic, which remember it")
    return SinkOptions(
        kafka=KafkaOptions(
            bootstrap_servers=kafka["bootstrap.servers"],
            client_id=kafka.get("client.id", default.kafka.client_id),
            request_timeout_s=settings.number("request.timeout.ms") / 1000,
            api_timeout_s=settings.number("max.block.ms") / 1000,
            security=SecuritySettings.of(kafka),
        ),
        topic=options.get("topic"),
        exactly_once=delivery != AT_LEAST_ONCE,
        atomic=delivery == ATOMIC,
        atomic_bytes_max=numbers_of_sink.positive("atomicBytesMax") or default.atomic_bytes_max,
        replay_check=_one_of(options, "replayCheck", CHECKS),
        prefix=options.get("transactionalidprefix", default.prefix),
        app_id=app_id,
        version=version,
        log_progress=_one_of(options, "logProgress", ("false", "true")) == "true",
        codec=Codec[settings.choice("compression.type", "none").upper()],
        level=settings.level,
        ignore_keys=settings.flag("partitioner.ignore.keys"),
        acks=_acks(settings.choice("acks", "all"), delivery),
        batch_bytes=_or_default(settings.number_or_none("batch.size"), default.batch_bytes),
        request_bytes_max=settings.number("max.request.size"),
        delivery_timeout_s=_or_default(settings.number_or_none("delivery.timeout.ms"), 120_000) / 1000,
        metadata_age_s=settings.number("metadata.max.age.ms") / 1000,
        transaction_timeout_ms=settings.number_or_none("transaction.timeout.ms"),
    )


def _one_of(options: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    value = options.get(name.lower(), allowed[0]).lower()
    if value not in allowed:
        raise RefusedOption(f"{name} is '{value}', expected {' or '.join(allowed)}")
    return value


def _or_default(number: int | None, default: int) -> int:
    return default if number is None else max(1, number)


def _acks(text: str, delivery: str) -> int:
    acks = {"all": -1, "-1": -1, "1": 1}.get(text)
    if acks is None:
        raise RefusedOption(f"kafka.acks is '{text}', expected all or 1: without acknowledgements records may be lost")
    if delivery != AT_LEAST_ONCE and acks != -1:
        raise RefusedOption(f"kafka.acks must be 'all' for delivery '{delivery}'; or set delivery to 'at_least_once'")
    return acks
