"""Settings of a topic. Most override a node setting, which supplies their default (`inherited`)."""

from minikafka.protocol.settings.bounds import THROTTLED, at_least
from minikafka.protocol.settings.declaration import MEDIUM, Setting
from minikafka.protocol.settings.node_settings import inherited
from minikafka.protocol.settings.value_types import BOOLEAN, INT, LIST

INTERNAL_SETTINGS: tuple[Setting, ...] = (
    Setting("internal.segment.bytes", INT, None, None, MEDIUM, "",
            "Maximum size of a segment file without a lower bound, for tests; overrides `segment.bytes`.",
            supported=True),
)
"""Settings that can be set on a topic; DescribeConfigs returns them only if they are set."""

SETTINGS: tuple[Setting, ...] = (
    inherited("cleanup.policy", "log.cleanup.policy"),
    inherited("compression.gzip.level", "compression.gzip.level"),
    inherited("compression.lz4.level", "compression.lz4.level"),
    inherited("compression.type", "compression.type"),
    inherited("compression.zstd.level", "compression.zstd.level"),
    inherited("delete.retention.ms", "log.cleaner.delete.retention.ms"),
    inherited("file.delete.delay.ms", "log.segment.delete.delay.ms"),
    inherited("flush.messages", "log.flush.interval.messages"),
    inherited("flush.ms", "log.flush.interval.ms",
              valid=at_least(0), doc="Maximum time in milliseconds before a message is flushed to disk."),
    Setting("follower.replication.throttled.replicas", LIST, (), THROTTLED, MEDIUM, "",
            "Replicas throttled on the follower side, as partition:broker; `*` throttles all.", supported=True),
    inherited("index.interval.bytes", "log.index.interval.bytes"),
    Setting("leader.replication.throttled.replicas", LIST, (), THROTTLED, MEDIUM, "",
            "Replicas throttled on the leader side, as partition:broker; `*` throttles all.", supported=True),
    inherited("local.retention.bytes", "log.local.retention.bytes",
              doc="Maximum size of local segments with tiered storage; -2 is the value of `retention.bytes`."),
    inherited("local.retention.ms", "log.local.retention.ms",
              doc="Retention of local segments with tiered storage; -2 is the value of `retention.ms`."),
    inherited("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    inherited("max.message.bytes", "message.max.bytes"),
    inherited("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"),
    inherited("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms"),
    inherited("message.timestamp.type", "log.message.timestamp.type"),
    inherited("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio"),
    inherited("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms"),
    inherited("min.insync.replicas", "min.insync.replicas"),
    inherited("preallocate", "log.preallocate"),
    Setting("remote.log.copy.disable", BOOLEAN, False, None, MEDIUM, "",
            "Whether copying to remote storage is disabled."),
    Setting("remote.log.delete.on.disable", BOOLEAN, False, None, MEDIUM, "",
            "Whether remote segments are deleted when tiered storage is disabled for the topic."),
    Setting("remote.storage.enable", BOOLEAN, False, None, MEDIUM, "",
            "Whether tiered storage is enabled for the topic."),
    inherited("retention.bytes", "log.retention.bytes"),
    inherited("retention.ms", "log.retention.ms",
              valid=at_least(-1)),
    inherited("segment.bytes", "log.segment.bytes"),
    inherited("segment.index.bytes", "log.index.size.max.bytes"),
    inherited("segment.jitter.ms", "log.roll.jitter.ms",
              valid=at_least(0)),
    inherited("segment.ms", "log.roll.ms", valid=at_least(1)),
    inherited("unclean.leader.election.enable", "unclean.leader.election.enable"),
)
