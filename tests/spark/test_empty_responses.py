"""Responses without records or without a leader: a range is skipped only where its records may be gone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.node import NodeProcess
from support.spark_brokers import create, produce

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")
from minikafka.protocol.errors import ErrorCode, KafkaError, RequestTimedOutError
from minikafka.protocol.messages.describe_configs import DescribeConfigsResponse
from minikafka.protocol.messages.fetch import FetchResponse
from minikafka.protocol.messages.list_offsets import ListOffsetsResponse
from minikafka.protocol.messages.metadata import MetadataResponse
from minikafka.spark_connector.brokers import offset_reader, sockets
from minikafka.spark_connector.brokers.offset_reader import offset_reader_for
from minikafka.spark_connector.options.source_options import parse
from minikafka.spark_connector.source.data_loss import DataLoss
from minikafka.spark_connector.source.micro_batches import StreamPosition
from minikafka.spark_connector.source.offset_resolution import batch_ranges
from minikafka.spark_connector.source.partition_reader import read
from minikafka.spark_connector.source.range_planner import Range

pytestmark = pytest.mark.timeout(120)
COUNT = 6
TIMEOUT_S = 30.0
Change = Callable[[Any], None]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("empty") / "data") as process:
        for name in ("delete", "compact"):
            create(process.bootstrap, {name: 1}, **{"cleanup.policy": name})
            for number in range(COUNT):
                produce(process.bootstrap, name, [{"key": b"k", "value": b"%d" % number, "partition": 0}])
        yield process


def without_records(response: Any) -> None:
    for topic in response.responses if isinstance(response, FetchResponse) else ():
        topic.partitions[0].records = b""


def without_partitions(response: Any) -> None:
    for topic in response.responses if isinstance(response, FetchResponse) else ():
        topic.partitions.clear()


def without_topics(response: Any) -> None:
    if isinstance(response, FetchResponse):
        response.responses.clear()


def without_offsets(response: ListOffsetsResponse) -> None:
    response.topics.clear()


def without_leader(response: Any) -> None:
    for topic in response.topics if isinstance(response, MetadataResponse) else ():
        for one in topic.partitions:
            one.leader_id, one.error_code = -1, ErrorCode.LEADER_NOT_AVAILABLE


def with_topic_error(code: ErrorCode) -> Change:
    """The topic has an error in metadata and in fetch responses."""

    def change(response: Any) -> None:
        for topic in response.topics if isinstance(response, MetadataResponse) else ():
            topic.error_code = code
            topic.partitions.clear()
        fetch_error(code)(response)

    return change


def fetch_error(code: ErrorCode) -> Change:
    def change(response: Any) -> None:
        for topic in response.responses if isinstance(response, FetchResponse) else ():
            for one in topic.partitions:
                one.error_code, one.records = code, b""

    return change


class Broken:
    """The broker's responses, of which the first ones of a kind are changed; time passes only in pauses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: Any, change: Change, times: int) -> None:
        self.left = times
        self.now_s = 1000.0
        usual = sockets.BrokerConnection.receive

        def receive(connection: sockets.BrokerConnection) -> Any:
            response = usual(connection)
            if isinstance(response, kind) and self.left:
                self.left -= 1
                change(response)
            return response

        monkeypatch.setattr(sockets.BrokerConnection, "receive", receive)
        monkeypatch.setattr(sockets, "now_s", lambda: self.now_s)
        monkeypatch.setattr(sockets, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def options(node: NodeProcess, topic: str = "", **given: str) -> Any:
    more = {"subscribe": topic} if topic else {}
    more |= {"kafka.max.partition.fetch.bytes": "1", "kafkaConsumer.pollTimeoutMs": str(int(TIMEOUT_S * 1000))}
    return parse({"kafka.bootstrap.servers": node.bootstrap, **more, **given})


def values(node: NodeProcess, topic: str, **given: str) -> list[bytes]:
    batches = read(options(node, topic, **given), Range(topic, 0, 0, COUNT), ["value"])
    return [value for batch in batches for value in batch[0].to_pylist()]


CHANGES = [without_records, without_partitions, without_topics]
ALL = [b"%d" % number for number in range(COUNT)]


@pytest.mark.parametrize("times", [1, 2, 5, 20])
@pytest.mark.parametrize("change", CHANGES)
def test_a_leader_that_returns_no_records_for_some_time_is_asked_again(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, change: Change, times: int
) -> None:
    Broken(monkeypatch, FetchResponse, change, times)
    assert values(node, "delete") == ALL


@pytest.mark.parametrize("change", CHANGES)
def test_a_leader_that_never_returns_records_is_an_error(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    broken = Broken(monkeypatch, FetchResponse, change, 10**9)
    if change is without_records:
        with pytest.raises(DataLoss, match=r"records in offset \[0, 6\) .*delete-0: the leader returns no records\."):
            values(node, "delete")
    else:
        with pytest.raises(KafkaError, match=r"Cannot fetch record for offset 0 in 30000 milliseconds: .*return") as at:
            values(node, "delete")
        assert str(at.value).count("Cannot fetch") == 1
    asked = 10**9 - broken.left
    assert asked < 1.1 * TIMEOUT_S / 0.05, "not without pauses"


def test_what_compaction_has_removed_is_skipped(node: NodeProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Broken(monkeypatch, FetchResponse, without_records, 10**9)
    assert values(node, "compact") == []
    assert broken.now_s < 1001, "at once"


def test_a_response_without_the_offset_that_was_asked_for_is_asked_again(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = options(node, "delete")
    Broken(monkeypatch, ListOffsetsResponse, without_offsets, 3)
    (found,) = batch_ranges(offset_reader_for(chosen.kafka), chosen)
    assert (found.start, found.end) == (0, COUNT)
    Broken(monkeypatch, ListOffsetsResponse, without_offsets, 10**9)
    with pytest.raises(RequestTimedOutError, match=r"a response lacks the offset of delete-0"):
        batch_ranges(offset_reader_for(chosen.kafka), chosen)


@pytest.mark.parametrize("offset", [-1, -2, -5, -(1 << 63)])
def test_an_offset_that_cannot_be_is_asked_for_again(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, offset: int
) -> None:
    def change(response: ListOffsetsResponse) -> None:
        for topic in response.topics:
            for one in topic.partitions:
                one.offset = offset

    chosen = options(node, "delete")
    Broken(monkeypatch, ListOffsetsResponse, change, 3)
    (found,) = batch_ranges(offset_reader_for(chosen.kafka), chosen)
    assert (found.start, found.end) == (0, COUNT)
    Broken(monkeypatch, ListOffsetsResponse, change, 10**9)
    with pytest.raises(RequestTimedOutError, match=f"a response names the offset {offset} of delete-0, which cannot"):
        batch_ranges(offset_reader_for(chosen.kafka), chosen)


@pytest.mark.parametrize("bad", [-1, 1, 7, (1 << 31) - 1, 1 << 40])
@pytest.mark.parametrize("reads", [batch_ranges, lambda reader, options: StreamPosition(options).initial()])
def test_an_assigned_partition_that_does_not_exist_is_left_out_with_a_warning(
    node: NodeProcess,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    bad: int,
    reads: Callable[[Any, Any], Any],
) -> None:
    """As by Spark's own source: test_differential.py."""
    monkeypatch.setattr(sockets, "sleep", lambda seconds: None)
    for retries in ("0", "3"):
        given = {"assign": json.dumps({"delete": [0, bad]}), "fetchOffset.numRetries": retries}
        chosen = options(node, **given)
        caplog.clear()
        assert reads(offset_reader_for(chosen.kafka), chosen)
        assert f"assigned partition does not exist, and is left out: delete-{bad}" in caplog.messages


EVERYTHING = (MetadataResponse, FetchResponse)
UNKNOWN = with_topic_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
NO_LEADER: list[Change] = [
    without_leader,
    with_topic_error(ErrorCode.LEADER_NOT_AVAILABLE),
    fetch_error(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    fetch_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    fetch_error(ErrorCode.UNKNOWN_TOPIC_ID),
]


def in_turn(monkeypatch: pytest.MonkeyPatch, phases: list[tuple[float, Change]]) -> Broken:
    """The responses are changed in phases of some seconds each."""

    def change(response: Any) -> None:
        left_s = broken.now_s - 1000
        for seconds, one in phases:
            if left_s < seconds:
                one(response)
                return
            left_s -= seconds

    monkeypatch.setattr(offset_reader, "_READERS", {})
    broken = Broken(monkeypatch, EVERYTHING, change, 10**9)
    return broken


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize("seconds", [0.1, 1, 25])
@pytest.mark.parametrize("change", NO_LEADER)
def test_a_partition_without_a_leader_for_some_time_is_waited_for(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, change: Change, seconds: float, fails: str
) -> None:
    in_turn(monkeypatch, [(seconds, change)])
    assert values(node, "delete", failOnDataLoss=fails) == ALL


@pytest.mark.parametrize("change", NO_LEADER)
def test_a_partition_that_never_has_a_leader_is_no_data_loss(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    in_turn(monkeypatch, [(1e9, change)])
    with pytest.raises(KafkaError, match=r"^delete-0: Cannot fetch record for offset 0 in 30000 milliseconds: "):
        values(node, "delete", failOnDataLoss="false")


def test_a_topic_must_be_unknown_several_times_in_a_row_to_be_lost(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    phases = [(2.5, UNKNOWN), (5, without_leader)] * 3
    in_turn(monkeypatch, phases)
    assert values(node, "delete") == ALL
    in_turn(monkeypatch, [*phases, (3.5, UNKNOWN)])
    with pytest.raises(DataLoss, match=r"offset \[0, 6\) .*delete-0: the topic or partition does not exist"):
        values(node, "delete")


HICCUPS = [*NO_LEADER, *CHANGES[1:], without_records]


@pytest.mark.parametrize("change", HICCUPS)
def test_the_time_that_spark_takes_over_a_batch_is_no_wait_for_the_leader(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    """After it, responses are changed for a second."""
    now = [(0.0, change)]
    broken = in_turn(monkeypatch, now)
    found: list[bytes] = []
    for batch in read(options(node, "delete"), Range("delete", 0, 0, COUNT), ["value"]):
        found += batch[0].to_pylist()
        broken.now_s += 10 * TIMEOUT_S
        now[:] = [(broken.now_s - 1000 + 1, change)]
    assert found == ALL


@pytest.mark.slow
@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION])
@pytest.mark.parametrize("topic", ["delete", "compact"])
def test_records_are_read_without_the_right_to_look_at_the_policy(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, topic: str, code: ErrorCode
) -> None:
    """The range is lost, or an error, only at the timeout."""

    def change(response: Any) -> None:
        for one in response.results if isinstance(response, DescribeConfigsResponse) else ():
            one.error_code = code
        if broken.now_s < empty_until_s:
            without_records(response)

    empty_until_s = 1000.0 + 0.9 * TIMEOUT_S
    broken = Broken(monkeypatch, (DescribeConfigsResponse, FetchResponse), change, 10**9)
    assert values(node, topic) == ALL
    empty_until_s = 1e9
    with pytest.raises(DataLoss, match="the leader returns no records"):
        values(node, topic)


@pytest.mark.slow
def test_a_topic_that_was_compacted_before_can_be_read_without_its_end(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `failOnDataLoss` false; its policy is "delete" now, and the last records are gone."""

    def without_tail(response: Any) -> None:
        if isinstance(response, FetchResponse) and found >= ALL[:4]:
            without_records(response)

    found: list[bytes] = []
    in_turn(monkeypatch, [(1e9, without_tail)])
    wanted = Range("delete", 0, 0, COUNT)
    for batch in read(options(node, "delete", failOnDataLoss="false"), wanted, ["value"]):
        found += batch[0].to_pylist()
    assert found == ALL[:4]
