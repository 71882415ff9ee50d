"""The APIs of a node: one module each, of the same name as the message's and the test's.

A module says which request it takes (`REQUEST`), which versions of it are honoured (`VERSIONS`, which is what
ApiVersions advertises), and how: `async def handle(request, context) -> response`. A handler that raises a `KafkaError`
has refused the whole request; what concerns one topic or partition is a value in the answer. APIs without logic of
their own here stand in two tables: `forwarded` (the controller decides) and `without_security` (refusals).

Caveats: no transactions, no consumer groups of KIP-848, no share groups, no telemetry; they are not advertised.
"""

from typing import Any

from minikafka.broker.apis import (
    api_versions,
    consumer_group_heartbeat,
    delete_groups,
    delete_records,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    forwarded,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    push_telemetry,
    sync_group,
    without_security,
)

HANDLERS: list[Any] = [
    api_versions,
    consumer_group_heartbeat,
    delete_groups,
    delete_records,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    push_telemetry,
    sync_group,
    *forwarded.modules(),
    *without_security.modules(),
]
"""Everything with `REQUEST`, `VERSIONS` and `handle`."""
