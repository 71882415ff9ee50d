"""Parsing of options, and the error messages for invalid ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from minikafka.protocol.names import TopicPartition
from minikafka.spark_connector.options.client_settings import NAMES
from minikafka.spark_connector.options.sink_options import parse_sink
from minikafka.spark_connector.options.source_options import Bound, RefusedOption, check_batch, check_stream, parse

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()

GOOD = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "flights"}

REFUSALS = [
    ({"subscribe": None}, "One of the following options must be specified for Kafka source: assign, subscribe"),
    ({"assign": '{"a":[0]}'}, "Only one of the following options can be specified for Kafka source: assign, sub"),
    ({"subscribe": " , "}, "No topics to subscribe to as specified value for option 'subscribe' is ' , '"),
    ({"subscribe": None, "assign": "a"}, "No topicpartitions to assign as specified value for option 'assign' is 'a'"),
    ({"subscribe": None, "assign": "{1}"}, 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got {1}'),
    ({"subscribe": None, "subscribePattern": " "}, "Pattern to subscribe is empty as specified value for option"),
    ({"subscribe": None, "subscribePattern": "("}, "subscribePattern '(' is not a valid regular expression"),
    ({"kafka.bootstrap.servers": None}, "Option 'kafka.bootstrap.servers' must be specified for configuring"),
    ({"kafka.bootstrap.servers": "here"}, "kafka.bootstrap.servers: 'here' is not HOST:PORT"),
    ({"kafka.auto.offset.reset": "latest"}, "Kafka option 'auto.offset.reset' is not supported."),
    ({"kafka.key.deserializer": "x"}, "Kafka option 'key.deserializer' is not supported as keys are deserialized"),
    ({"kafka.value.deserializer": "x"}, "Kafka option 'value.deserializer' is not supported as values are deser"),
    ({"kafka.enable.auto.commit": "true"}, "Kafka option 'enable.auto.commit' is not supported."),
    ({"kafka.interceptor.classes": "x"}, "Kafka option 'interceptor.classes' is not supported."),
    ({"kafka.isolation.level": "dirty"}, "Invalid value dirty for configuration isolation.level"),
    ({"kafka.security.protocol": "TLS"}, "kafka(security_protocol='TLS'): must be one of 'PLAINTEXT', 'SSL', "),
    ({"kafka.security.protocol": "SASL_SSL"}, "kafka(sasl_mechanism=None): is missing: must be one of PLAIN, "),
    ({"kafka.security.protocol": "SASL_SSL", "kafka.sasl.kerberos.service.name": "x"}, "there is no GSSAPI"),
    ({"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "none"}, "kafka(ssl_truststore_location="),
    ({"minPartitions": "0"}, "minPartitions must be positive"),
    ({"minPartitions": "many"}, "minPartitions: For input string"),
    ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition must be positive"),
    ({"failOnDataLoss": "maybe"}, "failOnDataLoss: For input string"),
    ({"startingTimestamp": "noon"}, "Expected a single long value, got noon"),
    ({"startingOffsets": "{"}, 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got {'),
    ({"startingOffsetsByTimestamp": "7"}, 'Expected e.g. {"topicA": {"0": 123456789, "1": 123456789},'),
    ({"startingOffsetsByTimestampStrategy": "guess"}, "startingOffsetsByTimestampStrategy is 'guess'"),
    ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "The value of minOffsetPerTrigger(9) is higher than"),
    ({"maxTriggerDelay": "soon"}, "Time must be specified as seconds (s), milliseconds (ms)"),
    ({"startingOffset": "earliest"}, "has no option 'startingoffset'; did you mean 'startingOffsets'?"),
    ({"bootstrap.servers": "x:1"}, "did you mean 'kafka.bootstrap.servers'?"),
    ({"zzz": "1"}, "has no option 'zzz'; it has assign, subscribe"),
    ({"kafka.isolation.levl": "read_uncommitted"}, "'kafka.isolation.levl'; did you mean 'kafka.isolation.level'?"),
    ({"kafka.isolationLevel": "read_uncommitted"}, "'kafka.isolationlevel'; did you mean 'kafka.isolation.level'?"),
    ({"kafka.startingOffsets": "earliest"}, "has no option 'kafka.startingoffsets'; did you mean 'startingOffsets'?"),
    ({"zzzzzzzzzzzz": "1"}, "it has assign, subscribe"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSALS, ids=lambda value: str(value)[:60])
def test_invalid_options_are_refused(changes: dict[str, str | None], message: str) -> None:
    options = {name: value for name, value in (GOOD | changes).items() if value is not None}
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is compared below)
        parse(options)
    assert message in str(caught.value)


USED = set(re.findall(r"`([a-z.]+)`", next(line for line in PAGE.splitlines() if line.startswith("| `kafka.*`"))))


@pytest.mark.slow
def test_each_setting_of_kafkas_clients_is_an_option_and_none_that_lacks_a_letter() -> None:
    assert len(USED) == 9
    assert USED <= NAMES
    for name in sorted(NAMES):
        if f"kafka.{name}" in GOOD or name.endswith(("serializer", "auto.offset.reset", "enable.auto.commit")):
            continue
        near = [name[:at] + name[at + 1 :] for at in range(len(name))]
        for misspelled in {*near, f"{name}s", name.replace(".", "_"), name.replace(".", "-")} - NAMES:
            for read, more in ((parse, GOOD), (parse_sink, {"kafka.bootstrap.servers": "localhost:9092"})):
                with pytest.raises(RefusedOption, match=f"no option 'kafka.{misspelled}'; did you mean 'kafka"):
                    read(more | {f"kafka.{misspelled}": "1"})


@pytest.mark.parametrize("name", ["sasl.jaas.config", "ssl.truststore.location", "fetch.min.bytes", "Group.Id"])
def test_settings_that_are_not_used_are_ignored(name: str) -> None:
    assert parse(GOOD | {f"kafka.{name}": "1"}) == parse(GOOD)


def test_a_setting_of_a_plugin_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert parse(GOOD | {"kafka.schema.registry.url": "http://registry"}) == parse(GOOD)
    assert caplog.messages == ["option ignored: kafka.schema.registry.url is no setting of Kafka's clients"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({"endingOffsets": "Earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "startingOffsets for a-0 can't be latest for batch queries on Kafka"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "ending offset for a-0 can't be earliest for batch queries on Kafka"),
    ],
)
def test_options_refused_in_batch_queries(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_batch(parse(GOOD | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
        ({"endingTimestamp": "5"}, "ending timestamp not valid in streaming queries"),
        ({"endingOffsetsByTimestamp": '{"a":{"0":5}}'}, "ending timestamp not valid in streaming queries"),
    ],
)
def test_options_refused_in_streams(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_stream(parse(GOOD | changes))


def test_precedence_of_starting_options() -> None:
    by_time = {"startingOffsetsByTimestamp": '{"a":{"0":5}}', "startingOffsets": "latest"}
    assert parse(GOOD | by_time).starting == Bound("times", {TopicPartition("a", 0): 5})
    assert parse(GOOD | by_time | {"startingTimestamp": "7"}).starting == Bound("time", time_ms=7)
    assert parse(GOOD | {"startingOffsets": " LATEST "}).starting == Bound("latest")
    assert parse(GOOD).starting is None


def test_defaults() -> None:
    options = parse(GOOD)
    assert options.kafka.read_committed
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.rate_limits.max_delay_s == 900


def test_names_are_case_insensitive_and_other_kafka_options_accepted() -> None:
    options = parse({
        "KAFKA.Bootstrap.Servers": "h:1, g:2",
        "SubscribePattern": "fl.*",
        "INCLUDEHEADERS": "TRUE",
        "kafka.isolation.level": "read_uncommitted",
        "kafka.sasl.whatever.else": "goes", "kafka.fetch.min.bytes": "7",
        "groupIdPrefix": "mine",
        "maxTriggerDelay": "30s",
    })
    assert options.pattern == "fl.*"
    assert options.include_headers
    assert not options.kafka.read_committed
    assert options.rate_limits.max_delay_s == 30


@pytest.mark.parametrize("delivery", ["", "exactly_once", "atomic", "at_least_once"])
def test_a_version_needs_a_delivery_that_remembers_it(delivery: str) -> None:
    """With at_least_once nothing is remembered, and a repeated write would be doubled."""
    given = {"kafka.bootstrap.servers": "h:1", "topic": "t", "txnAppId": "a", "txnVersion": "0"}
    if delivery:
        given["delivery"] = delivery
    if delivery == "at_least_once":
        with pytest.raises(RefusedOption, match="txnAppId and txnVersion need"):
            parse_sink(given)
    else:
        assert parse_sink(given).app_id == "a"
