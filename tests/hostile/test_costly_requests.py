"""Requests with very many elements: each is answered or ends its connection, and no step is long (`unharmed`)."""

from __future__ import annotations

import pytest
from support.batches import encode_batch
from support.clients import eventually
from support.clients_raw import RawConnection, request
from support.node import ServerProcess
from support.oracle import Oracle

from minikafka.broker.connections.large_messages import ELEMENTS_MAX, ELEMENTS_MAX_WITH_PAUSES
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest
from minikafka.protocol.messages.describe_producers import DescribeProducersRequest
from minikafka.protocol.messages.describe_producers import TopicRequest as DescribedTopic
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minikafka.protocol.messages.list_transactions import ListTransactionsRequest
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from minikafka.protocol.records.compression import Codec
from minikafka.protocol.records.record import Record

MANY = ELEMENTS_MAX_WITH_PAUSES - 10
TOO_MANY = 400_000
MIB = 1 << 20


@pytest.fixture
def growth_bytes_max(growth_bytes_max: int) -> int:
    """100,000 elements are 100 MiB of small objects for a moment; the heap that held them stays in pieces."""
    return growth_bytes_max + 100 * MIB


def fetch_of(count: int, *, session_id: int = 0, epoch: int = 0) -> FetchRequest:
    partitions = [FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1000) for number in range(count)]
    topics = [FetchTopic(topic="missing", partitions=partitions)]
    return FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1000, session_id=session_id, session_epoch=epoch, topics=topics
    )


@pytest.mark.slow
def test_a_fetch_of_many_partitions_that_do_not_exist_is_answered(node: ServerProcess) -> None:
    with RawConnection(node.address) as connection:
        answer = connection.ask(fetch_of(MANY), 12)
        errors = {partition.error_code for topic in answer.responses for partition in topic.partitions}
        assert errors == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert sum(len(topic.partitions) for topic in answer.responses) == MANY


@pytest.mark.slow
def test_no_session_is_opened_for_partitions_that_do_not_exist(node: ServerProcess) -> None:
    if isinstance(node, Oracle):
        pytest.skip("Apache Kafka opens them")
    with RawConnection(node.address) as connection:
        assert [connection.ask(fetch_of(20_000), 12).session_id for _ in range(10)] == [0] * 10


@pytest.mark.slow
def test_more_elements_than_any_client_sends_end_the_connection(node: ServerProcess) -> None:
    if isinstance(node, Oracle):
        pytest.skip("Apache Kafka answers")
    with RawConnection(node.address) as connection:
        connection.send(request(fetch_of(TOO_MANY), 12))
        assert connection.is_hung_up_on()
    assert eventually(lambda: "elements" in node.log_tail())


@pytest.mark.slow
def test_metadata_of_many_names_that_do_not_exist_is_answered(node: ServerProcess) -> None:
    topics = [MetadataRequestTopic(name=f"missing-{number}") for number in range(MANY)]
    with RawConnection(node.address) as connection:
        answer = connection.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9)
    assert len(answer.topics) == MANY


@pytest.mark.slow
def test_a_produce_to_many_partitions_that_do_not_exist_is_answered(node: ServerProcess) -> None:
    data = [PartitionProduceData(index=number, records=b"") for number in range(MANY)]
    message = ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="missing", partition_data=data)]
    )
    with RawConnection(node.address) as connection:
        answer = connection.ask(message, 9)
    assert len(answer.responses[0].partition_responses) == MANY


def test_a_topic_of_many_partitions_is_created_changed_and_deleted_in_steps(node: ServerProcess) -> None:
    topic = CreatableTopic(name="many-partitions", num_partitions=400, replication_factor=1)
    change = AlterableConfig(name="max.message.bytes", config_operation=0, value="1000")
    changed = AlterConfigsResource(resource_type=2, resource_name="many-partitions", configs=[change])
    with RawConnection(node.address) as connection:
        created = connection.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 5)
        altered = connection.ask(IncrementalAlterConfigsRequest(resources=[changed]), 1)
        deleted = connection.ask(DeleteTopicsRequest(topic_names=["many-partitions"], timeout_ms=60_000), 5)
    assert created.topics[0].error_code == altered.responses[0].error_code == deleted.responses[0].error_code == 0


def test_long_lists_of_a_setting_are_appended_to_and_subtracted_from_in_steps(node: ServerProcess) -> None:
    name, setting = "long-list", "follower.replication.throttled.replicas"

    def operate(operation: int, leader: int) -> tuple[str, int, str]:
        items = (f"{number}:{leader}" for number in range(2_700))
        return setting, operation, ",".join(items)

    with RawConnection(node.address) as connection:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        connection.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 5)
        errors = []
        for key, operation, value in [operate(2, 1), operate(2, 2), operate(2, 3), operate(3, 2)] * 2:
            change = AlterableConfig(name=key, config_operation=operation, value=value)
            resource = AlterConfigsResource(resource_type=2, resource_name=name, configs=[change])
            errors += connection.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert {answer.error_code for answer in errors} == {0, ErrorCode.INVALID_CONFIG}


