"""Requests about very many partitions or resources, and about none of very many, for tests of what is done in steps."""

from collections.abc import Callable
from typing import Any

from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import (
    BrokerChange,
    BrokerRecord,
    ConfigRecord,
    PartitionChange,
    TopicRecord,
)
from minikafka.protocol.messages import alter_client_quotas as quotas
from minikafka.protocol.messages import alter_configs as configs
from minikafka.protocol.messages import alter_partition as isrs
from minikafka.protocol.messages import alter_partition_reassignments as moves
from minikafka.protocol.messages import assign_replicas_to_dirs as directories
from minikafka.protocol.messages import incremental_alter_configs as incremental
from minikafka.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from minikafka.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from minikafka.protocol.messages.broker_registration import BrokerRegistrationRequest, Listener
from minikafka.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from minikafka.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from minikafka.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from minikafka.protocol.messages.list_config_resources import ListConfigResourcesRequest
from minikafka.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest
from support.images import CLUSTER_ID, applied, three_brokers, topic_id, with_topic

FEW = 2_000
DIRECTORY, OTHER_DIRECTORY = b"1" * 16, b"2" * 16


def many_partitions() -> Image:
    """Of one topic; broker 1 leads all."""
    image = three_brokers()
    image.apply(BrokerRecord(1, 0, bytes(16), (), None, fenced=False, log_dirs=(DIRECTORY,)))
    image = with_topic(image, "t", *[(1, 2)] * FEW)
    directories_of = (DIRECTORY, OTHER_DIRECTORY)
    changes = [PartitionChange(topic_id("t"), index, directories=directories_of) for index in range(FEW)]
    return applied(changes, image)


def led_by_another() -> Image:
    return applied([PartitionChange(topic_id("t"), index, leader=2) for index in range(FEW)], many_partitions())


def without_leaders() -> Image:
    """Broker 1 is fenced, and alone in the ISRs."""
    changes = [PartitionChange(topic_id("t"), index, leader=-1, isr=(1,)) for index in range(FEW)]
    return applied([*changes, BrokerChange(1, 0, fenced=True)], many_partitions())


def with_eligible_replicas() -> Image:
    changes = [PartitionChange(topic_id("t"), index, isr=(1,), elr=(2,)) for index in range(FEW)]
    return applied([*changes, ConfigRecord(2, "t", "min.insync.replicas", "2")], many_partitions())


def many_topics() -> Image:
    records = [TopicRecord(number.to_bytes(16, "big"), f"t{number}") for number in range(FEW)]
    return applied(records, three_brokers())


def heartbeat(*, node_id: int = 1, **wants: Any) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(broker_id=node_id, broker_epoch=0, current_metadata_offset=1, **wants)


def registration(node_id: int = 1) -> BrokerRegistrationRequest:
    listener = Listener(name="PLAINTEXT", host="h", port=1, security_protocol=0)
    return BrokerRegistrationRequest(
        broker_id=node_id, cluster_id=CLUSTER_ID, incarnation_id=b"x" * 16, listeners=[listener], rack=None
    )


def min_isr(kind: int, name: str) -> incremental.IncrementalAlterConfigsRequest:
    change = incremental.AlterableConfig(name="min.insync.replicas", config_operation=0, value="1")
    resource = incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    return incremental.IncrementalAlterConfigsRequest(resources=[resource])


INDEXES = range(FEW)
MANY_CHANGES: dict[str, tuple[Callable[[], Image], Any]] = {
    "AlterPartition": (many_partitions, isrs.AlterPartitionRequest(broker_id=1, broker_epoch=0, topics=[
        isrs.RequestTopicData(topic_id=topic_id("t"), partitions=[
            isrs.RequestPartitionData(partition_index=index, leader_epoch=0, partition_epoch=1, new_isr=[1])
            for index in INDEXES])])),
    "reassignment": (many_partitions, moves.AlterPartitionReassignmentsRequest(topics=[
        moves.ReassignableTopic(name="t", partitions=[
            moves.ReassignablePartition(partition_index=index, replicas=[1, 3]) for index in INDEXES])])),
    "AssignReplicasToDirs": (many_partitions, directories.AssignReplicasToDirsRequest(broker_id=1, broker_epoch=0,
        directories=[directories.RequestDirectoryData(id=OTHER_DIRECTORY, topics=[
            directories.RequestTopicData(topic_id=topic_id("t"), partitions=[
                directories.RequestPartitionData(partition_index=index) for index in INDEXES])])])),
    "election of all": (led_by_another, ElectLeadersRequest(topic_partitions=None)),
    "election": (led_by_another, ElectLeadersRequest(
        topic_partitions=[TopicPartitions(topic="t", partitions=[*INDEXES])])),
    "DeleteTopics": (many_topics, DeleteTopicsRequest(
        topics=[DeleteTopicState(name=f"t{index}") for index in INDEXES], timeout_ms=1000)),
    "AlterConfigs": (three_brokers, configs.AlterConfigsRequest(resources=[
        configs.AlterConfigsResource(resource_type=32, resource_name=f"g{index}", configs=[
            configs.AlterableConfig(name="consumer.session.timeout.ms", value="46000")]) for index in INDEXES])),
    "IncrementalAlterConfigs": (three_brokers, incremental.IncrementalAlterConfigsRequest(resources=[
        incremental.AlterConfigsResource(resource_type=32, resource_name=f"g{index}", configs=[
            incremental.AlterableConfig(name="consumer.session.timeout.ms", config_operation=0, value="46000")])
        for index in INDEXES])),
    "min.insync.replicas of a topic": (with_eligible_replicas, min_isr(2, "t")),
    "quotas": (three_brokers, quotas.AlterClientQuotasRequest(entries=[
        quotas.RequestEntryData(entity=[quotas.EntityData(entity_type="user", entity_name=f"u{index}")],
                         ops=[quotas.OpData(key="request_percentage", value=10.0)]) for index in INDEXES])),
    "unfenced broker": (without_leaders, heartbeat()),
    "fenced broker": (many_partitions, heartbeat(want_fence=True)),
    "controlled shutdown": (many_partitions, heartbeat(want_shut_down=True)),
    "failed directory": (many_partitions, heartbeat(offline_log_dirs=[DIRECTORY])),
    "registration": (many_partitions, registration()),
    "UnregisterBroker": (many_partitions, UnregisterBrokerRequest(broker_id=1)),
}  # fmt: skip

SCANS: dict[str, Any] = {
    "fenced broker": heartbeat(node_id=4, want_fence=True),
    "controlled shutdown": heartbeat(node_id=4, want_shut_down=True),
    "failed directory": heartbeat(node_id=4, offline_log_dirs=[DIRECTORY]),
    "registration": registration(4),
    "UnregisterBroker": UnregisterBrokerRequest(broker_id=4),
    "min.insync.replicas of all": min_isr(4, ""),
}

REFUSED: list[Any] = [
    AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=f"u{index}", mechanism=1) for index in INDEXES]
    ),
    CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=f"t{index}", count=2, assignments=None) for index in INDEXES],
        timeout_ms=1000,
    ),
    DeleteTopicsRequest(topics=[DeleteTopicState(name=f"t{index}") for index in INDEXES], timeout_ms=1000),
]

DESCRIBED: list[Any] = [
    DescribeClientQuotasRequest(components=[]),
    DescribeUserScramCredentialsRequest(users=None),
    ListConfigResourcesRequest(resource_types=[2]),
    ListPartitionReassignmentsRequest(topics=None),
]
