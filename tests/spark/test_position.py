"""Positions of streams, without Spark: limits, new partitions, re-created topics, data loss, cost of idle queries."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.node import NodeProcess
from support.spark_brokers import create, delete, delete_records, grow, produce
from support.spark_sink import Breaking

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")
from minikafka.protocol.errors import RequestTimedOutError, UnknownTopicOrPartitionError
from minikafka.protocol.names import TopicPartition
from minikafka.spark_connector.brokers import sockets
from minikafka.spark_connector.brokers.offset_reader import PartitionGone, offset_reader_for
from minikafka.spark_connector.options.offsets import LATEST
from minikafka.spark_connector.options.source_options import parse
from minikafka.spark_connector.source import micro_batches
from minikafka.spark_connector.source.data_loss import DataLoss
from minikafka.spark_connector.source.micro_batches import StreamPosition
from minikafka.spark_connector.source.offset_resolution import UnresolvedOffsets, batch_ranges
from minikafka.spark_connector.source.partition_reader import read
from minikafka.spark_connector.source.range_planner import Range

pytestmark = pytest.mark.timeout(300)
Json = dict[str, Any]
FETCHES = 5
QUICK = {"partition.metadata.cache.ttl.ms": "0", "fetchOffset.retryIntervalMs": "10", "startingOffsets": "earliest"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("positions") / "data") as process:
        yield process


def options_for(node: NodeProcess, topic: str, **more: str) -> Json:
    return {"kafka.bootstrap.servers": node.bootstrap, "subscribe": topic, **QUICK, **more}


def send(node: NodeProcess, topic: str, count: int, partition: int = 0) -> None:
    produce(node.bootstrap, topic, [{"value": b"%d" % number, "partition": partition} for number in range(count)])


def values(given: Json, ranges: list[Range]) -> list[bytes]:
    return [
        value for one in ranges for batch in read(parse(given), one, ["value"]) for value in batch[0].to_pylist()
    ]


@pytest.mark.slow
def test_a_stream_advances_and_reads_each_record_once(node: NodeProcess) -> None:
    create(node.bootstrap, {"steps": 2})
    given = options_for(node, "steps", maxOffsetsPerTrigger="6")
    send(node, "steps", 10, 0)
    send(node, "steps", 5, 1)
    position = StreamPosition(parse(given))
    begun = position.initial()
    assert begun == {"steps": {"0": 0, "1": 0}}
    first = position.next(begun, everything=False)
    assert first == {"steps": {"0": 4, "1": 2}}
    assert position.reported() == {"steps": {"0": 10, "1": 5}}
    assert len(values(given, position.ranges(begun, first))) == 6
    last = position.next(first, everything=True)
    assert last == {"steps": {"0": 10, "1": 5}}
    assert values(given, position.ranges(first, last)) == [b"4", b"5", b"6", b"7", b"8", b"9", b"2", b"3", b"4"]
    assert position.next(last, everything=False) == last
    assert [one.size for one in position.ranges(last, last)] == [0, 0]


@pytest.mark.parametrize("lost", ["sent", "answer"])
def test_a_range_is_read_once_whichever_request_is_lost(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """The connection breaks at each request in turn, before the broker has it or before its answer is there."""
    topic = f"broken-{lost}"
    create(node.bootstrap, {topic: 1})
    for _ in range(FETCHES):
        send(node, topic, 2)
    given = options_for(node, topic, **{"kafka.max.partition.fetch.bytes": "1"})
    (wanted,) = batch_ranges(offset_reader_for(parse(given).kafka), parse(given))
    breaking, numbers = Breaking(monkeypatch, lost), 0
    while numbers == 0 or breaking.count >= breaking.at:
        numbers += 1
        breaking.start(numbers)
        assert values(given, [wanted]) == [b"0", b"1"] * FETCHES, numbers
    assert numbers > FETCHES, "each batch was fetched on its own"


def test_a_new_query_starts_at_the_latest_offsets_by_default(node: NodeProcess) -> None:
    create(node.bootstrap, {"ends": 1})
    send(node, "ends", 3)
    given = options_for(node, "ends")
    del given["startingOffsets"]
    assert StreamPosition(parse(given)).initial() == {"ends": {"0": 3}}
    assert StreamPosition(parse(given | {"startingOffsets": '{"ends":{"0":2}}'})).initial() == {"ends": {"0": 2}}


def test_min_offsets_per_trigger_delays_a_micro_batch(node: NodeProcess) -> None:
    create(node.bootstrap, {"few": 1})
    position = StreamPosition(parse(options_for(node, "few", minOffsetsPerTrigger="5", idlePollMs="0")))
    begun = position.initial()
    assert position.next(begun, everything=False) == begun
    send(node, "few", 3)
    assert position.next(begun, everything=False) == begun
    assert position.next(begun, everything=True) == {"few": {"0": 3}}
    send(node, "few", 2)
    assert position.next(begun, everything=False) == {"few": {"0": 5}}
    hasty = StreamPosition(parse(options_for(node, "few", minOffsetsPerTrigger="50", maxTriggerDelay="0s")))
    assert hasty.next(begun, everything=False) == {"few": {"0": 5}}


def test_available_now_ends_at_the_log_end_of_its_start(node: NodeProcess) -> None:
    create(node.bootstrap, {"now": 1})
    send(node, "now", 10)
    position = StreamPosition(parse(options_for(node, "now", maxOffsetsPerTrigger="7", minOffsetsPerTrigger="6")))
    begun = position.initial()
    position.pin()
    send(node, "now", 10)
    grow(node.bootstrap, "now", 2)
    first = position.next(begun, everything=False)
    assert first == {"now": {"0": 7}}
    assert position.next(first, everything=False) == {"now": {"0": 10}}


def test_new_partitions_are_read_from_the_start(node: NodeProcess) -> None:
    create(node.bootstrap, {"grows": 1})
    given = options_for(node, "grows")
    position = StreamPosition(parse(given))
    begun = position.initial()
    grow(node.bootstrap, "grows", 2)
    send(node, "grows", 4, 1)
    after = position.next(begun, everything=False)
    assert after == {"grows": {"0": 0, "1": 4}}
    assert values(given, position.ranges(begun, after)) == [b"0", b"1", b"2", b"3"]


def test_a_pattern_matches_new_topics(node: NodeProcess) -> None:
    create(node.bootstrap, {"pat-1": 1})
    given = options_for(node, "x", subscribePattern="pat-.*")
    del given["subscribe"]
    position = StreamPosition(parse(given))
    begun = position.initial()
    create(node.bootstrap, {"pat-2": 1})
    send(node, "pat-2", 2)
    assert position.next(begun, everything=False) == {"pat-1": {"0": 0}, "pat-2": {"0": 2}}


@pytest.mark.parametrize("records", [2, 30])
def test_a_recreated_topic_is_detected(node: NodeProcess, records: int) -> None:
    name = f"recreated-{records}"
    create(node.bootstrap, {name: 1})
    send(node, name, 10)
    given = options_for(node, name)
    strict, lenient = StreamPosition(parse(given)), StreamPosition(parse(given | {"failOnDataLoss": "false"}))
    end = strict.next(strict.initial(), everything=False)
    assert lenient.next(lenient.initial(), everything=False) == end == {name: {"0": 10}}
    delete(node.bootstrap, name)
    create(node.bootstrap, {name: 1})
    send(node, name, records)
    with pytest.raises(DataLoss, match=f"{name} was deleted and created again: {name}-0 .*offset 10, .*{records}"):
        strict.next(end, everything=False)
    after = lenient.next(end, everything=False)
    assert after == {name: {"0": records}}
    assert len(values(given, lenient.ranges(end, after))) == records


def recreate(node: NodeProcess, topic: str, records: int) -> None:
    delete(node.bootstrap, topic)
    create(node.bootstrap, {topic: 1})
    send(node, topic, records)


def test_an_end_that_goes_back_for_a_moment_is_none_after_a_recreated_topic_either(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is anything read again when the offset is reached at which the old log had ended."""
    name = "again"
    create(node.bootstrap, {name: 1})
    send(node, name, 10)
    given = options_for(node, name, failOnDataLoss="false", idlePollMs="0")
    position, real, found = StreamPosition(parse(given)), micro_batches.ends, list[bytes]()
    end = position.next(position.initial(), everything=False)
    recreate(node, name, 3)
    for count, reached in enumerate((3, 7, 10, 12)):
        if count:
            send(node, name, reached - end[name]["0"])
        after = position.next(end, everything=False)
        assert after == {name: {"0": reached}}
        found += values(given, position.ranges(end, after))
        end = after
        with monkeypatch.context() as moment:
            moment.setattr(micro_batches, "ends", lambda *a, **kw: {tp: at - 2 for tp, at in real(*a, **kw).items()})
            assert position.next(end, everything=False) == end, "it waits"
        assert position.next(end, everything=False) == end
    assert len(found) == 12


