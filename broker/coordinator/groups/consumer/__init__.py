"""Consumer groups of the new protocol (KIP-848): the coordinator assigns the partitions.

A member sends ConsumerGroupHeartbeat with what it subscribes to. The group epoch increases with each change of the
members, their subscriptions or the topics. An assignor computes the target assignment of that epoch from the one
before. Each member is told what to revoke, confirms it, and then receives what the others have released.

    consumer_heartbeat.py     ConsumerGroupHeartbeat: the decision, step by step
    membership.py             who sends it: dynamic and static members, epochs, fencing
    subscription_changes.py   subscriptions, regular expressions, the group epoch
    subscribed_topics.py      the topics of a group in the cluster's metadata
    target_assignment.py      the target assignment of a group epoch
    current_assignment.py     `reconcile`: a member's next step towards its target
    leaving.py                members that leave, and timeouts
    classic_members.py        requests of the classic protocol to consumer groups
    classic_protocol.py       subscriptions and assignments of classic consumers
    migration.py              groups with members that change their protocol
    consumer_description.py   ConsumerGroupDescribe
    record_writing.py         the records of a decision
    subscription_pattern.py   regular expressions over topic names
    topic_hash.py             the hash of topics by which a change is noticed
    assignors.py              `assign`: the uniform and the range assignor
    balanced_assignment.py    the uniform assignor for members with different subscriptions

A decision is made on the members as they are and on the one that sent the heartbeat as it will be: records are applied
only after it. A group reacts to new, grown and deleted topics with the next heartbeat of any of its members.

Caveats: heartbeats of classic members compute no target, as in Kafka. If they remain alone and the group may not become
a classic one (policy `upgrade`), the partitions of those who have left have no reader until one of them joins again.

The assignors ignore racks, as those of Kafka 4.3 do. A change of racks alone is noticed only with the next
change of members, subscriptions or topics.
"""
