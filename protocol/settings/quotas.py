"""Client quotas (of a user or client id) and replication throttles (of a node, KIP-73), which are set dynamically."""

from minikafka.protocol.settings.bounds import at_least
from minikafka.protocol.settings.declaration import CLUSTER_WIDE, MEDIUM, Setting
from minikafka.protocol.settings.value_types import DOUBLE, LONG, LONG_MAX

QUOTA_SETTINGS: tuple[Setting, ...] = (
    Setting("consumer_byte_rate", LONG, LONG_MAX, None, MEDIUM, "",
            "Bytes a second that a client may fetch."),
    Setting("controller_mutation_rate", DOUBLE, 2147483647.0, None, MEDIUM, "",
            "Partitions a second that a client may create or delete."),
    Setting("producer_byte_rate", LONG, LONG_MAX, None, MEDIUM, "",
            "Bytes a second that a client may produce."),
    Setting("request_percentage", DOUBLE, 2147483647.0, None, MEDIUM, "",
            "Share of a thread's time that a client's requests may take, in percent."),
)

THROTTLE_SETTINGS: tuple[Setting, ...] = (
    Setting("follower.replication.throttled.rate", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
            "Bytes a second that a broker takes for throttled replicas that are behind.", acted_on=True),
    Setting("leader.replication.throttled.rate", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
            "Bytes a second that a broker sends to throttled replicas that are not in sync.", acted_on=True),
    Setting("replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
            "Bytes a second that are moved between log directories."),
)
