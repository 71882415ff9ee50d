"""Consumer groups of the new protocol (KIP-848): the coordinator assigns the partitions.

A member sends ConsumerGroupHeartbeat with what it subscribes to. The group epoch increases with each change of the
members, their subscriptions or the topics. An assignor computes the target assignment of that epoch from the one
before. Each member is told what to revoke, confirms it, and then receives what the others have released.

    assignors.py              `assign`: the uniform and the range assignor
    balanced_assignment.py    the uniform assignor for members with different subscriptions
    java_order.py             the iteration order of Java's hash tables, on which Kafka's assignments depend
    topic_hash.py             the hash by which a change of the subscribed topics is noticed
    subscription_pattern.py   subscriptions by regular expression

Caveats: the assignors ignore racks, as those of Kafka 4.3 do.
"""
