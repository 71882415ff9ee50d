"""The decisions of the active controller: pure functions from image and request to records and reply.

A decision reads the image and returns a `Decision`: the records to append to the metadata log, and the reply to send
once they are committed. It has no side effects and does not wait. A request that changes the cluster has a module with
`decide(image, request, context)`; a request that only reads has `describe`. Checks are in Apache Kafka's order, which
determines the error that a client gets, and error messages to clients are Kafka's.

A module whose requests may name many partitions or resources also has a generator `deciding`, which makes the same
decision as `decide`, but in steps. Other tasks run where the generator yields, but none changes the image. Broker
sessions may change between the steps, so a decision reads each session once.

The path of an AlterPartition request::

    request_table.py          finds `alter_partition.decide` by the type of the request
    alter_partition.py        validates epochs and the requested ISR, and states the target of the partition
    partition_changes.py      turns the target into one record, in four steps:
    reassignment_completion.py      completes a reassignment
    eligible_leader_replicas.py     updates the eligible leader replicas and the last known leader
    leader_election.py              elects the leader
    decision.py               records and reply; the caller appends, commits and applies the records

The files::

    decision.py                     Decision, Context (the inputs besides image and request), the limit of records
    request_table.py                request type to function
    forwarding_rules.py             the part of a request that the receiving node answers, and the part it forwards

    alter_partition.py              AlterPartition: a leader changes the ISR
    partition_changes.py            the record that takes a partition to its target, for every cause of a change
    leader_election.py              clean, preferred and unclean elections; whether a topic allows unclean election
    eligible_leader_replicas.py     ELR (KIP-966) and last known leader
    elect_leaders.py                ElectLeaders: elections on request
    leader_balancing.py             elections on a timer: preferred leaders, leaderless partitions
    alter_partition_reassignments.py  AlterPartitionReassignments: starts, replaces, cancels
    reassignment_completion.py      completes a reassignment once the added replicas are in sync
    list_partition_reassignments.py ListPartitionReassignments

    broker_registration.py          BrokerRegistration: broker epochs, duplicate node ids, unclean shutdowns
    broker_heartbeat.py             BrokerHeartbeat: unfencing, fencing, controlled shutdown
    broker_sessions.py              last contact and applied offset of each broker; when a session expires
    assign_replicas_to_dirs.py      AssignReplicasToDirs: brokers report the data directories of their replicas
    directory_failures.py           failed data directories, which heartbeats name
    broker_fencing.py               fencing after a session timeout; leaving all ISRs, for every cause
    unregister_broker.py            UnregisterBroker
    bootstrap_records.py            the first records of a new cluster

    create_topics.py                CreateTopics
    create_partitions.py            CreatePartitions
    delete_topics.py                DeleteTopics
    replica_placement.py            automatic placement of replicas over racks and brokers
    manual_assignments.py           validation of assignments in requests; the record of a new partition

    alter_configs.py                AlterConfigs
    incremental_alter_configs.py    IncrementalAlterConfigs
    config_changes.py               both: operations on configs, validation by resource type, records
    topic_config_validation.py      topic configs
    broker_config_validation.py     dynamic broker configs
    group_config_validation.py      group configs
    client_metrics_config_validation.py  client metrics subscriptions
    broker_config_rules.py          rules between the config values of one broker
    log_levels.py                   log levels of a node
    list_config_resources.py        ListConfigResources

    client_quotas.py                AlterClientQuotas, DescribeClientQuotas
    acls.py                         CreateAcls, DeleteAcls, DescribeAcls
    delegation_tokens.py            CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken; what clients see
    access_checks.py                the operation on the cluster that a request needs as a whole
    scram_credentials.py            AlterUserScramCredentials, DescribeUserScramCredentials
    update_features.py              UpdateFeatures
    allocate_producer_ids.py        AllocateProducerIds
    producer_id_blocks.py           the next block of producer ids

*Caveats*

- Eligible leader replicas (KIP-966) are always enabled: eligible.leader.replicas.version is 1, and a cluster below
  metadata.version 23 (4.0-IV1) is refused at start.
- Of Kafka's features share.version and streams.version are missing, so that `kafka-features upgrade --release-version`
  fails; `--metadata` and `--feature` work. They can be switched off, which changes nothing.
- An eligible leader replica is elected only if no member of the ISR can lead, and it is then the only member of the
  ISR.
- There is no leader recovery state: after an unclean election the leader counts as recovered.
- A decision that would need more than 10,000 records is split if the caller can repeat it (fencing, heartbeats,
  registrations), and rejected as a whole otherwise.
"""
