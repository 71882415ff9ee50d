"""Consumer groups: members, rebalances and committed offsets, stored in `__consumer_offsets`.

The group coordinator keeps the groups whose partition of `__consumer_offsets` this node leads. A request goes from the
API handler to `group_coordinator.py`, which picks the partition and has the runtime make a decision: a function in
`classic/`, `consumer/` or `offsets/` reads the state and collects records and replies in a `DecisionBuilder`. The
runtime appends the records, applies them to the state, and sends the replies once they are committed.

One generation of a classic group: a member sends JoinGroup (`classic/classic_join.py`) and waits. The other members
are notified by their heartbeats (`classic/heartbeat_and_leave.py`) and join again. When all have joined, or
the rebalance timeout has passed, the join phase completes (`classic/rebalance.py`): a protocol that all members support
is selected, a new generation begins, and the leader receives the list of members. The leader sends the assignment with
SyncGroup (`classic/classic_sync.py`); once that is in the log, each member receives its part.

    group_coordinator.py    GroupCoordinator: the entry point of the API handlers
    classic_requests.py     requests of the classic protocol, to groups of either protocol
    group_shard.py          GroupShard: one partition's state machine; loading and deadlines
    decision_builder.py     DecisionBuilder: records and replies of one decision
    group_admin.py          ListGroups, DescribeGroups, DeleteGroups
    group_settings.py       the settings that the coordinator uses
    members_room.py         bounds the memory for data of group members
    classic/                classic groups: join, sync, heartbeat, leave, rebalance
    consumer/               consumer groups (KIP-848): heartbeat, target assignment, reconciliation
    offsets/                commit, fetch, delete and expiry of offsets
    state/                  groups, members, offsets and their records

A group has one of two protocols. `state/group.py` declares the operations that offsets, expiry, listing and deletion
need of a group of either protocol.

Records, by key: `(group, topic, partition)` → offset, leader epoch, metadata, time, topic id; `group` → protocol type,
generation, protocol, leader, time of the last change, members with subscription and assignment. A group's record is
written when the group is created, when a generation receives its assignment, when a static member changes its id, and
when the group becomes Empty. Kafka's dump tool reads these records, and this package reads Kafka's.

The records of consumer groups are in `state/consumer_group_records.py`.

Caveats: share groups and streams groups are not supported; their records are skipped.

Waiting requests, pending member ids and deadlines are not in the log, as in Kafka: after a change of
coordinator, members join again, and only the selected protocol is known until they do. If the leader leaves, the oldest
remaining member becomes leader; in Kafka that depends on the hashes of member ids, which are random.

A JoinGroup with an unknown member id removes an empty consumer group from memory, as in Kafka, and not from the log:
`ShardState.forget`.

Four responses differ from Kafka 4.3: see DECISIONS.md, 14.
"""