@pytest.mark.parametrize(("remember", "records"), [("true", 3), ("false", 3), ("true", 30)])
@pytest.mark.parametrize("limit", ["2", "100"])
def test_a_failed_first_batch_of_a_recreated_topic_is_read_again(
    node: NodeProcess, remember: str, records: int, limit: str
) -> None:
    """The batch is in Spark's offset log; the process that has planned it is not there any more."""
    name = f"planned-{remember}-{records}-{limit}"
    create(node.bootstrap, {name: 1})
    send(node, name, 10)
    given = options_for(node, name, failOnDataLoss="false", rememberTopicIds=remember)
    position = StreamPosition(parse(given))
    begun = position.next(position.initial(), everything=False)
    recreate(node, name, records)
    given["maxOffsetsPerTrigger"] = limit
    failed = StreamPosition(parse(given))
    failed._topic_ids = position._topic_ids
    end = failed.next(begun, everything=False)
    planned = values(given, failed.ranges(begun, end))
    assert planned == [b"%d" % number for number in range(min(records, int(limit)))]
    again = StreamPosition(parse(given))
    assert values(given, again.ranges(begun, end)) == planned
    rest = again.next(end, everything=True)
    assert len(planned) + len(values(given, again.ranges(end, rest))) == records
    with pytest.raises(DataLoss, match=r"offset was changed from 10|was deleted and created again: planned-.*-0 had"):
        StreamPosition(parse(given | {"failOnDataLoss": "true"})).ranges(begun, end)


