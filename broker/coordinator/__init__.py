"""Coordinators: state machines that store their state in an internal topic.

A coordinator makes a *decision* from its state without waiting. Its runtime *appends* the records of the decision to
a partition of the internal topic, *applies* them to the state, and responds once they are committed. A new leader of
the partition rebuilds the state from the log with the same `apply`. The present leader does so, too, if a bug has left
the log and the state different. A deadline that concerns very many groups or transactions leads to several decisions,
so that other operations run between them.

    coordinator_parts.py    CoordinatorParts: creates and connects the coordinators of a node
    coordinator_lookup.py   finds the coordinator of a group or a transactional id
    refused_topics.py       the topics that could not be made on demand, so that each reason is logged once
    decision.py             Decision: records, replies and the next step
    deadlines.py            Deadlines: named deadlines in a heap
    runtime.py              CoordinatorRuntime: load, decide, append, apply, respond, unload
    shard.py                Shard: the coordinator of one partition, and its pending replies
    timer.py                Timer: fires the deadlines of a shard one by one
    replay.py               replays the log of a partition into its state, in steps (pure)
    environment.py          Environment: the services that the runtime needs from its node
    error_mapping.py        maps errors of the log to errors of the coordinator
    java_hash.py            string_hash: Java's hash of a text, which decides the partition of a key
    internal_topic.py       InternalTopic: the runtime's access to the partitions of an internal topic
    groups/                 consumer groups and their offsets
    transactions/           producers with transactional ids

A node implements `environment.Environment`, calls `elected` and `resigned` when leadership of the partitions changes,
and passes requests to `groups.group_coordinator.GroupCoordinator`.

*Caveats:* the records of one operation are one batch, written all or none; a batch above the topic's
max.message.bytes is refused. Every decision is a batch of its own (group.coordinator.append.linger.ms has no effect).
"""
