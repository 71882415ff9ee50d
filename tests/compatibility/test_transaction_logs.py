"""What our coordinators have written of transactions: Kafka's tool decodes it, and a JVM broker goes on from it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka as ck
import pytest
from support.clients import WAIT_S, connect, eventually
from support.node import NodeProcess, ServerProcess
from support.open_transaction import open_transaction
from support.oracle import Oracle, needs_oracle, tool

from minikafka.cli.commands.dump_log import lines_of
from minikafka.client import TopicPartition
from minikafka.client.blocking import Admin, Producer

pytestmark = [pytest.mark.oracle, needs_oracle, pytest.mark.slow, pytest.mark.timeout(300)]
TOPIC, OPEN = "flights", "open"
SETTINGS = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}
DECODERS = {"__transaction_state": "--transaction-log-decoder", "__consumer_offsets": "--offsets-decoder"}
COMPLETE = {"confluent": "CompleteCommit", "minikafka": "CompleteAbort", OPEN: "Ongoing"}
STATUS = {"1": "Ongoing", "4": "CompleteCommit", "5": "CompleteAbort"}
"""Of Kafka's `TransactionState`: the tool prints the number."""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a node that has ended: transactions of both versions, with offsets, and one that is open."""
    with NodeProcess(tmp_path_factory.mktemp("ours") / "data", settings=SETTINGS) as node:
        with connect("confluent-kafka", node.bootstrap) as client:
            client.create_topic(TOPIC)
            client.create_topic(OPEN)
        version_1(node.bootstrap)
        version_2(node.bootstrap)
        open_transaction(node.bootstrap, OPEN)
        eventually(lambda: states(node) == COMPLETE)
        node.terminate()
        return node.data_dir


def version_1(bootstrap: str) -> None:
    """librdkafka's transactions: the offset 3 is committed, 7 is not."""
    producer = ck.Producer({"bootstrap.servers": bootstrap, "transactional.id": "confluent", "log_level": 0})
    consumer = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": "confluent", "log_level": 0})
    producer.init_transactions(WAIT_S)
    for offset, end in ((7, producer.abort_transaction), (3, producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(TOPIC, b"confluent %d" % offset)
        positions = [ck.TopicPartition(TOPIC, 0, offset)]
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), WAIT_S)
        end(WAIT_S)
    consumer.close()


def version_2(bootstrap: str) -> None:
    """Our client's: the offset 3 is committed, 7 is not."""
    with Producer(bootstrap, transactional_id="minikafka") as producer:
        for offset, end in ((3, producer.commit), (7, producer.abort)):
            producer.begin()
            producer.send(TOPIC, b"minikafka %d" % offset)
            producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): offset}, "minikafka")
            end()


def states(node: ServerProcess) -> dict[str, str]:
    with Admin(node.bootstrap) as admin:
        return {one.transactional_id: one.state for one in admin.list_transactions()}


@pytest.mark.parametrize("topic", DECODERS)
def test_kafkas_tool_decodes_our_records(logs: Path, topic: str) -> None:
    (file,) = sorted((logs / f"{topic}-0").glob("*.log"))
    theirs = tool("dump-log", DECODERS[topic], "--files", file)
    assert "isvalid: true" in theirs
    assert "isvalid: false" not in theirs
    ours = lines_of(file, file.read_bytes(), records=True, as_json=False)
    assert list(contents(ours)) == list(contents(theirs.splitlines()))
    if topic == "__consumer_offsets":
        assert sorted(re.findall("endTxnMarker: (COMMIT|ABORT)", theirs)) == ["ABORT", "ABORT", "COMMIT", "COMMIT"]
        assert len(re.findall(r'"group":"(?:confluent|minikafka)","topic":"flights".*"offset":[37],', theirs)) == 4
    else:
        last = dict(re.findall(r'"transactionalId":"(\w+)".*"transactionStatus":(\d)', theirs))
        assert {transactional_id: STATUS[status] for transactional_id, status in last.items()} == COMPLETE


def contents(lines: Iterator[str] | list[str]) -> Iterator[str]:
    """What follows the key, or the marker, of each record's line."""
    for line in lines:
        found = re.search(r" (?:key|control|endTxnMarker): (.*)", line)
        if found:
            yield found[1]


def test_a_jvm_broker_goes_on_from_our_transactions(logs: Path, tmp_path: Path) -> None:
    """Also with the open one, which its producer's successor aborts."""
    with Oracle(tmp_path / "kafka", settings=SETTINGS) as kafka:
        place = ("--bootstrap-server", kafka.bootstrap)
        with connect("confluent-kafka", kafka.bootstrap) as client:
            client.create_topic(TOPIC)
            client.create_topic(OPEN)
        version_1(kafka.bootstrap)  # creates the internal topics
        kafka.terminate()
        for topic in (*DECODERS, TOPIC, OPEN):
            take_over(logs / f"{topic}-0", kafka.logs / f"{topic}-0")
        (kafka.logs / ".kafka_cleanshutdown").unlink(missing_ok=True)
        kafka.start()
        listed = tool("transactions", *place, "list")
        found = {row[0]: row[-1] for row in map(str.split, listed.splitlines()) if row[0] in COMPLETE}
        assert found == COMPLETE
        described = tool("transactions", *place, "describe", "--transactional-id", OPEN)
        assert re.search(rf"\sOngoing\s.*\s{OPEN}-0\b", described), described
        assert committed(kafka.bootstrap) == {"confluent": 3, "minikafka": 3}
        assert [values(kafka.bootstrap, topic) for topic in (TOPIC, OPEN)] == [[b"confluent 3", b"minikafka 3"], []]
        successor = ck.Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": OPEN, "log_level": 0})
        successor.init_transactions(WAIT_S)
        successor.begin_transaction()
        successor.produce(OPEN, b"of the successor")
        successor.commit_transaction(WAIT_S)
        assert values(kafka.bootstrap, OPEN) == [b"of the successor"]


def take_over(ours: Path, theirs: Path) -> None:
    """Replaces the files of a partition by ours; the topic id remains Kafka's."""
    for path in theirs.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    shutil.copytree(ours, theirs, dirs_exist_ok=True, ignore=shutil.ignore_patterns("partition.metadata"))


def committed(bootstrap: str) -> dict[str, int]:
    found = {}
    for group in ("confluent", "minikafka"):
        consumer = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
        (position,) = consumer.committed([ck.TopicPartition(TOPIC, 0)], WAIT_S)
        found[group] = position.offset
        consumer.close()
    return found


def values(bootstrap: str, topic: str) -> list[bytes]:
    """What a read_committed consumer reads up to the last stable offset."""
    consumer = ck.Consumer({
        "bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed",
        "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0,
    })  # fmt: skip
    consumer.assign([ck.TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while (message := consumer.poll(WAIT_S)) is not None and message.error() is None:
        found.append(message.value())
    assert message is not None
    assert message.error().code() == ck.KafkaError._PARTITION_EOF
    consumer.close()
    return found