def test_a_failed_first_batch_of_a_truncated_log_reads_nothing_again(node: NodeProcess) -> None:
    create(node.bootstrap, {"cut": 1})
    send(node, "cut", 10)
    given = options_for(node, "cut", failOnDataLoss="false", rememberTopicIds="true")
    end = StreamPosition(parse(given)).next({"cut": {"0": 0}}, everything=False)
    assert values(given, StreamPosition(parse(given)).ranges(end | {"cut": {"0": 20}}, end)) == []


@pytest.mark.parametrize("remember", ["true", "false"])
def test_a_topic_recreated_while_the_query_was_stopped_is_detected(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, remember: str
) -> None:
    name = f"down-{remember}"
    create(node.bootstrap, {name: 1})
    send(node, name, 5)
    given = options_for(node, name, rememberTopicIds=remember)
    end = StreamPosition(parse(given)).next({name: {"0": 0}}, everything=False)
    delete(node.bootstrap, name)
    create(node.bootstrap, {name: 1})
    send(node, name, 9 if remember == "true" else 2)
    message = "was deleted and created again" if remember == "true" else "offset was changed from 5 to 2"
    again, now_s = StreamPosition(parse(given)), sockets.now_s()
    if remember == "false":
        assert again.next(end, everything=False) == end, "it may be the moment after a failover"
        monkeypatch.setattr(sockets, "now_s", lambda: now_s + 100)
    with pytest.raises(DataLoss, match=f'{message}(.|\n)*"failOnDataLoss" to "false"'):
        again.next(end, everything=False)


