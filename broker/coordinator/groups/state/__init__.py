"""The state of a group coordinator's shard, and the records that change it. This package makes no decisions.

    shard_state.py             ShardState: groups, offsets and deadlines of one partition; `apply` changes it
    classic_group.py           ClassicGroup: members, protocols, generation
    classic_member.py          Member: one member, as requests and records describe it
    classic_subscriptions.py   the topics that the members of a classic group subscribe to
    classic_group_states.py    the states of a classic group and the transitions between them
    group.py                   Group: what both kinds of groups have in common
    consumer_group.py          ConsumerGroup: epochs, members, target and current assignments
    consumer_member.py         ConsumerMember: one member of a consumer group
    consumer_group_records.py  keys and values of the records of consumer groups
    subscriber_counts.py       SubscriberCounts: the number of members that subscribe to each topic
    offset_table.py            OffsetTable: committed offsets, and the offsets of open transactions
    java_order.py              the iteration order of Java's hash tables, on which Kafka's choices depend
    group_records.py           keys and values of `__consumer_offsets`
"""
