"""The handlers of requests: one module for each API, with the name of its message.

A module declares the request (`REQUEST`), the supported versions (`VERSIONS`, which ApiVersions advertises) and `async
def handle(request, context) -> response`. It names the parts of the node that it uses by the type of its context,
`RequestContext[GroupService]`. A handler raises a `KafkaError` if the whole request fails; an error of one topic or
partition is a value in the response.

To add an API: its messages, and their pair in `PAIRS` of `protocol/messages/__init__.py`; its module here, and a line
in `handler_table.py`; for a new part of the node, a Protocol in `services.py`, made in `node/broker_parts.py`. What the
client may do is checked by `authorization.check_cluster` and others; an error that a handler raises is answered by
`connections/refusals.py`. An API that the controller carries out has a line in `forwarded.py` instead of a module, and
its decision in `controller/decisions/` (`request_table.py`, `access_checks.py`). Tests ask for a row for each API:
`authorization_requests.txt` with the answers of Apache Kafka, and `CASES` of `test_repeats.py` if it describes what it
names.

    handler_table.py           all handlers
    authorization.py           checks of what a client may do that several handlers share
    services.py                the parts of a node that handlers use: `Services`, and Protocols for those of one handler
    usual_produce.py           answers the usual small Produce from its bytes
    produce_in_transaction.py  verifies transactional batches with the transaction coordinator
    fetch_response.py          builds responses to Fetch
    fetch_access.py            what the client of a Fetch may read
    merged_topics.py           merges topics into one list in a response
    repeats.py                 bounds what a response repeats when its request repeats names
    cluster_answers.py         brokers, topics and leaders as Metadata and others return them
    quorum_state.py            the quorum of the metadata log, for DescribeQuorum
    alter_configs.py           AlterConfigs and IncrementalAlterConfigs: checks stores of keys, and forwards
    forwarded.py               APIs that the controller carries out
    at_controllers.py          the APIs of the controller listener
    raft_voters.py             changes of the quorum's voters
    acls.py                    CreateAcls, DeleteAcls, DescribeAcls, at brokers and controllers
    delegation_tokens.py       the four APIs of delegation tokens, at brokers and controllers
    without_security.py        SASL: the responses of a Kafka broker without security

    produce, fetch, list_offsets, offset_for_leader_epoch, delete_records         records
    api_versions, metadata, describe_cluster, describe_topic_partitions           the cluster
    describe_configs, describe_log_dirs, describe_producers, describe_quorum      administration
    alter_replica_log_dirs                                                        moves between data directories
    find_coordinator, join_group, sync_group, heartbeat, leave_group              members of a classic group
    offset_commit, offset_fetch, offset_delete                                    committed offsets
    list_groups, describe_groups, delete_groups                                   administration of groups
    init_producer_id                                                              idempotent and transactional producers
    add_partitions_to_txn, add_offsets_to_txn, txn_offset_commit, end_txn         transactions
    write_txn_markers                                                             between brokers: how transactions end
    list_transactions, describe_transactions                                      administration of transactions
    consumer_group_heartbeat, consumer_group_describe                             consumer groups
    get_telemetry_subscriptions, push_telemetry                                   advertised with `metrics.listener`

*Caveats*: no share groups and no streams groups; their APIs are not advertised. The controller listener advertises the
same APIs as Kafka's, including those by which Kafka's controllers talk to each other; requests of the latter are
refused. A controller validates the dynamic configs of brokers, while a controller of Kafka takes any value.
"""
