"""A stream is told by a broker, once or for some time, that a topic or partition is not there: nothing was deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.node import NodeProcess
from support.spark_brokers import create, delete, produce

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")
from minikafka.client.connections.cluster_metadata import Metadata
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.spark_connector.options.source_options import parse
from minikafka.spark_connector.source.data_loss import DataLoss
from minikafka.spark_connector.source.micro_batches import StreamPosition
from minikafka.spark_connector.source.partition_reader import read

pytestmark = pytest.mark.timeout(120)
Json = dict[str, Any]
Change = Callable[[Any, str], None]
RETRIES, COUNT = 3, 4
TOO_OFTEN = RETRIES + 1


def with_error(code: ErrorCode) -> Change:
    def change(response: Any, name: str) -> None:
        for topic in response.topics:
            if topic.name == name:
                topic.error_code = code
                topic.partitions.clear()

    return change


def without_topic(response: Any, name: str) -> None:
    response.topics[:] = [one for one in response.topics if one.name != name]


def without_first(response: Any, name: str) -> None:
    without(response, name, 0)


def without_last(response: Any, name: str) -> None:
    without(response, name, 1)


def without(response: Any, name: str, partition: int) -> None:
    for topic in response.topics:
        if topic.name == name:
            topic.partitions[:] = [one for one in topic.partitions if one.partition_index != partition]


UNKNOWN: dict[str, Change] = {
    "unknown": with_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "absent": without_topic,
}
FAULTS: dict[str, Change] = {
    "no leader": with_error(ErrorCode.LEADER_NOT_AVAILABLE),
    "refused": with_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    "gap": without_first,
}
CHANGES = UNKNOWN | FAULTS | {"fewer": without_last}
CHOICES = {
    "subscribe": lambda name: name,
    "subscribePattern": lambda name: f"{name}$",
    "assign": lambda name: f'{{"{name}":[0,1]}}',
}


class Stream:
    """A stream of a topic with two partitions, its metadata responses, and what it has read.

    Attributes:
        left: how many of the next responses are changed.
        found: the values that were read.
    """

    def __init__(
        self, node: NodeProcess, monkeypatch: pytest.MonkeyPatch, name: str, change: Change, choice: str, **more: str
    ) -> None:
        self.left, self.found = 0, list[bytes]()
        self._node, self._name = node, name
        self._options = {
            "kafka.bootstrap.servers": node.bootstrap, choice: CHOICES[choice](name), "startingOffsets": "earliest",
            "partition.metadata.cache.ttl.ms": "0", "fetchOffset.numRetries": str(RETRIES),
            "fetchOffset.retryIntervalMs": "1", "idlePollMs": "0", **more,
        }  # fmt: skip
        create(node.bootstrap, {name: 2})
        usual = Metadata.apply

        def apply(metadata: Metadata, response: Any, *arguments: Any, **more: Any) -> None:
            if self.left and metadata is self.position._brokers.metadata:
                self.left -= 1
                change(response, name)
            usual(metadata, response, *arguments, **more)

        monkeypatch.setattr(Metadata, "apply", apply)
        self.restart()
        self.reached = self.position.initial()

    def restart(self) -> None:
        self.position = StreamPosition(parse(self._options))

    def send(self, first: int) -> None:
        some = [{"value": b"%d" % number, "partition": number % 2} for number in range(first, first + COUNT)]
        produce(self._node.bootstrap, self._name, some)

    def go_on(self) -> None:
        """Reads a micro-batch."""
        end = self.position.next(self.reached, everything=False)
        for one in self.position.ranges(self.reached, end):
            for batch in read(parse(self._options), one, ["value"]):
                self.found += batch[0].to_pylist()
        self.reached = end

    def expect(self, count: int) -> None:
        assert sorted(map(int, self.found)) == list(range(count))


@pytest.fixture(params=["true", "false"])
def fails(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("kind", CHANGES)
def test_a_topic_that_is_missing_for_a_moment_is_not_deleted(
    node: NodeProcess,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: str,
    choice: str,
    fails: str,
) -> None:
    """Whichever responses are odd, at a restart or later, each record is read once."""
    name = f"moment-{kind}-{choice}-{fails}".replace(" ", "-")
    stream = Stream(node, monkeypatch, name, CHANGES[kind], choice, failOnDataLoss=fails)
    for round_, times in enumerate((1, RETRIES, 1, RETRIES)):
        if round_ > 1:
            stream.restart()
        stream.send(round_ * COUNT)
        stream.left = times
        stream.go_on()
        assert stream.left < times, "later ones are only asked for if the metadata known before lack something"
        stream.expect((round_ + 1) * COUNT)
    assert "deleted" not in caplog.text


@pytest.mark.parametrize("kind", CHANGES)
def test_a_job_with_available_now_goes_on_with_what_its_first_metadata_lacked(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    stream = Stream(node, monkeypatch, f"job-{kind}".replace(" ", "-"), CHANGES[kind], "subscribePattern")
    stream.send(0)
    stream.go_on()
    stream.restart()
    stream.send(COUNT)
    stream.left = 1
    stream.position.pin()
    stream.go_on()
    stream.expect(2 * COUNT)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("kind", FAULTS)
def test_the_error_of_a_topic_is_no_data_loss(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, kind: str, choice: str, fails: str
) -> None:
    """As with Spark's own source, the query ends with it, and goes on when it is started again."""
    name = f"fault-{kind}-{choice}-{fails}".replace(" ", "-")
    stream = Stream(node, monkeypatch, name, FAULTS[kind], choice, failOnDataLoss=fails)
    stream.send(0)
    stream.go_on()
    stream.left = TOO_OFTEN
    with pytest.raises(KafkaError, match=name):
        stream.go_on()
    stream.restart()
    stream.send(COUNT)
    stream.go_on()
    stream.expect(2 * COUNT)


