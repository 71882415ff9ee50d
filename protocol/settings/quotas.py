"""Client quotas (of a user or client id) and replication throttles (of a node, KIP-73), which are set dynamically."""

from minikafka.protocol.settings.bounds import at_least
from minikafka.protocol.settings.declaration import CLUSTER_WIDE, MEDIUM, Setting
from minikafka.protocol.settings.value_types import DOUBLE, LONG, LONG_MAX

QUOTA_SETTINGS: tuple[Setting, ...] = (
    Setting("consumer_byte_rate", LONG, LONG_MAX, None, MEDIUM, "",
            "Maximum rate at which a client may fetch, in bytes per second."),
    Setting("controller_mutation_rate", DOUBLE, 2147483647.0, None, MEDIUM, "",
            "Maximum rate at which a client may create or delete partitions, per second."),
    Setting("producer_byte_rate", LONG, LONG_MAX, None, MEDIUM, "",
            "Maximum rate at which a client may produce, in bytes per second."),
    Setting("request_percentage", DOUBLE, 2147483647.0, None, MEDIUM, "",
            "Maximum share of a network or I/O thread's time that the requests of a client may use, in percent."),
)

THROTTLE_SETTINGS: tuple[Setting, ...] = (
    Setting("follower.replication.throttled.rate", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
            "Maximum rate of replication of throttled replicas on the follower side, in bytes per second.",
            supported=True),
    Setting("leader.replication.throttled.rate", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
            "Maximum rate of replication of throttled replicas on the leader side, in bytes per second.",
            supported=True),
    Setting("replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
            "Maximum rate of moves between log directories, in bytes per second.", supported=True),
)
