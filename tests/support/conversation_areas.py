"""The areas of random questions: their APIs, and the values that fields take."""

from __future__ import annotations

from typing import Any

MARKERS = "markers"
AREAS: dict[str, str] = {
    "topics": "Metadata DescribeCluster DescribeTopicPartitions CreateTopics DeleteTopics CreatePartitions",
    "settings": "CreateTopics DescribeConfigs DescribeConfigs AlterConfigs IncrementalAlterConfigs",
    "records": "Produce Produce Produce Fetch Fetch Fetch ListOffsets DeleteRecords OffsetForLeaderEpoch"
    " DescribeProducers DescribeLogDirs",
    "groups": "JoinGroup JoinGroup SyncGroup SyncGroup Heartbeat LeaveGroup OffsetCommit OffsetFetch ListGroups"
    " DescribeGroups DeleteGroups OffsetDelete FindCoordinator",
    "transactions": "InitProducerId InitProducerId InitProducerId AddPartitionsToTxn AddPartitionsToTxn AddOffsetsToTxn"
    " TxnOffsetCommit TxnOffsetCommit EndTxn EndTxn EndTxn Produce Produce Produce Fetch ListOffsets OffsetFetch"
    " DescribeTransactions ListTransactions DescribeProducers FindCoordinator",
    MARKERS: "InitProducerId InitProducerId AddPartitionsToTxn AddPartitionsToTxn AddPartitionsToTxn EndTxn EndTxn"
    " Produce Produce Produce Produce WriteTxnMarkers WriteTxnMarkers WriteTxnMarkers DescribeProducers"
    " DescribeTransactions Fetch ListOffsets",
    "consumer groups": "ConsumerGroupHeartbeat ConsumerGroupHeartbeat ConsumerGroupHeartbeat ConsumerGroupHeartbeat"
    " ConsumerGroupHeartbeat ConsumerGroupHeartbeat ConsumerGroupDescribe ConsumerGroupDescribe OffsetCommit"
    " OffsetFetch TxnOffsetCommit JoinGroup JoinGroup SyncGroup Heartbeat LeaveGroup DescribeGroups ListGroups"
    " DeleteGroups OffsetDelete",
    "administration": "AlterClientQuotas AlterClientQuotas DescribeClientQuotas ElectLeaders"
    " AlterPartitionReassignments ListPartitionReassignments DescribeUserScramCredentials AlterUserScramCredentials"
    " ListConfigResources DescribeLogDirs AlterReplicaLogDirs DescribeAcls CreateAcls DeleteAcls"
    " CreateDelegationToken DescribeDelegationToken SaslHandshake DescribeQuorum UpdateFeatures UnregisterBroker",
}
RESOURCES = "resources"
CONTROLLER = "controller"
AREAS_OF_NODES: dict[str, str] = {
    RESOURCES: "IncrementalAlterConfigs IncrementalAlterConfigs IncrementalAlterConfigs AlterConfigs DescribeConfigs"
    " DescribeConfigs DescribeConfigs",
    CONTROLLER: "CreateTopics CreateTopics CreatePartitions DeleteTopics AlterPartitionReassignments"
    " ListPartitionReassignments ElectLeaders IncrementalAlterConfigs IncrementalAlterConfigs AlterConfigs"
    " DescribeConfigs DescribeConfigs AlterClientQuotas AlterUserScramCredentials DescribeQuorum DescribeCluster"
    " UpdateFeatures UnregisterBroker AddRaftVoter RemoveRaftVoter CreateAcls DeleteAcls DescribeAcls"
    " CreateDelegationToken SaslHandshake",
}
"""Areas that change the settings of a node, which other areas depend on; `CONTROLLER` is sent to its controller
listener."""
REPLICAS = "replicas"
AREAS_OF_CLUSTERS: dict[str, str] = {
    REPLICAS: "CreateTopics CreateTopics CreatePartitions DeleteTopics AlterPartitionReassignments"
    " AlterPartitionReassignments AlterPartitionReassignments ListPartitionReassignments ElectLeaders ElectLeaders"
    " Metadata Metadata DescribeTopicPartitions DescribeCluster IncrementalAlterConfigs DescribeConfigs",
}
"""Areas of three nodes with the ids 1, 2 and 3."""
VERSIONS = {"Metadata": (4, 13), "AddPartitionsToTxn": (0, 3), "InitProducerId": (0, 5)}
VERSIONS_IN = {MARKERS: {"AddPartitionsToTxn": (4, 5), "InitProducerId": (0, 6)}}
"""Those of one area, instead of those above."""
TOPICS = ["~a", "~a", "~b", "~b", "~c", "~none", "a b"]
GROUPS = ["~g", "~g", "~g", "~g", "~h"]
SETTINGS = [
    *("retention.ms", "cleanup.policy", "segment.bytes", "compression.type", "max.message.bytes", "nonsense"),
    *("flush.messages", "message.timestamp.type", "min.compaction.lag.ms", "max.compaction.lag.ms", "segment.ms"),
]
LEFT_OUT = frozenset(
    (
        *("cluster_id", "replica_state", "replica_directory_id", "log_start_offset", "high_watermark", "rack_id"),
        *("user_data", "member_epoch", "transactional_id", "replica_id", "include_documentation", "resource_name"),
    )
)

