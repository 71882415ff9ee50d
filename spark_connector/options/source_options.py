"""The options of the source: parses and validates the options of Spark's Kafka source, with its error messages. Pure.

Two differences from Spark are intentional. An unknown option, even one that resembles a setting of Kafka's clients, is
an error that suggests the nearest known option; Spark ignores the option. And only committed records are read unless
`kafka.isolation.level` is read_uncommitted.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from minikafka.client.option_checks import parse_addresses
from minikafka.client.options import InvalidOption
from minikafka.protocol.names import TopicPartition
from minikafka.spark_connector.options.client_settings import NAMES, is_setting
from minikafka.spark_connector.options.offsets import (
    EARLIEST,
    LATEST,
    Offsets,
    parse_assignment,
    parse_offsets,
    parse_timestamps,
)
from minikafka.spark_connector.options.rate_limits import RateLimits
from minikafka.spark_connector.options.security_settings import NO_SECURITY, SecuritySettings

_logger = logging.getLogger(__name__)

STRATEGIES = ("assign", "subscribe", "subscribePattern")
OPTIONS = (
    *STRATEGIES, "startingOffsets", "endingOffsets", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp",
    "startingTimestamp", "endingTimestamp", "startingOffsetsByTimestampStrategy", "failOnDataLoss", "minPartitions",
    "maxRecordsPerPartition", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "includeHeaders",
    "groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
    "partition.metadata.cache.ttl.ms", "idlePollMs", "commitOffsets", "rememberTopicIds",
)  # fmt: skip
"""All options except `kafka.*`; the last three do not exist in Spark's Kafka source."""
_OPTIONS_OF_SPARK_ITSELF = ("path", "paths", "queryname", "checkpointlocation")
_AUTO_OFFSET_RESET = """
Kafka option 'auto.offset.reset' is not supported.
Instead set the source option 'startingoffsets' to 'earliest' or 'latest'
to specify where to start. Structured Streaming manages which offsets are consumed
internally, rather than relying on the kafkaConsumer to do it. This will ensure that no
data is missed when new topics/partitions are dynamically subscribed. Note that
'startingoffsets' only applies when a new Streaming query is started, and
that resuming will always pick up from where the query left off. See the docs for more
details.
"""
_DESERIALIZED = (
    "Kafka option '{0}.deserializer' is not supported as {0}s are deserialized as byte arrays with"
    " ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the {0}s."
)
_UNSUPPORTED = {
    "auto.offset.reset": _AUTO_OFFSET_RESET,
    "key.deserializer": _DESERIALIZED.format("key"),
    "value.deserializer": _DESERIALIZED.format("value"),
    "enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported.",
    "interceptor.classes": "Kafka option 'interceptor.classes' is not supported.",
}
_CLOSE = 0.65
"""The minimum similarity, from 0 to 1, of an unknown name to a known name that is suggested instead."""
_UNITS_MS = {"": 1, "us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class RefusedOption(ValueError):
    """An option is unknown or has an invalid value."""


@dataclass(frozen=True)
class KafkaOptions:
    """The `kafka.*` options that connections and fetches use (times in seconds, sizes in bytes)."""

    bootstrap_servers: str
    client_id: str = "minikafka-spark"
    read_committed: bool = True
    check_crcs: bool = True
    request_timeout_s: float = 30.0
    api_timeout_s: float = 60.0
    fetch_max_bytes: int = 16 << 20
    partition_max_bytes: int = 8 << 20
    fetch_max_wait_ms: int = 500
    security: SecuritySettings = NO_SECURITY


@dataclass(frozen=True)
class Bound:
    """The start or the end of a query, as given by its options (Spark's `KafkaOffsetRangeLimit`).

    Attributes:
        kind: "earliest", "latest", "offsets" (by partition), "times" (by partition, ms), "time" (for all partitions).
    """

    kind: str
    by_partition: Offsets = field(default_factory=dict)
    time_ms: int = 0


@dataclass(frozen=True)
class SourceOptions:
    """The parsed options of a query."""

    kafka: KafkaOptions
    strategy: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: tuple[TopicPartition, ...] = ()
    starting: Bound | None = None
    ending: Bound | None = None
    no_match_latest: bool = False
    fail_on_data_loss: bool = True
    include_headers: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    rate_limits: RateLimits = field(default_factory=RateLimits)
    poll_timeout_s: float = 120.0
    retries: int = 3
    retry_interval_s: float = 1.0
    metadata_age_s: float = 1.0
    idle_poll_s: float = 0.25
    commit_group: str = ""
    remember_topic_ids: bool = False


def parse(given_options: Mapping[str, str]) -> SourceOptions:
    """Parses the options of a query; names are case-insensitive. Raises RefusedOption; ValueError for bad JSON."""
    options = {name.lower(): value for name, value in given_options.items()}
    check_names(options, OPTIONS, ignored=(), end="source")
    strategy = _strategy(options)
    value = options[strategy.lower()]
    kafka = _kafka(options)
    numbers = Numbers(options)
    return SourceOptions(
        kafka=kafka,
        strategy=strategy,
        topics=tuple(part.strip() for part in value.split(",") if part.strip()) if strategy == "subscribe" else (),
        pattern=value.strip() if strategy == "subscribePattern" else "",
        assigned=parse_assignment(value) if strategy == "assign" else (),
        starting=_bound(options, "starting"),
        ending=_bound(options, "ending"),
        no_match_latest=_no_match_latest(options.get("startingoffsetsbytimestampstrategy", "error")),
        fail_on_data_loss=_boolean(options, "failOnDataLoss", default=True),
        include_headers=_boolean(options, "includeHeaders", default=False),
        min_partitions=numbers.positive("minPartitions"),
        max_records_per_partition=numbers.positive("maxRecordsPerPartition"),
        rate_limits=_rate_limits(options),
        poll_timeout_s=numbers.integer_or("kafkaConsumer.pollTimeoutMs", 120_000) / 1000,
        retries=numbers.integer_or("fetchOffset.numRetries", 3),
        retry_interval_s=numbers.integer_or("fetchOffset.retryIntervalMs", 1000) / 1000,
        metadata_age_s=max(0, numbers.integer_or("partition.metadata.cache.ttl.ms", 1000)) / 1000,
        idle_poll_s=numbers.integer_or("idlePollMs", 250) / 1000,
        commit_group=options.get("commitoffsets", ""),
        remember_topic_ids=_boolean(options, "rememberTopicIds", default=False),
    )


def check_names(options: Iterable[str], known: Iterable[str], *, ignored: Iterable[str], end: str) -> None:
    """Checks lower-case names of options of the source or the sink.

    Raises RefusedOption, which suggests the nearest known name. A `kafka.` name that resembles no known one is only
    logged, as by the Java client, because plugins of that client have their own settings.
    """
    spelled = {name.lower(): name for name in known}
    accepted = {*spelled, *_OPTIONS_OF_SPARK_ITSELF, *ignored}
    for name in options:
        if name in accepted or (name.startswith("kafka.") and is_setting(name.removeprefix("kafka."))):
            continue
        by_name = {**{one: f"kafka.{one}" for one in sorted(NAMES)}, **spelled}
        near = difflib.get_close_matches(name.removeprefix("kafka."), by_name, n=1, cutoff=_CLOSE)
        has = f"it has {', '.join(spelled.values())}, and kafka.* with the settings of Kafka's clients"
        if name.startswith("kafka.") and not near:
            _logger.warning("option ignored: %s is no setting of Kafka's clients", name)
            continue
        hint = f"did you mean '{by_name[near[0]]}'?" if near else has
        raise RefusedOption(f"the minikafka {end} has no option '{name}'; {hint}")


def _strategy(options: Mapping[str, str]) -> str:
    given = [name for name in STRATEGIES if name.lower() in options]
    if len(given) != 1:
        how = "Only one" if given else "One"
        which = "can be specified" if given else "must be specified"
        names = ", ".join(name.lower() for name in STRATEGIES)
        raise RefusedOption(
            f"{how} of the following options {which} for Kafka source: {names}. See the docs for more details."
        )
    (strategy,) = given
    value = options[strategy.lower()]
    if strategy == "assign" and not value.strip().startswith("{"):
        raise RefusedOption(f"No topicpartitions to assign as specified value for option 'assign' is '{value}'")
    if strategy == "subscribe" and not [part for part in value.split(",") if part.strip()]:
        raise RefusedOption(f"No topics to subscribe to as specified value for option 'subscribe' is '{value}'")
    if strategy == "subscribePattern":
        _check_pattern(value)
    return strategy


def _check_pattern(value: str) -> None:
    if not value.strip():
        raise RefusedOption(
            f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{value}'"
        )
    try:
        re.compile(value.strip())
    except re.error as error:
        raise RefusedOption(f"subscribePattern '{value}' is not a valid regular expression: {error}") from None


def _kafka(options: Mapping[str, str]) -> KafkaOptions:
    kafka = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
    for name, text in _UNSUPPORTED.items():
        if name in kafka:
            raise RefusedOption(text)
    if "bootstrap.servers" not in kafka:
        raise RefusedOption("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer")
    check_connection(kafka)
    _check_isolation(kafka)
    numbers = Numbers({f"kafka.{name}": value for name, value in kafka.items()})
    default = KafkaOptions("")
    return KafkaOptions(
        bootstrap_servers=kafka["bootstrap.servers"],
        client_id=kafka.get("client.id", default.client_id),
        read_committed=kafka.get("isolation.level", "read_committed") == "read_committed",
        check_crcs=kafka.get("check.crcs", "true").lower() != "false",
        request_timeout_s=numbers.integer_or("kafka.request.timeout.ms", 30_000) / 1000,
        api_timeout_s=numbers.integer_or("kafka.default.api.timeout.ms", 60_000) / 1000,
        fetch_max_bytes=numbers.integer_or("kafka.fetch.max.bytes", default.fetch_max_bytes),
        partition_max_bytes=numbers.integer_or("kafka.max.partition.fetch.bytes", default.partition_max_bytes),
        fetch_max_wait_ms=numbers.integer_or("kafka.fetch.max.wait.ms", default.fetch_max_wait_ms),
        security=SecuritySettings.of(kafka),
    )


def check_connection(kafka: Mapping[str, str]) -> None:
    """Checks addresses and security among the `kafka.*` options, names without the prefix. Raises RefusedOption."""
    try:
        parse_addresses(kafka["bootstrap.servers"])
    except ValueError as error:
        raise RefusedOption(f"kafka.bootstrap.servers: {error}; expected host1:9092,host2:9092") from None
    try:
        SecuritySettings.of(kafka).connection_security()
    except InvalidOption as error:
        raise RefusedOption(str(error)) from None


def _check_isolation(kafka: Mapping[str, str]) -> None:
    isolation = kafka.get("isolation.level", "read_committed")
    if isolation not in ("read_committed", "read_uncommitted"):
        raise RefusedOption(
            f"Invalid value {isolation} for configuration isolation.level: String must be one of: read_committed,"
            " read_uncommitted"
        )


def _bound(options: Mapping[str, str], end: str) -> Bound | None:
    """The bound given by the options for one end ("starting" or "ending"); None if no option gives it.

    Precedence as in Spark: one timestamp for all partitions, timestamps by partition, offsets.
    """
    for_all = options.get(f"{end}timestamp")
    if for_all is not None:
        if not re.fullmatch(r"[+-]?\d+", for_all.strip()):
            raise RefusedOption(f"Expected a single long value, got {for_all}")
        return Bound("time", time_ms=int(for_all))
    times = options.get(f"{end}offsetsbytimestamp")
    if times is not None:
        return Bound("times", parse_timestamps(times))
    offsets = options.get(f"{end}offsets")
    if offsets is None:
        return None
    if offsets.strip().lower() in ("earliest", "latest"):
        return Bound(offsets.strip().lower())
    return Bound("offsets", parse_offsets(offsets))


def _no_match_latest(strategy: str) -> bool:
    if strategy.strip().lower() not in ("error", "latest"):
        raise RefusedOption(f"startingOffsetsByTimestampStrategy is '{strategy}', expected 'error' or 'latest'")
    return strategy.strip().lower() == "latest"


def _rate_limits(options: Mapping[str, str]) -> RateLimits:
    numbers = Numbers(options)
    limits = RateLimits(
        max_offsets=numbers.integer("maxOffsetsPerTrigger"),
        min_offsets=numbers.integer("minOffsetsPerTrigger"),
        max_delay_s=_duration_ms(options.get("maxtriggerdelay", "15m"), "maxTriggerDelay") / 1000,
    )
    try:
        limits.check()
    except ValueError as error:
        raise RefusedOption(str(error)) from None
    return limits


def _boolean(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).lower()
    if text not in ("true", "false"):
        raise RefusedOption(f"{name}: For input string: \"{text}\"; expected 'true' or 'false'")
    return text == "true"


class Numbers:
    """Parses options that are integers; names are given as users write them. Raises RefusedOption."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def integer(self, name: str) -> int | None:
        text = self._options.get(name.lower())
        if text is None:
            return None
        if not re.fullmatch(r"[+-]?\d{1,18}", text.strip()):
            raise RefusedOption(f"{name}: For input string: \"{text}\"; expected an integer")
        return int(text)

    def integer_or(self, name: str, default: int) -> int:
        number = self.integer(name)
        return default if number is None else number

    def positive(self, name: str) -> int | None:
        number = self.integer(name)
        if number is not None and number <= 0:
            raise RefusedOption(f"{name} must be positive")
        return number


def _duration_ms(text: str, name: str) -> float:
    """Parses a duration in Spark's notation: `15m`, `100ms`, `2h`; a number without a unit is in ms."""
    found = re.fullmatch(r"(-?\d+)([a-z]*)", text.strip().lower())
    if not found or found[2] not in _UNITS_MS:
        raise RefusedOption(
            f"{name} is '{text}': Time must be specified as seconds (s), milliseconds (ms), microseconds (us),"
            " minutes (m or min), hour (h), or day (d). E.g. 50s, 100ms, or 250us."
        )
    return int(found[1]) * _UNITS_MS[found[2]]


def check_batch(options: SourceOptions) -> None:
    """Raises RefusedOption for options that only streams support."""
    starting, ending = options.starting or Bound("earliest"), options.ending or Bound("latest")
    if starting.kind == "latest":
        raise RefusedOption("starting offset can't be latest for batch queries on Kafka")
    if ending.kind == "earliest":
        raise RefusedOption("ending offset can't be earliest for batch queries on Kafka")
    if starting.kind == "offsets":
        for tp, offset in starting.by_partition.items():
            if offset == LATEST:
                raise RefusedOption(f"startingOffsets for {tp} can't be latest for batch queries on Kafka")
    if ending.kind == "offsets":
        for tp, offset in ending.by_partition.items():
            if offset == EARLIEST:
                raise RefusedOption(f"ending offset for {tp} can't be earliest for batch queries on Kafka")


def check_stream(options: SourceOptions) -> None:
    """Raises RefusedOption for options that only batch queries support."""
    if options.ending is not None:
        kind = "timestamp" if options.ending.kind in ("time", "times") else "offset"
        raise RefusedOption(f"ending {kind} not valid in streaming queries")
