"""Node settings of replication between brokers: fetching, in-sync replicas, replication quotas."""

from minikafka.protocol.settings.bounds import at_least
from minikafka.protocol.settings.declaration import CLUSTER_WIDE, HIGH, LOW, MEDIUM, READ_ONLY, Setting
from minikafka.protocol.settings.value_types import BOOLEAN, INT, LONG, STRING

SETTINGS: tuple[Setting, ...] = (
    Setting("alter.log.dirs.replication.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
            "Samples kept for the quota on moves between log directories."),
    Setting("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
            "Length of one sample of the quota on moves between log directories."),
    Setting("follower.fetch.last.tiered.offset.enable", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
            "Whether a new follower starts at the last offset in remote storage."),
    Setting("num.replica.alter.log.dirs.threads", INT, None, None, HIGH, READ_ONLY,
            "Threads that move replicas between log directories."),
    Setting("num.replica.fetchers", INT, 1, at_least(1), HIGH, CLUSTER_WIDE,
            "Connections a follower fetches over from each leader."),
    Setting("replica.fetch.backoff.ms", INT, 1_000, at_least(0), MEDIUM, READ_ONLY,
            "Pause of a follower after an error.", acted_on=True),
    Setting("replica.fetch.max.bytes", INT, 1_048_576, at_least(0), MEDIUM, READ_ONLY,
            "Bytes a follower asks for from each partition.", acted_on=True),
    Setting("replica.fetch.min.bytes", INT, 1, None, HIGH, READ_ONLY,
            "Bytes a leader collects before it answers a follower.", acted_on=True),
    Setting("replica.fetch.response.max.bytes", INT, 10_485_760, at_least(0), MEDIUM, READ_ONLY,
            "Bytes a follower asks for in one answer.", acted_on=True),
    Setting("replica.fetch.wait.max.ms", INT, 500, None, HIGH, READ_ONLY,
            "Longest a leader lets a follower wait for new records.", acted_on=True),
    Setting("replica.high.watermark.checkpoint.interval.ms", LONG, 5_000, None, HIGH, READ_ONLY,
            "How often high watermarks are written to disk.", acted_on=True),
    Setting("replica.lag.time.max.ms", LONG, 30_000, None, HIGH, READ_ONLY,
            "A follower that has not caught up for this long leaves the in-sync replicas.", acted_on=True),
    Setting("replica.selector.class", STRING, None, None, MEDIUM, READ_ONLY,
            "Java class that picks the replica a consumer reads from.", acted_on=True),
    Setting("replica.socket.receive.buffer.bytes", INT, 65_536, None, HIGH, READ_ONLY,
            "Receive buffer of a follower's connection."),
    Setting("replica.socket.timeout.ms", INT, 30_000, None, HIGH, READ_ONLY,
            "Time-out of a follower's request.", acted_on=True),
    Setting("replication.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
            "Samples kept for the replication quota.", acted_on=True),
    Setting("replication.quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
            "Length of one sample of the replication quota.", acted_on=True),
)
