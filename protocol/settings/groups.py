"""Settings of a group. Most override a node setting, which supplies their default (`inherited`)."""

from minikafka.protocol.settings.bounds import OFFSET_RESET, at_least, one_of
from minikafka.protocol.settings.declaration import MEDIUM, Setting
from minikafka.protocol.settings.node_settings import inherited
from minikafka.protocol.settings.value_types import BOOLEAN, STRING

SETTINGS: tuple[Setting, ...] = (
    inherited("consumer.assignment.interval.ms", "group.consumer.assignment.interval.ms"),
    inherited("consumer.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    inherited("consumer.session.timeout.ms", "group.consumer.session.timeout.ms"),
    inherited("share.assignment.interval.ms", "group.share.assignment.interval.ms"),
    Setting("share.auto.offset.reset", STRING, "latest", OFFSET_RESET, MEDIUM, "",
            "Initial offset of a share group on a partition."),
    inherited("share.delivery.count.limit", "group.share.delivery.count.limit", valid=at_least(2)),
    inherited("share.heartbeat.interval.ms", "group.share.heartbeat.interval.ms"),
    Setting("share.isolation.level", STRING, "read_uncommitted", one_of("read_committed",
            "read_uncommitted"), MEDIUM, "",
            "Whether a share group reads records of uncommitted transactions."),
    inherited("share.partition.max.record.locks", "group.share.partition.max.record.locks", valid=at_least(100)),
    inherited("share.record.lock.duration.ms", "group.share.record.lock.duration.ms", valid=at_least(1_000)),
    Setting("share.renew.acknowledge.enable", BOOLEAN, True, None, MEDIUM, "",
            "Whether members may renew the acquisition lock of a record."),
    inherited("share.session.timeout.ms", "group.share.session.timeout.ms"),
    inherited("streams.assignment.interval.ms", "group.streams.assignment.interval.ms"),
    inherited("streams.heartbeat.interval.ms", "group.streams.heartbeat.interval.ms"),
    inherited("streams.initial.rebalance.delay.ms", "group.streams.initial.rebalance.delay.ms"),
    inherited("streams.num.standby.replicas", "group.streams.num.standby.replicas"),
    inherited("streams.session.timeout.ms", "group.streams.session.timeout.ms"),
)
