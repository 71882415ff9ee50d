"""Coordinators: state machines whose memory is an internal topic.

A coordinator *decides* from its state, which is pure; its runtime *appends* the records of the decision to
the partition of the internal topic that the key belongs to, *applies* them to the state, and answers once
they are committed. What a new leader needs to go on, it reads from the log, by the same `apply`.

    decision.py   Decision: records, replies, and what follows
    deadlines.py  when what is due
    runtime.py    shards: load, decide, append, apply, answer, unload; the only file here that waits
    errors.py     what clients are told when the log makes trouble
    groups/       consumer groups and their offsets, in `__consumer_offsets`

A node implements `runtime.Environment`, calls `elected` and `resigned` as leadership of the partitions comes
and goes, and hands requests to `groups.coordinator.GroupCoordinator`.

Caveats: an operation's records are one batch, all or none; a batch greater than the topic's max.message.bytes
is refused as a whole. There is no linger: every decision is a batch of its own
(group.coordinator.append.linger.ms is not acted on).
"""