@pytest.mark.parametrize("kind", UNKNOWN)
def test_a_topic_that_comes_back_is_read_from_where_it_was_left(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, kind: str, fails: str
) -> None:
    name = f"back-{kind}-{fails}"
    stream = Stream(node, monkeypatch, name, UNKNOWN[kind], "subscribePattern", failOnDataLoss=fails)
    stream.send(0)
    stream.go_on()
    stream.left = TOO_OFTEN
    if fails == "true":
        with pytest.raises(DataLoss, match=f"Partitions .*{name}-1 have been deleted"):
            stream.go_on()
        return
    stream.go_on()
    assert str(1) not in stream.reached.get(name, {})
    stream.send(COUNT)
    stream.go_on()
    stream.expect(2 * COUNT)
    stream.left = TOO_OFTEN
    stream.go_on()
    delete(node.bootstrap, name)
    create(node.bootstrap, {name: 2})
    stream.send(2 * COUNT)
    stream.found.clear()
    stream.go_on()
    assert sorted(map(int, stream.found)) == list(range(2 * COUNT, 3 * COUNT))


def test_a_topic_that_was_made_anew_is_noticed_after_odd_metadata(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They came with a request for offsets, and its topic id is not forgotten."""
    name = "anew"
    age = {"partition.metadata.cache.ttl.ms": "600000"}
    stream = Stream(node, monkeypatch, name, without_topic, "subscribe", **age)
    stream.send(0)
    stream.go_on()
    stream.left = 1
    stream.position._brokers.refresh([name])
    stream.go_on()
    delete(node.bootstrap, name)
    create(node.bootstrap, {name: 2})
    stream.position._metadata_refreshed_s = float("-inf")
    with pytest.raises(DataLoss, match=f"Topic {name} was deleted and created again"):
        stream.go_on()


@pytest.mark.parametrize("available_now", [False, True])
def test_added_partitions_of_a_failed_batch_that_are_gone_are_data_loss(node: NodeProcess, available_now: bool) -> None:
    """The query is restarted from its unfinished batch after its topic was re-created with fewer partitions."""
    name = f"fewer-{available_now}"
    create(node.bootstrap, {name: 4})
    begun, end = {name: {"0": 0, "1": 0}}, {name: {"0": 0, "1": 0, "2": 0, "3": 7}}
    delete(node.bootstrap, name)
    create(node.bootstrap, {name: 2})
    given = {
        "kafka.bootstrap.servers": node.bootstrap,
        "subscribe": name,
        "fetchOffset.retryIntervalMs": "10",
        "kafka.default.api.timeout.ms": "1000",
    }

    def restarted(**more: str) -> StreamPosition:
        position = StreamPosition(parse(given | more))
        if available_now:
            position.pin()
        return position

    with pytest.raises(DataLoss, match=f"{name}-2, {name}-3 have been deleted"):
        restarted().ranges(begun, end)
    ranges = restarted(failOnDataLoss="false").ranges(begun, end)
    assert [(one.partition, one.size) for one in ranges] == [(0, 0), (1, 0)]