def test_a_pattern_that_explodes_by_backtracking_is_matched_in_steps(node: ServerProcess) -> None:
    name = "a" * 3000
    with RawConnection(node.address) as connection:
        lookup = FindCoordinatorRequest(key_type=1, coordinator_keys=[name])
        while connection.ask(lookup, 4).coordinators[0].error_code:
            pass
        init = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        while connection.ask(init, 4).error_code:
            pass
        found = [
            connection.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2).transaction_states
            for pattern in ("(a|aa)+b", "(a|aa)+")
        ]
    assert [len(states) for states in found] == [0, 1]


@pytest.mark.parametrize("part", [r"\pL", "a{0,1000}", "a?"])
def test_a_pattern_that_takes_long_to_compile_is_refused_in_a_short_step(node: ServerProcess, part: str) -> None:
    if isinstance(node, Oracle):
        pytest.skip("Apache Kafka takes it")
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id="costly-pattern",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex=part * (32_000 // len(part)),
        topic_partitions=[],
    )
    with RawConnection(node.address) as connection:
        while connection.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["a"]), 4).coordinators[0].error_code:
            pass
        while (error := connection.ask(heartbeat, 1).error_code) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            pass
    assert error == ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "{number}"])
def test_stores_of_many_brokers_are_looked_at_in_steps(node: ServerProcess, name: str) -> None:
    if isinstance(node, Oracle) and not name:
        pytest.skip("Apache Kafka answers after a minute")

    def altered(number: int) -> AlterConfigsResource:
        config = AlterableConfig(name="ssl.keystore.location", config_operation=0, value="/missing")
        return AlterConfigsResource(
            resource_type=4, resource_name=name.format(number=number + 1000), configs=[config]
        )

    with RawConnection(node.address) as connection:
        request = IncrementalAlterConfigsRequest(resources=list(map(altered, range(3000))), validate_only=True)
        assert len(connection.ask(request, 1).responses) == 3000


def test_offsets_of_many_partitions_are_answered(node: ServerProcess) -> None:
    topics = [OffsetFetchRequestTopics(name="missing", partition_indexes=list(range(ELEMENTS_MAX - 10)))]
    groups = [OffsetFetchRequestGroup(group_id="unknown-group", topics=topics)]
    with RawConnection(node.address) as connection:
        connection.ask(OffsetFetchRequest(groups=groups), 8)


@pytest.mark.slow
def test_names_where_ids_are_refused_are_answered_in_steps(node: ServerProcess) -> None:
    """In versions 10 and 11 a request with a name that is null is refused, name by name."""
    if isinstance(node, Oracle):
        pytest.skip("Apache Kafka does the same in threads")
    topics = [MetadataRequestTopic(name=None, topic_id=bytes(16))]
    topics += [MetadataRequestTopic(name=f"missing-{number}") for number in range(MANY)]
    with RawConnection(node.address) as connection:
        answer = connection.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 10)
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.INVALID_REQUEST}


@pytest.mark.slow
def test_offsets_of_many_partitions_are_listed_in_steps(node: ServerProcess) -> None:
    partitions = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(MANY)]
    topics = [ListOffsetsTopic(name="missing", partitions=partitions)]
    with RawConnection(node.address) as connection:
        answer = connection.ask(ListOffsetsRequest(replica_id=-1, topics=topics), 7)
    assert len(answer.topics[0].partitions) == MANY


@pytest.mark.slow
def test_timestamps_are_looked_up_in_batches_of_many_records_in_steps(node: ServerProcess) -> None:
    partitions, count = range(8), 100_000
    batch = encode_batch([Record(number, number, None, b"v", ()) for number in range(count)], codec=Codec.GZIP)
    created = CreatableTopic(name="many-records", num_partitions=len(partitions), replication_factor=1)
    data = [PartitionProduceData(index=number, records=batch) for number in partitions]
    produce = ProduceRequest(
        acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name="many-records", partition_data=data)]
    )
    with RawConnection(node.address) as connection:
        connection.ask(CreateTopicsRequest(topics=[created], timeout_ms=60_000), 5)
        while any(one.error_code for one in connection.ask(produce, 9).responses[0].partition_responses):
            pass
        for timestamp in (count - 1, -3):
            wanted = [ListOffsetsPartition(partition_index=number, timestamp=timestamp) for number in partitions]
            topics = [ListOffsetsTopic(name="many-records", partitions=wanted)]
            answer = connection.ask(ListOffsetsRequest(replica_id=-1, topics=topics), 7)
            assert {one.timestamp for one in answer.topics[0].partitions} == {count - 1}


def test_markers_and_producers_of_many_partitions_are_answered_in_steps(node: ServerProcess) -> None:
    indexes = list(range(ELEMENTS_MAX - 10))
    marked = [WritableTxnMarkerTopic(name="missing", partition_indexes=indexes)]
    marker = WritableTxnMarker(producer_id=1, producer_epoch=0, transaction_result=True, topics=marked)
    with RawConnection(node.address) as connection:
        written = connection.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
        topics = [DescribedTopic(name="missing", partition_indexes=indexes)]
        described = connection.ask(DescribeProducersRequest(topics=topics), 0)
    assert len(written.markers[0].topics[0].partitions) == len(described.topics[0].partitions) == len(indexes)
