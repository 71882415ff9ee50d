"""The request and response of every API, one module per API, with the same name as in `broker/apis/`; `PAIRS`,
in `__init__.py`, lists them all.

Classes, fields and versions are those of Apache Kafka 4.3, with names in snake_case; the docstring of a module lists
what each version added. Three modules contain messages that are not requests: `consumer_protocol` (metadata and
assignments of classic groups), `group_records` and `transaction_records` (the records of the coordinators' topics).

A field without a default must be given, so that null and empty, which differ in meaning, are chosen explicitly
(``topics`` of a Metadata request, ``error_message`` of many responses).

Caveats:
    * Where a module has two structs of one name with different fields (DescribeQuorum, AlterClientQuotas, the consumer
      protocol), ours have a prefix: ``RequestTopicData``, ``ResponseTopicData``, ``SubscriptionTopicPartition``.
    * The APIs between Kafka's brokers and controllers are served at the controller listener; our own nodes send
      registration, heartbeats, AlterPartition, AssignReplicasToDirs and AllocateProducerIds in frames of their own.
      Share groups and streams groups are missing.
"""

from __future__ import annotations

from minikafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from minikafka.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from minikafka.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from minikafka.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from minikafka.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from minikafka.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from minikafka.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from minikafka.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from minikafka.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from minikafka.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from minikafka.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from minikafka.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from minikafka.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from minikafka.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from minikafka.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from minikafka.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from minikafka.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from minikafka.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from minikafka.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from minikafka.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from minikafka.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from minikafka.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from minikafka.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from minikafka.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from minikafka.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from minikafka.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from minikafka.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from minikafka.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from minikafka.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from minikafka.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from minikafka.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from minikafka.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from minikafka.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from minikafka.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from minikafka.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from minikafka.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from minikafka.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from minikafka.protocol.messages.fetch import FetchRequest, FetchResponse
from minikafka.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from minikafka.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from minikafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from minikafka.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from minikafka.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from minikafka.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from minikafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from minikafka.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from minikafka.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from minikafka.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from minikafka.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from minikafka.protocol.messages.produce import ProduceRequest, ProduceResponse
from minikafka.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from minikafka.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from minikafka.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from minikafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from minikafka.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from minikafka.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from minikafka.protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from minikafka.protocol.messages.vote import VoteRequest, VoteResponse
from minikafka.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

PAIRS = (
    (VoteRequest, VoteResponse),
    (BeginQuorumEpochRequest, BeginQuorumEpochResponse),
    (EndQuorumEpochRequest, EndQuorumEpochResponse),
    (EnvelopeRequest, EnvelopeResponse),
    (FetchSnapshotRequest, FetchSnapshotResponse),
    (ControllerRegistrationRequest, ControllerRegistrationResponse),
    (AddRaftVoterRequest, AddRaftVoterResponse),
    (RemoveRaftVoterRequest, RemoveRaftVoterResponse),
    (UpdateRaftVoterRequest, UpdateRaftVoterResponse),
    (AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
    (AddPartitionsToTxnRequest, AddPartitionsToTxnResponse),
    (AllocateProducerIdsRequest, AllocateProducerIdsResponse),
    (AlterClientQuotasRequest, AlterClientQuotasResponse),
    (AlterConfigsRequest, AlterConfigsResponse),
    (AlterPartitionRequest, AlterPartitionResponse),
    (AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse),
    (AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse),
    (AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse),
    (ApiVersionsRequest, ApiVersionsResponse),
    (AssignReplicasToDirsRequest, AssignReplicasToDirsResponse),
    (BrokerHeartbeatRequest, BrokerHeartbeatResponse),
    (BrokerRegistrationRequest, BrokerRegistrationResponse),
    (ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
    (ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
    (CreateAclsRequest, CreateAclsResponse),
    (CreateDelegationTokenRequest, CreateDelegationTokenResponse),
    (CreatePartitionsRequest, CreatePartitionsResponse),
    (CreateTopicsRequest, CreateTopicsResponse),
    (DeleteAclsRequest, DeleteAclsResponse),
    (DeleteGroupsRequest, DeleteGroupsResponse),
    (DeleteRecordsRequest, DeleteRecordsResponse),
    (DeleteTopicsRequest, DeleteTopicsResponse),
    (DescribeAclsRequest, DescribeAclsResponse),
    (DescribeClientQuotasRequest, DescribeClientQuotasResponse),
    (DescribeClusterRequest, DescribeClusterResponse),
    (DescribeConfigsRequest, DescribeConfigsResponse),
    (DescribeDelegationTokenRequest, DescribeDelegationTokenResponse),
    (DescribeGroupsRequest, DescribeGroupsResponse),
    (DescribeLogDirsRequest, DescribeLogDirsResponse),
    (DescribeProducersRequest, DescribeProducersResponse),
    (DescribeQuorumRequest, DescribeQuorumResponse),
    (DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
    (DescribeTransactionsRequest, DescribeTransactionsResponse),
    (DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse),
    (ElectLeadersRequest, ElectLeadersResponse),
    (EndTxnRequest, EndTxnResponse),
    (ExpireDelegationTokenRequest, ExpireDelegationTokenResponse),
    (FetchRequest, FetchResponse),
    (FindCoordinatorRequest, FindCoordinatorResponse),
    (GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse),
    (HeartbeatRequest, HeartbeatResponse),
    (IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
    (InitProducerIdRequest, InitProducerIdResponse),
    (JoinGroupRequest, JoinGroupResponse),
    (LeaveGroupRequest, LeaveGroupResponse),
    (ListConfigResourcesRequest, ListConfigResourcesResponse),
    (ListGroupsRequest, ListGroupsResponse),
    (ListOffsetsRequest, ListOffsetsResponse),
    (ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse),
    (ListTransactionsRequest, ListTransactionsResponse),
    (MetadataRequest, MetadataResponse),
    (OffsetCommitRequest, OffsetCommitResponse),
    (OffsetDeleteRequest, OffsetDeleteResponse),
    (OffsetFetchRequest, OffsetFetchResponse),
    (OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    (ProduceRequest, ProduceResponse),
    (PushTelemetryRequest, PushTelemetryResponse),
    (RenewDelegationTokenRequest, RenewDelegationTokenResponse),
    (SaslAuthenticateRequest, SaslAuthenticateResponse),
    (SaslHandshakeRequest, SaslHandshakeResponse),
    (SyncGroupRequest, SyncGroupResponse),
    (TxnOffsetCommitRequest, TxnOffsetCommitResponse),
    (UnregisterBrokerRequest, UnregisterBrokerResponse),
    (UpdateFeaturesRequest, UpdateFeaturesResponse),
    (WriteTxnMarkersRequest, WriteTxnMarkersResponse),
)
"""The request and response of every API."""
