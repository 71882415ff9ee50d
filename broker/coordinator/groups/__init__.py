"""Classic consumer groups: who is a member, who reads what, and how far they have read.

The life of a generation. A member sends JoinGroup (`joining`) and waits; others learn of the rebalance by
their heartbeats (`leaving`) and join again; when all have, or time is up, the join phase completes
(`rebalancing`): a protocol that all know is chosen, a new generation begins, and one of them, the leader, is
told of all. It brings the assignment with SyncGroup (`syncing`); only when that is in the log does anybody
get his part. Offsets are committed, fetched, deleted and expire in `committing`; `administering` lists,
describes and deletes.

    states.py      the transition table
    group.py       ClassicGroup: members, protocols, generation; `install` takes over what a record says
    member.py      Member, and what requests and records say of one
    offsets.py     the table of committed offsets, those of open transactions apart
    records.py     keys and values of `__consumer_offsets`
    turn.py        one decision in the making: what every step is handed
    state.py       GroupsState: groups, offsets and deadlines of one partition; `apply` changes it
    coordinator.py GroupCoordinator: what the API handlers call

In the log stand, by key: `(group, topic, partition)` → offset, leader epoch, metadata, time, topic id;
`group` → protocol type, generation, protocol, leader, time of the last change, members with subscription and
assignment. A group is written when it is founded, when a generation gets its assignment, when a static member
changes its id, and when it becomes Empty. Kafka's own dump tool reads these records, and this package reads
Kafka's.

Caveats: groups of the new protocol (KIP-848), share and streams groups are not coordinated; their records are
passed over. Who waits, ids that were handed out and deadlines are not in the log, as in Kafka: after a change
of coordinator members join again, and of protocols only the chosen one is known until they do. Of protocols
with equally many votes, the one voted for first wins, and of equal members the oldest leads next, where Kafka
leaves both to the order of a hash table. Four answers are given where Kafka 4.3 gives none, or one that says
nothing: see DECISIONS.md.
"""