POOLS: dict[str, list[Any]] = {
    "topic": TOPICS,
    "topic_name": TOPICS,
    "topic_id": ["$topic_id.1", "$topic_id.2", "$topic_id.1", "00000000-0000-0000-0000-0000000000ff"],
    "partition": [0, 0, 0, 1, 2, -1],
    "partition_index": [0, 0, 0, 1, 2, -1],
    "index": [0, 0, 0, 1, 2, -1],
    "group_id": GROUPS,
    "key": GROUPS,
    "key_type": [0, 0, 0, 3],
    "fetch_offset": [0, 0, 1, 2, 5, -1, 100],
    "offset": [0, 1, 2, -1, -2, 100],
    "committed_offset": [0, 1, 7, -1],
    "committed_metadata": ["", "md", None],
    "timestamp": [-1, -2, -3, -4, -5, -7, 0, 1_700_000_000_000],
    "current_leader_epoch": [-1, -1, 0, 5],
    "leader_epoch": [-1, 0, 0, 1],
    "last_fetched_epoch": [-1, -1, 0, 5],
    "committed_leader_epoch": [-1, 0, 3],
    "max_wait_ms": [0, 20],
    "min_bytes": [0, 1, 100],
    "max_bytes": [0, 1, 150, 1 << 20],
    "partition_max_bytes": [0, 70, 150, 1 << 20],
    "isolation_level": [0, 1],
    "session_id": [0, "$session_id.1", "$session_id.1", "$session_id.2", 77],
    "session_epoch": [-1, 0, 0, 1, 1, 2, 3],
    "acks": [-1, -1, 1, 1, 2],
    "timeout_ms": [5000, 5000, 5000, 0],
    "num_partitions": [1, 2, -1, 0, -2],
    "replication_factor": [1, 1, -1, 0, 2],
    "count": [1, 2, 3, 5, 0, -1],
    "resource_type": [2, 2, 2, 32],
    "config_operation": [0, 0, 1, 2, 3],
    "value": ["1", "5000", "compact", "delete,compact", "gzip", "x", "", None, "-1", "CreateTime", "1048576"],
    "endpoint_type": [1, 2, 3],
    "response_partition_limit": [2000, 2000, 2, 1, 0],
    "member_id": ["", "$member_id.1", "$member_id.1", "$member_id.2", "$member_id.3", "nobody"],
    "group_instance_id": [None, None, None, None, "i"],
    "generation_id": [1, 1, 2, 2, 3, 0, -1],
    "generation_id_or_member_epoch": [1, 2, -1, -1],
    "session_timeout_ms": [10_000, 10_000, 10_000, 5, 100_000_000],
    "rebalance_timeout_ms": [900],
    "protocol_type": ["consumer", "consumer", "consumer", "consumer", "connect"],
    "protocol_name": ["range", "range", "range", None],
    "metadata": ["m", "n"],
    "assignment": ["x", "y", ""],
    "retention_time_ms": [-1, 5],
    "reason": [None, "because"],
    "producer_id": ["$producer_id.1", "$producer_id.2", "$producer_id.3"],
    "producer_epoch": [0, 1, 2, -1],
    "member_epoch": [0, 1, 2, 3, -1, -2],
}
TRANSACTIONAL_IDS = ["~t", "~t", "~t", "~t", "~t", "~t", "~t", "~u", "~u", ""]
ONLY_IN: dict[str, dict[str, list[Any]]] = {
    "transactions": {
        "transactional_id": TRANSACTIONAL_IDS,
        "transaction_timeout_ms": [*(60_000,) * 9, 0, -1, 900_001],
        "key": ["~t", "~u", "~g"],
        "key_type": [0, 1, 1],
        "coordinator_keys": ["~t", "~u", "~g"],
        "state_filters": ["Empty", "Ongoing", "CompleteCommit", "PrepareCommit", "ongoing", "x"],
        "producer_id_filters": ["$producer_id.1", "$producer_id.2", 5],
        "duration_filter": [-1, 0, 3_600_000],
        "transactional_id_pattern": [None, None, ".*", "", "["],
        "isolation_level": [0, 1, 1, 1],
        "session_id": [0],
        "session_epoch": [-1],
        "max_wait_ms": [0],
        "member_id": ["", "", "", "nobody"],
        "generation_id": [-1, -1, -1, 1],
        "generation_id_or_member_epoch": [-1],
        "group_instance_id": [None, None, "i"],
    },
    "consumer groups": {
        "member_id": ["~m", "~m", "~m", "~n", "~n", "~o", ""],
        "instance_id": [None, None, None, None, "i"],
        "group_instance_id": [None, None, None, "i"],
        "subscribed_topic_regex": [None, None, None, None, "", "["],
        "server_assignor": [None, None, None, "uniform", "range", "none"],
        "rebalance_timeout_ms": [45_000, 45_000, 45_000, -1, 0],
        "group_ids": GROUPS,
        "subscribed_topic_names": ["~a", "~b", "~a", "~none"],
        "transactional_id": ["~t"],
        "generation_id": [-1, 0, 1, 2, 3],
        "rack_id": [None, "r", ""],
        "JoinGroup.rebalance_timeout_ms": [900],
        "metadata": [
            {"ConsumerProtocolSubscription v1": {"topics": ["~a"]}},
            {"ConsumerProtocolSubscription v3": {"topics": ["~a", "~b"]}},
        ],
    },
    REPLICAS: {
        "topic": ["~a", "~a", "~b", "~c", "~none"],
        "name": ["~a", "~a", "~b", "~c", "~d", "~e", "~none"],
        "topic_name": ["~a", "~b", "~c", "~none"],
        "num_partitions": [-1],
        "replication_factor": [-1],
        "broker_ids": [1, 2, 3],
        "replicas": [1, 2, 3],
        "partition_index": [0, 0, 0, 1, 2, 7],
        "election_type": [0, 0, 1],
        "value": ["1", "2", "3", "4", None],
        "timeout_ms": [10_000],
        "validate_only": [False, False, False, True],
    },
    "administration": {
        "entity_type": ["user", "client-id", "ip", "x"],
        "entity_name": ["~a", "~b", None, "127.0.0.1"],
        "match_type": [0, 0, 1, 2, 3],
        "match": ["~a", None],
        "key": ["producer_byte_rate", "consumer_byte_rate", "request_percentage", "connection_creation_rate", "x"],
        "election_type": [0, 1, 2],
        "replicas": [1, 1, 2, -1],
        "user": ["~a", "~b", ""],
        "mechanism": [1, 2, 0, 3],
        "SaslHandshake.mechanism": ["PLAIN", ""],
        "iterations": [4096, 8192, 1, 100_000],
        "resource_types": [2, 4, 8, 16, 32, 64],
        "path": ["/nowhere", "x", ""],
        "feature": ["group.version", "transaction.version", "share.version", "x", ""],
        "max_version_level": [0, 1, 2, 3, 99, -1],
        "upgrade_type": [1, 2, 3, 0, 4],
        "broker_id": [7, -1, 1_000],
        "principal": ["User:a", "x"],
        "owner_principal_type": ["User"],
        "owner_principal_name": ["a"],
        "principal_type": ["User"],
        "principal_name": ["a"],
        "max_lifetime_ms": [-1, 1000],
        "resource_type": [2, 3, 4, 0, 99],
        "resource_type_filter": [1, 2, 0, 99],
        "resource_pattern_type": [3, 4, 0],
        "pattern_type_filter": [1, 3, 0],
        "resource_name": ["~a", ""],
        "resource_name_filter": ["~a", None],
        "principal_filter": ["User:a", None],
        "host": ["*", ""],
        "host_filter": [None, "*"],
        "operation": [2, 3, 0, 99],
        "permission_type": [2, 3, 0],
        "value": [1000.0, 0.5, 0.0, -1.0, float(1 << 40)],
        "salt": ["salt"],
        "salted_password": ["password"],
        "timeout_ms": [5000],
    },
}
"""Values of one area, or of one API in it, instead of those above and below."""
SETTINGS_OF_NODES = [
    *("log.retention.ms", "log.retention.hours", "compression.type", "log.cleanup.policy", "log.segment.bytes"),
    *("message.max.bytes", "max.connections.per.ip", "log.cleaner.threads", "background.threads", "node.id"),
    *("retention.ms", "interval.ms", "match", "metrics", "consumer.session.timeout.ms", "nonsense", "root", ""),
    *("consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms", "offsets.retention.minutes"),
    *("log.message.timestamp.type", "unclean.leader.election.enable", "num.partitions", "quota.window.num"),
]
VALUES_OF_NODES = [
    *("1", "5000", "60000", "-1", "gzip", "compact", "delete,compact", "x", "", None, "WARN", "LogAppendTime", "true"),
    *("org.apache.kafka.", "*", "client_id=a", "client_id=[", "3600000", "45000", "0.5", " 7 "),
]
ONLY_IN[MARKERS] = {
    **ONLY_IN["transactions"],
    "producer_epoch": [0, 0, 1, 2, 3, -1],
    "coordinator_epoch": [0, 0, 0, 1, 5, -1],
    "transaction_version": [0, 1, 1, 2, 2],
}
ONLY_IN[RESOURCES] = {
    "resource_type": [4, 4, 4, 16, 16, 32, 8, 2, 0, 64],
    "configuration_keys": SETTINGS_OF_NODES,
    "value": VALUES_OF_NODES,
    "name": SETTINGS_OF_NODES,
}
ONLY_IN[CONTROLLER] = {
    **ONLY_IN["administration"],
    **{f"{api}.resource_type": [2, 2, 4, 4, 16, 32, 8, 0] for api in ("AlterConfigs", "IncrementalAlterConfigs")},
    **{f"{api}.name": SETTINGS_OF_NODES for api in ("AlterConfigs", "IncrementalAlterConfigs")},
    **{f"{api}.value": VALUES_OF_NODES for api in ("AlterConfigs", "IncrementalAlterConfigs")},
    "DescribeConfigs.resource_type": [2, 4, 4, 16, 32, 8, 0],
    "configuration_keys": SETTINGS_OF_NODES,
    "CreateTopics.value": POOLS["value"],
    "cluster_id": [None, None, "wrong"],
    "voter_id": [1, 2, 7, -1],
    "voter_directory_id": ["00000000-0000-0000-0000-000000000009", "00000000-0000-0000-0000-000000000000"],
    "AddRaftVoter.name": ["CONTROLLER"],
    "AddRaftVoter.host": ["127.0.0.1"],
    "port": [9, 0],
    "feature": ["group.version", "transaction.version", "x", ""],
}
LISTS: dict[str, list[Any]] = {
    "transactional_ids": ["~t", "~u", "~none", ""],
    "partition_indexes": [0, 0, 1, 2, -1],
    "partitions": [0, 0, 1, 2, -1],
    "groups_names": GROUPS,
    "groups": GROUPS,
    "coordinator_keys": GROUPS,
    "topic_names": TOPICS,
    "broker_ids": [1],
    "configuration_keys": SETTINGS,
    "states_filter": ["Stable", "empty", "Dead", "CompletingRebalance"],
    "types_filter": ["classic", "consumer"],
}
