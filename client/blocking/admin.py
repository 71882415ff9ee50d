"""The blocking `Admin`: the methods of `minikafka.client.Admin`, each of which waits for its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Unpack

from minikafka.client.admin import admin as async_admin
from minikafka.client.admin.admin_types import (
    ApiVersionRange,
    ClientQuota,
    ClusterDescription,
    ConfigEntry,
    FeaturesDescription,
    GroupDescription,
    GroupListing,
    HangingTransaction,
    LogDirectory,
    NewTopic,
    ProducerState,
    QuorumDescription,
    Reassignment,
    TransactionDescription,
    TransactionListing,
)
from minikafka.client.admin.security_types import Acl, AclFilter, DelegationToken
from minikafka.client.argument_checks import knows_arguments
from minikafka.client.argument_kinds import Int16, Int32, Natural, PartitionArgument
from minikafka.client.arguments import AdminArguments
from minikafka.client.blocking.blocking_client import BlockingClient, documented_as
from minikafka.client.connections.cluster_metadata import Topic
from minikafka.client.connections.seams import Seams
from minikafka.client.offsets import OffsetAndMetadata, OffsetAndTimestamp
from minikafka.client.option_checks import DEFAULT_BOOTSTRAP_SERVERS, BootstrapServers
from minikafka.client.options import IsolationLevel
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition


@knows_arguments()
@documented_as(async_admin.Admin)
class Admin(BlockingClient):
    """`minikafka.client.Admin` with the same arguments and methods, each of which waits for its result."""

    def __init__(
        self,
        bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
        *,
        seams: Seams | None = None,
        **options: Unpack[AdminArguments],
    ) -> None:
        self._admin = async_admin.Admin(bootstrap_servers, seams=seams, **options)
        super().__init__(self._admin)

    def create_topic(
        self,
        name: str,
        *,
        partitions: Int32 = -1,
        replication_factor: Int16 = -1,
        assignments: Mapping[Int32, Sequence[Int32]] | None = None,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        self._wait(
            self._admin.create_topic,
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            assignments=assignments,
            configs=configs,
            validate_only=validate_only,
        )

    def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> dict[str, KafkaError | None]:
        return self._wait(self._admin.create_topics, topics, validate_only=validate_only)

    def delete_topic(self, name: str) -> None:
        self._wait(self._admin.delete_topic, name)

    def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        return self._wait(self._admin.delete_topics, names)

    def list_topics(self, *, include_internal: bool = False) -> list[str]:
        return self._wait(self._admin.list_topics, include_internal=include_internal)

    def describe_topic(self, name: str) -> Topic:
        return self._wait(self._admin.describe_topic, name)

    def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, Topic | KafkaError]:
        return self._wait(self._admin.describe_topics, names)

    def create_partitions(
        self, name: str, total: Int32, *, assignments: Sequence[Sequence[Int32]] | None = None
    ) -> None:
        self._wait(self._admin.create_partitions, name, total, assignments=assignments)

    def describe_configs(
        self, kind: str, name: str, *, keys: Iterable[str] | None = None, synonyms: bool = False
    ) -> dict[str, ConfigEntry]:
        return self._wait(self._admin.describe_configs, kind, name, keys=keys, synonyms=synonyms)

    def describe_topic_configs(
        self, names: Iterable[str], *, keys: Iterable[str] | None = None
    ) -> dict[str, dict[str, ConfigEntry] | KafkaError]:
        return self._wait(self._admin.describe_topic_configs, names, keys=keys)

    def alter_configs(
        self,
        kind: str,
        name: str,
        *,
        set: Mapping[str, str] | None = None,  # noqa: A002 (Kafka's word for it)
        delete: Iterable[str] = (),
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        self._wait(
            self._admin.alter_configs,
            kind,
            name,
            set=set,
            delete=delete,
            append=append,
            subtract=subtract,
            validate_only=validate_only,
        )

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | KafkaError]:
        return self._wait(self._admin.delete_records, before)

    def list_offsets(
        self, times: Mapping[TopicPartition, int], *, isolation_level: IsolationLevel = "read_uncommitted"
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        return self._wait(self._admin.list_offsets, times, isolation_level=isolation_level)

    def list_offsets_of_each(
        self, times: Mapping[TopicPartition, int], *, isolation_level: IsolationLevel = "read_uncommitted"
    ) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
        return self._wait(self._admin.list_offsets_of_each, times, isolation_level=isolation_level)

    def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        return self._wait(self._admin.describe_cluster, include_fenced=include_fenced)

    def describe_api_versions(self, node_id: Int32 | None = None) -> list[ApiVersionRange]:
        return self._wait(self._admin.describe_api_versions, node_id)

    def describe_features(self, node_id: Int32 | None = None) -> FeaturesDescription:
        return self._wait(self._admin.describe_features, node_id)

    def update_features(
        self, levels: Mapping[str, Int16], *, upgrade_type: str = "upgrade", validate_only: bool = False
    ) -> None:
        self._wait(self._admin.update_features, levels, upgrade_type=upgrade_type, validate_only=validate_only)

    def describe_client_quotas(
        self, entity: Mapping[str, str | None] | None = None, *, kinds: Iterable[str] = (), strict: bool = False
    ) -> list[ClientQuota]:
        return self._wait(self._admin.describe_client_quotas, entity, kinds=kinds, strict=strict)

    def alter_client_quotas(
        self,
        entity: Mapping[str, str | None],
        *,
        set: Mapping[str, float] | None = None,  # noqa: A002 (as in `alter_configs`)
        delete: Iterable[str] = (),
        validate_only: bool = False,
    ) -> None:
        self._wait(
            self._admin.alter_client_quotas, entity, set=set, delete=delete, validate_only=validate_only
        )

    def list_config_resources(self, kind: str) -> list[str]:
        return self._wait(self._admin.list_config_resources, kind)

    def describe_log_dirs(self, node_ids: Iterable[Int32] | None = None) -> dict[int, list[LogDirectory]]:
        return self._wait(self._admin.describe_log_dirs, node_ids)

    def list_groups(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        return self._wait(self._admin.list_groups, states=states, types=types)

    def describe_group(self, group_id: str) -> GroupDescription:
        return self._wait(self._admin.describe_group, group_id)

    def delete_group(self, group_id: str) -> None:
        self._wait(self._admin.delete_group, group_id)

    def list_group_offsets(
        self, group_id: str, partitions: Iterable[PartitionArgument] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._wait(self._admin.list_group_offsets, group_id, partitions)

    def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, Natural | OffsetAndMetadata]) -> None:
        self._wait(self._admin.alter_group_offsets, group_id, offsets)

    def elect_leaders(
        self, partitions: Iterable[PartitionArgument] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, KafkaError | None]:
        return self._wait(self._admin.elect_leaders, partitions, unclean=unclean)

    def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[Int32] | None], *, allow_replication_factor_change: bool = True
    ) -> dict[TopicPartition, KafkaError | None]:
        return self._wait(
            self._admin.alter_partition_reassignments,
            targets,
            allow_replication_factor_change=allow_replication_factor_change,
        )

    def list_partition_reassignments(
        self, partitions: Iterable[PartitionArgument] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        return self._wait(self._admin.list_partition_reassignments, partitions)

    def describe_quorum(self) -> QuorumDescription:
        return self._wait(self._admin.describe_quorum)

    def add_raft_voter(
        self, node_id: Int32, directory_id: str, endpoints: Mapping[str, str], *, cluster_id: str | None = None
    ) -> None:
        self._wait(self._admin.add_raft_voter, node_id, directory_id, endpoints, cluster_id=cluster_id)

    def remove_raft_voter(self, node_id: Int32, directory_id: str, *, cluster_id: str | None = None) -> None:
        self._wait(self._admin.remove_raft_voter, node_id, directory_id, cluster_id=cluster_id)

    def unregister_broker(self, node_id: Int32) -> None:
        self._wait(self._admin.unregister_broker, node_id)

    def list_transactions(
        self, *, states: Iterable[str] = (), producer_ids: Iterable[int] = ()
    ) -> list[TransactionListing]:
        return self._wait(self._admin.list_transactions, states=states, producer_ids=producer_ids)

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        return self._wait(self._admin.describe_transaction, transactional_id)

    def describe_producers(self, partition: PartitionArgument) -> list[ProducerState]:
        return self._wait(self._admin.describe_producers, partition)

    def abort_transaction(
        self, partition: PartitionArgument, producer_id: int, producer_epoch: Int16, coordinator_epoch: Int32
    ) -> None:
        self._wait(self._admin.abort_transaction, partition, producer_id, producer_epoch, coordinator_epoch)

    def find_hanging_transactions(
        self, partitions: Iterable[PartitionArgument], *, older_than_ms: Natural = 900_000
    ) -> list[HangingTransaction]:
        return self._wait(self._admin.find_hanging_transactions, partitions, older_than_ms=older_than_ms)

    def describe_acls(self, selected: AclFilter | None = None) -> list[Acl]:
        return self._wait(self._admin.describe_acls, selected)

    def create_acls(self, acls: Iterable[Acl]) -> dict[Acl, KafkaError | None]:
        return self._wait(self._admin.create_acls, acls)

    def delete_acls(self, selected: Iterable[AclFilter]) -> dict[AclFilter, list[Acl] | KafkaError]:
        return self._wait(self._admin.delete_acls, selected)

    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, dict[str, int] | KafkaError]:
        return self._wait(self._admin.describe_user_scram_credentials, users)

    def upsert_user_scram_credential(
        self, user: str, password: str, *, mechanism: str = "SCRAM-SHA-512", iterations: Int32 = 4096
    ) -> None:
        self._wait(
            self._admin.upsert_user_scram_credential, user, password, mechanism=mechanism, iterations=iterations
        )

    def delete_user_scram_credential(self, user: str, *, mechanism: str = "SCRAM-SHA-512") -> None:
        self._wait(self._admin.delete_user_scram_credential, user, mechanism=mechanism)

    def create_delegation_token(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int = -1
    ) -> DelegationToken:
        return self._wait(
            self._admin.create_delegation_token, owner=owner, renewers=renewers, max_lifetime_ms=max_lifetime_ms
        )

    def describe_delegation_tokens(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        return self._wait(self._admin.describe_delegation_tokens, owners)

    def renew_delegation_token(self, hmac: bytes, *, period_ms: int = -1) -> int:
        return self._wait(self._admin.renew_delegation_token, hmac, period_ms=period_ms)

    def expire_delegation_token(self, hmac: bytes, *, period_ms: int = -1) -> int:
        return self._wait(self._admin.expire_delegation_token, hmac, period_ms=period_ms)
