"""The admin client's public class: the table of its methods, each a function of a file beside it.

    async with Admin(bootstrap_servers="localhost:9092") as admin:
        await admin.create_topic("flights", partitions=6, configs={"retention.ms": "3600000"})

A method for a single resource raises its KafkaError. A method for several returns a result or a KafkaError for each, as
some may fail while others succeed.
"""

from __future__ import annotations

from typing import Unpack

from minikafka.client.admin import (
    admin_cluster,
    admin_configs,
    admin_groups,
    admin_records,
    admin_replicas,
    admin_security,
    admin_topics,
    admin_transactions,
)
from minikafka.client.argument_checks import checks_arguments
from minikafka.client.arguments import AdminArguments
from minikafka.client.connections.base_client import ClusterClient
from minikafka.client.connections.seams import Seams
from minikafka.client.option_checks import DEFAULT_BOOTSTRAP_SERVERS, BootstrapServers
from minikafka.client.options import AdminOptions, make


@checks_arguments()
class Admin(ClusterClient):
    """Manages topics, configs, groups and the cluster.

    Args:
        bootstrap_servers: "host1:9092,host2:9092", or a list of such addresses.
        options: Kafka's admin settings with underscores, each described in `AdminArguments`: request_timeout_ms …
        seams: clock, randomness and network, for tests.

    Every method retries after retriable errors for `default_api_timeout_ms`, then raises or returns them. An
    UnknownTopicOrPartitionError about a topic, and a broker's RequestTimedOutError, are raised or returned at once;
    but methods that ask the leaders of partitions (records, offsets, producers, transactions of a partition) wait for
    an unknown topic or partition as for any other error that may pass.
    Cancellation: a request that was sent is not withdrawn.
    """

    def __init__(
        self,
        bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
        *,
        seams: Seams | None = None,
        **options: Unpack[AdminArguments],
    ) -> None:
        super().__init__(make(AdminOptions, {**options, "bootstrap_servers": bootstrap_servers}, "Admin"), seams)

    # Topics.
    create_topic = admin_topics.create_topic
    create_topics = admin_topics.create_topics
    delete_topic = admin_topics.delete_topic
    delete_topics = admin_topics.delete_topics
    list_topics = admin_topics.list_topics
    describe_topic = admin_topics.describe_topic
    describe_topics = admin_topics.describe_topics
    create_partitions = admin_topics.create_partitions

    # Configs.
    describe_configs = admin_configs.describe_configs
    describe_topic_configs = admin_configs.describe_topic_configs
    alter_configs = admin_configs.alter_configs
    list_config_resources = admin_configs.list_config_resources

    # Records and offsets.
    delete_records = admin_records.delete_records
    list_offsets = admin_records.list_offsets
    list_offsets_of_each = admin_records.list_offsets_of_each

    # Groups.
    list_groups = admin_groups.list_groups
    describe_group = admin_groups.describe_group
    delete_group = admin_groups.delete_group
    list_group_offsets = admin_groups.list_group_offsets
    alter_group_offsets = admin_groups.alter_group_offsets

    # Transactions.
    list_transactions = admin_transactions.list_transactions
    describe_transaction = admin_transactions.describe_transaction
    describe_producers = admin_transactions.describe_producers
    abort_transaction = admin_transactions.abort_transaction
    find_hanging_transactions = admin_transactions.find_hanging_transactions

    # Replicas and nodes.
    elect_leaders = admin_replicas.elect_leaders
    alter_partition_reassignments = admin_replicas.alter_partition_reassignments
    list_partition_reassignments = admin_replicas.list_partition_reassignments
    describe_quorum = admin_replicas.describe_quorum
    add_raft_voter = admin_replicas.add_raft_voter
    remove_raft_voter = admin_replicas.remove_raft_voter
    unregister_broker = admin_replicas.unregister_broker

    # The cluster.
    describe_cluster = admin_cluster.describe_cluster
    describe_log_dirs = admin_cluster.describe_log_dirs
    describe_api_versions = admin_cluster.describe_api_versions
    describe_features = admin_cluster.describe_features
    update_features = admin_cluster.update_features
    describe_client_quotas = admin_cluster.describe_client_quotas
    alter_client_quotas = admin_cluster.alter_client_quotas

    # Security.
    describe_acls = admin_security.describe_acls
    create_acls = admin_security.create_acls
    delete_acls = admin_security.delete_acls
    describe_user_scram_credentials = admin_security.describe_user_scram_credentials
    upsert_user_scram_credential = admin_security.upsert_user_scram_credential
    delete_user_scram_credential = admin_security.delete_user_scram_credential
    create_delegation_token = admin_security.create_delegation_token
    describe_delegation_tokens = admin_security.describe_delegation_tokens
    renew_delegation_token = admin_security.renew_delegation_token
    expire_delegation_token = admin_security.expire_delegation_token