def test_an_end_offset_that_goes_back_for_a_moment_is_no_data_loss(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The leader of a failover knows only later what the one before it had committed."""
    create(node.bootstrap, {"moment": 2})
    for partition in (0, 1):
        send(node, "moment", 5, partition)
    position = StreamPosition(parse(options_for(node, "moment")))
    end = position.next(position.initial(), everything=False)
    real, now_s = micro_batches.ends, [sockets.now_s()]
    first = TopicPartition("moment", 0)
    monkeypatch.setattr(sockets, "now_s", lambda: now_s[0])
    monkeypatch.setattr(micro_batches, "ends", lambda *args, **more: {**real(*args, **more), first: 2})
    send(node, "moment", 3, 1)
    later = {"moment": {"0": 5, "1": 8}}
    for _ in range(3):
        assert position.next(end, everything=False) == later, "the other partition goes on"
        now_s[0] += 19
    assert [one.message for one in caplog.records if "waiting up to 60 s" in one.message] == [
        "moment-0 ends at offset 2, before offset 5 of the query: waiting up to 60 s for its leader"
    ]
    monkeypatch.setattr(micro_batches, "ends", real)
    assert position.next(later, everything=False) == later
    now_s[0] += 19
    monkeypatch.setattr(micro_batches, "ends", lambda *args, **more: {**real(*args, **more), first: 2})
    assert position.next(later, everything=False) == later, "the time begins anew"
    now_s[0] += 60
    with pytest.raises(DataLoss, match="moment-0 offset was changed from 5 to 2"):
        position.next(later, everything=False)


def available_now(given: Json, begun: Json) -> tuple[list[bytes], Json]:
    """What a query with Trigger.AvailableNow reads, and where it ends."""
    position, found = StreamPosition(parse(given)), list[bytes]()
    position.pin()
    while (end := position.next(begun, everything=False)) != begun:
        found += values(given, position.ranges(begun, end))
        begun = end
    return found, end


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize(("remember", "records"), [("true", 3), ("true", 9), ("false", 3), ("false", 0)])
def test_available_now_detects_what_a_stream_does(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, remember: str, records: int, fails: str
) -> None:
    """The topic was deleted and made anew between two runs of a job."""
    name = f"job-{remember}-{records}-{fails}"
    given = options_for(node, name, rememberTopicIds=remember, failOnDataLoss=fails)
    create(node.bootstrap, {name: 1})
    send(node, name, 5)
    _, begun = available_now(given, {name: {"0": 0}})
    delete(node.bootstrap, name)
    create(node.bootstrap, {name: 1})
    send(node, name, records)
    now_s = [sockets.now_s()]
    monkeypatch.setattr(sockets, "now_s", lambda: now_s[0])
    monkeypatch.setattr(sockets, "sleep", lambda seconds: now_s.append(now_s.pop() + 10 * seconds))
    if fails == "true":
        message = "was deleted and created again" if remember == "true" else f"offset was changed from 5 to {records}"
        with pytest.raises(DataLoss, match=message):
            available_now(given, begun)
        return
    found, end = available_now(given, begun)
    assert found == ([b"%d" % number for number in range(records)] if remember == "true" else [])
    assert end[name]["0"] == records
    send(node, name, 2)
    assert available_now(given, end)[0] == [b"0", b"1"]


def test_available_now_waits_for_an_end_that_goes_back_for_a_moment(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(node.bootstrap, {"job-moment": 1})
    send(node, "job-moment", 5)
    given = options_for(node, "job-moment")
    real, waited_s = micro_batches.ends, list[float]()
    _, end = available_now(given, {"job-moment": {"0": 0}})
    monkeypatch.setattr(sockets, "sleep", waited_s.append)
    monkeypatch.setattr(
        micro_batches, "ends", lambda *args: real(*args) if len(waited_s) > 3 else dict.fromkeys(real(*args), 2)
    )
    assert available_now(given, end) == ([], end)
    assert len(waited_s) > 3


@pytest.mark.parametrize("limit", [None, "2"])
def test_partitions_that_are_added_between_a_failed_batch_and_its_restart(node: NodeProcess, limit: str | None) -> None:
    """With Trigger.AvailableNow, Spark's own source refuses the batch."""
    name = f"grown-{limit}"
    create(node.bootstrap, {name: 1})
    send(node, name, 3)
    given = options_for(node, name) | ({} if limit is None else {"maxOffsetsPerTrigger": limit})
    failed = StreamPosition(parse(given))
    failed.pin()
    begun = failed.initial()
    end = failed.next(begun, everything=False)
    grow(node.bootstrap, name, 3)
    send(node, name, 2, 2)
    again = StreamPosition(parse(given))
    again.pin()
    found = values(given, again.ranges(begun, end))
    while (following := again.next(end, everything=False)) != end:
        found += values(given, again.ranges(end, following))
        end = following
    assert sorted(found) == [b"0", b"0", b"1", b"1", b"2"]
    assert end == {name: {"0": 3, "1": 0, "2": 2}}


AGES = [{"partition.metadata.cache.ttl.ms": one, "kafka.default.api.timeout.ms": "2000"} for one in ("0", "3600000")]
"""The metadata are fetched before each look, or are older than the deletion of a topic."""


@pytest.mark.parametrize("age", AGES, ids=["new", "old"])
def test_a_deleted_topic_is_data_loss(node: NodeProcess, age: dict[str, str]) -> None:
    create(node.bootstrap, {"gone": 1})
    send(node, "gone", 5)
    position = StreamPosition(parse(options_for(node, "gone", **age)))
    begun = position.initial()
    delete(node.bootstrap, "gone")
    end = position.next(begun, everything=False)
    with pytest.raises(DataLoss, match="Partitions gone-0 have been deleted"):
        position.ranges(begun, end)
    with pytest.raises(UnknownTopicOrPartitionError, match="topic 'gone' does not exist"):
        StreamPosition(parse(options_for(node, "gone"))).initial()


@pytest.mark.parametrize("age", AGES, ids=["new", "old"])
def test_a_query_goes_on_without_a_topic_that_was_deleted(node: NodeProcess, age: dict[str, str]) -> None:
    create(node.bootstrap, {"gone-too": 1, "stays": 1})
    send(node, "gone-too", 5)
    given = options_for(node, "gone-too,stays", failOnDataLoss="false", **age)
    position = StreamPosition(parse(given))
    begun = position.next(position.initial(), everything=False)
    delete(node.bootstrap, "gone-too")
    send(node, "stays", 3)
    end = position.next(begun, everything=False)
    assert end == {"stays": {"0": 3}}
    delete(node.bootstrap, "stays")


def test_a_lookup_of_a_topic_that_was_deleted_says_so(node: NodeProcess) -> None:
    create(node.bootstrap, {"deleted": 1})
    options = parse(options_for(node, "deleted", **{"kafka.default.api.timeout.ms": "500"}))
    reader, tp = offset_reader_for(options.kafka), TopicPartition("deleted", 0)
    assert reader.list_offsets({tp: LATEST}) == {tp: 0}
    delete(node.bootstrap, "deleted")
    with pytest.raises(RequestTimedOutError, match=r"^looking up offsets .*: topic 'deleted' does not exist"):
        reader.list_offsets({tp: LATEST})
    with pytest.raises(PartitionGone, match=r"^topic 'deleted' does not exist"):
        reader.list_offsets({tp: LATEST}, wait_for_gone=False)


def test_deleted_records_are_data_loss(node: NodeProcess) -> None:
    create(node.bootstrap, {"aged": 1})
    send(node, "aged", 10)
    delete_records(node.bootstrap, "aged", 4)
    given = options_for(node, "aged")
    wanted = [Range("aged", 0, 1, 8)]
    with pytest.raises(DataLoss, match=r"offset \[1, 8\) for topic partition aged-0: the log begins at offset 4"):
        values(given, wanted)
    assert values(given | {"failOnDataLoss": "false"}, wanted) == [b"4", b"5", b"6", b"7"]


def test_offsets_beyond_the_log_end_are_refused(node: NodeProcess) -> None:
    create(node.bootstrap, {"short": 1})
    send(node, "short", 3)
    given = options_for(node, "short", endingOffsets='{"short":{"0":9}}')
    with pytest.raises(DataLoss, match="ending offset 9 for short-0 is greater than the last available offset 3"):
        batch_ranges(offset_reader_for(parse(given).kafka), parse(given))
    lenient = parse(given | {"failOnDataLoss": "false"})
    assert [one.end for one in batch_ranges(offset_reader_for(lenient.kafka), lenient)] == [3]
    with pytest.raises(DataLoss, match="the log ends at offset 3"):
        values(options_for(node, "short"), [Range("short", 0, 7, 9)])
    beyond = parse(options_for(node, "short", startingOffsets='{"short":{"0":7}}'))
    with pytest.raises(UnresolvedOffsets, match="start offset 7 is greater than the resolved end offset 3"):
        batch_ranges(offset_reader_for(beyond.kafka), beyond)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"startingOffsets": '{"named":{"0":0}}'}, r"specify all TopicPartitions(.|\n)*named-0\} .*named-0, named-1"),
        ({"startingOffsetsByTimestamp": '{"named":{"0":0}}'}, "you didn't specify all the partitions"),
        ({"startingTimestamp": "4102444800000"}, "No offset matched from request of topic-partition named-0 and"),
    ],
)
def test_starting_options_must_match_the_partitions(node: NodeProcess, more: dict[str, str], message: str) -> None:
    if "named" not in _topics(node):
        create(node.bootstrap, {"named": 2})
    options = parse(options_for(node, "named", **more))
    with pytest.raises(UnresolvedOffsets, match=message):
        batch_ranges(offset_reader_for(options.kafka), options)


def _topics(node: NodeProcess) -> list[str]:
    reader = offset_reader_for(parse(options_for(node, "named")).kafka)
    reader.refresh(None)
    return list(reader.metadata.topics)


@pytest.mark.slow
def test_an_idle_query_sends_few_requests(node: NodeProcess) -> None:
    create(node.bootstrap, {"idle": 3})
    options = parse({"kafka.bootstrap.servers": node.bootstrap, "subscribe": "idle", "kafka.client.id": "idle"})
    position, reader = StreamPosition(options), offset_reader_for(options.kafka)
    offset = position.initial()
    for _ in range(6):
        position.next(offset, everything=False)
    before, began = reader.request_count, time.monotonic()
    for _ in range(6):
        assert position.next(offset, everything=False) == offset
        position.reported()
    assert (reader.request_count - before) / (time.monotonic() - began) < 8


def test_progress_is_committed_to_a_group(node: NodeProcess, tmp_path: Path) -> None:
    create(node.bootstrap, {"committed": 2})
    position = StreamPosition(parse(options_for(node, "committed", commitOffsets="spark-lag")))
    position.commit({"committed": {"0": 4, "1": 0}})
    import confluent_kafka

    consumer = confluent_kafka.Consumer({"bootstrap.servers": node.bootstrap, "group.id": "spark-lag"})
    wanted = [confluent_kafka.TopicPartition("committed", number) for number in (0, 1)]
    assert [one.offset for one in consumer.committed(wanted, 60)] == [4, 0]
    consumer.close()


@pytest.mark.slow
def test_reading_continues_after_a_broker_restart(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        create(node.bootstrap, {"back": 1})
        send(node, "back", 50)
        given = options_for(node, "back")
        records = read(parse({**given, "kafka.max.partition.fetch.bytes": "10"}), Range("back", 0, 0, 100), ["offset"])
        found = next(records)[0].to_pylist()
        node.kill()
        node.restart()
        send(node, "back", 50)
        found += [offset for batch in records for offset in batch[0].to_pylist()]
    assert found == list(range(100))
