"""Logs the changes that the active controller made: of topics, leaders, ISRs, reassignments, brokers and settings.

    changes = MetadataChanges(image, records)     before the records are applied: the image is the state before them
    await in_steps(changes.logging())             after they are committed and applied

If a decision changes many partitions in the same way, as when a broker is fenced, there is one line for all of them,
with their number and the first names. Source: the logging of Kafka's `ReplicationControlManager`,
`ClusterControlManager` and `ConfigurationControlManager`.
"""

from collections.abc import Generator, Iterator, Sequence

import structlog

from minikafka.controller.metadata.acl import Acl
from minikafka.controller.metadata.image import NO_LEADER, Image, PartitionState, changed
from minikafka.controller.metadata.partition_changes import completes_reassignment, elects_cleanly
from minikafka.controller.metadata.records import (
    AclRecord,
    BrokerChange,
    BrokerRecord,
    ClientQuotaRecord,
    ClusterRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureRecord,
    PartitionChange,
    PartitionRecord,
    Record,
    RemoveAcl,
    RemoveBroker,
    RemoveDelegationToken,
    RemoveScram,
    RemoveTopic,
    ScramRecord,
    TopicRecord,
)
from minikafka.protocol.names import INTERNAL_TOPICS
from minikafka.protocol.settings.registry import NODE_SETTINGS, listener_base_name

__all__ = ["MetadataChanges"]

log = structlog.get_logger("minikafka.controller")

NAMES_MAX = 10
"""The most partitions that a line names; its `partitions` is the number of all partitions."""
LINES_IN_A_STEP = 100
HIDDEN = "[hidden]"
_RESOURCES = {2: "topic", 4: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}
_TOPIC, _BROKER = 2, 4
Other = (
    FeatureRecord | ScramRecord | RemoveScram | AclRecord | RemoveAcl | DelegationTokenRecord | RemoveDelegationToken
)
"""The records of which each is logged in a line."""


class Group:
    """Partitions that changed in the same way: their number, and the names of the first `NAMES_MAX`."""

    def __init__(self) -> None:
        self.partitions = 0
        self.names: list[str] = []

    def add(self, topic: str, partition: int) -> None:
        """Count a partition."""
        self.partitions += 1
        if len(self.names) < NAMES_MAX:
            self.names.append(f"{topic}-{partition}")


class MetadataChanges:
    """The changes that records make, collected for the log.

    Args:
        image: the metadata before the records are applied.
        records: the records of one or several decisions.
    """

    def __init__(self, image: Image, records: Sequence[Record]) -> None:
        self._image = image
        self._is_new_cluster = False
        self._created: dict[bytes, str] = {}
        self._deleted: list[str] = []
        self._new_partitions: dict[bytes, int] = {}
        self._replicas: dict[bytes, int] = {}
        self._elected: dict[int, Group] = {}
        self._unclean: dict[int, Group] = {}
        self._leaderless = Group()
        self._shrunk: dict[int, Group] = {}
        self._expanded: dict[int, Group] = {}
        self._begun, self._completed, self._cancelled = Group(), Group(), Group()
        self._brokers: list[BrokerRecord | BrokerChange | RemoveBroker] = []
        self._settings: dict[tuple[int, str], dict[str, str | None]] = {}
        self._quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float | None]] = {}
        self._others: list[Other] = []
        self._shutting_down = {one.node_id for one in image.brokers.values() if one.in_controlled_shutdown}
        for record in records:
            self._add(record)

    def _add(self, record: Record) -> None:
        match record:
            case PartitionChange():
                self._change_partition(record)
            case PartitionRecord():
                self._new_partitions[record.topic_id] = self._new_partitions.get(record.topic_id, 0) + 1
                self._replicas[record.topic_id] = len(record.replicas)
            case TopicRecord():
                self._created[record.topic_id] = record.name
            case RemoveTopic():
                topic = self._image.topics_by_id.get(record.topic_id)
                self._deleted += [] if topic is None else [topic.name]
            case ConfigRecord():
                value = record.value if record.value is None or not _is_secret(record) else HIDDEN
                self._settings.setdefault((record.resource_type, record.resource_name), {})[record.name] = value
            case ClientQuotaRecord():
                self._quotas.setdefault(record.entity, {})[record.key] = record.value
            case BrokerRecord() | BrokerChange() | RemoveBroker():
                self._brokers.append(record)
            case (
                FeatureRecord()
                | ScramRecord()
                | RemoveScram()
                | AclRecord()
                | RemoveAcl()
                | DelegationTokenRecord()
                | RemoveDelegationToken()
            ):
                self._others.append(record)
            case ClusterRecord():
                self._is_new_cluster = not self._image.cluster_id
            case _:
                pass  # Blocks of producer ids are not logged.

    def _change_partition(self, change: PartitionChange) -> None:
        topic = self._image.topics_by_id.get(change.topic_id)
        if topic is None or change.partition >= len(topic.partitions):
            return  # The partition is new as well, and logged with its topic.
        before = topic.partitions[change.partition]
        after = changed(before, change)
        if after.leader != before.leader:
            self._leaders(before, after).add(topic.name, change.partition)
        if change.isr is not None:
            for node_id in set(before.isr).difference(change.isr):
                self._shrunk.setdefault(node_id, Group()).add(topic.name, change.partition)
            for node_id in set(change.isr).difference(before.isr):
                self._expanded.setdefault(node_id, Group()).add(topic.name, change.partition)
        group = self._reassignment(before, after)
        if group is not None:
            group.add(topic.name, change.partition)

    def _leaders(self, before: PartitionState, after: PartitionState) -> Group:
        if after.leader == NO_LEADER:
            return self._leaderless
        return (self._elected if elects_cleanly(before, after) else self._unclean).setdefault(after.leader, Group())

    def _reassignment(self, before: PartitionState, after: PartitionState) -> Group | None:
        """The group of a partition whose reassignment begins or ends with a change; None otherwise."""
        was, now = _reassigned(before), _reassigned(after)
        if was == now:
            return None
        if any(now):
            return self._begun
        return self._completed if completes_reassignment(before, after) else self._cancelled

    # -- the lines -----------------------------------------------------------------------------------------------

    def logging(self) -> Generator[None, None, None]:
        """Log the changes, in steps. Nobody else may change the image meanwhile."""
        for number, _ in enumerate(self._lines(), 1):
            if number % LINES_IN_A_STEP == 0:
                yield

    def _lines(self) -> Iterator[None]:
        """Log the changes. Each `next` logs one more topic or setting, of which there may be many."""
        self._log_brokers()
        yield from self._log_topics()
        self._log_partitions()
        if not self._is_new_cluster:
            yield from self._log_settings()

    def _log_brokers(self) -> None:
        for record in self._brokers:
            match record:
                case BrokerRecord():
                    listeners = [f"{name}://{host}:{port}" for name, host, port, _ in record.endpoints]
                    log.info("broker registered", broker=record.node_id, epoch=record.epoch, listeners=listeners)
                case RemoveBroker():
                    log.info("broker unregistered", broker=record.node_id)
                case _:
                    self._log_broker_change(record)

    def _log_broker_change(self, change: BrokerChange) -> None:
        if change.in_controlled_shutdown:
            log.info("broker shutting down", broker=change.node_id)
            self._shutting_down.add(change.node_id)
        if change.fenced is False:
            log.info("broker unfenced", broker=change.node_id)
        elif change.fenced and change.node_id in self._shutting_down:
            log.info("broker shut down", broker=change.node_id)

    def _log_topics(self) -> Iterator[None]:
        for topic_id, name in self._created.items():
            log.info(
                "topic created",
                topic=name,
                partitions=self._new_partitions.pop(topic_id, 0),
                replication_factor=self._replicas.get(topic_id, 0),
                settings=self._settings.pop((_TOPIC, name), {}),
            )
            yield
        for topic_id, count in self._new_partitions.items():
            topic = self._image.topics_by_id[topic_id]
            log.info("partitions added", topic=topic.name, added=count, partitions=len(topic.partitions))
            if topic.name in INTERNAL_TOPICS:
                log.warning("internal topic is mapped anew by nodes that start", topic=topic.name)
            yield
        for name in self._deleted:
            log.info("topic deleted", topic=name)
            yield

    def _log_partitions(self) -> None:
        for leader, group in self._elected.items():
            log.info("leader elected", leader=leader, partitions=group.partitions, first=group.names)
        for leader, group in self._unclean.items():
            log.warning("leader elected uncleanly", leader=leader, partitions=group.partitions, first=group.names)
        for node_id, group in self._shrunk.items():
            log.info("isr shrunk", broker=node_id, partitions=group.partitions, first=group.names)
        for node_id, group in self._expanded.items():
            log.info("isr expanded", broker=node_id, partitions=group.partitions, first=group.names)
        if (group := self._leaderless).partitions:
            log.warning("partitions without leader", partitions=group.partitions, first=group.names)
        if (group := self._begun).partitions:
            log.info("reassignment begun", partitions=group.partitions, first=group.names)
        if (group := self._completed).partitions:
            log.info("reassignment completed", partitions=group.partitions, first=group.names)
        if (group := self._cancelled).partitions:
            log.info("reassignment cancelled", partitions=group.partitions, first=group.names)

    def _log_settings(self) -> Iterator[None]:
        for (kind, name), values in self._settings.items():
            log.info("settings changed", resource=_RESOURCES.get(kind, str(kind)), name=name, settings=values)
            yield
        for entity, quotas in self._quotas.items():
            log.info("quotas changed", entity=dict(entity), quotas=quotas)
            yield
        for record in self._others:
            self._log_other(record)
            yield

    def _log_other(self, record: Other) -> None:
        match record:
            case FeatureRecord():
                log.info("feature level changed", feature=record.name, level=record.level)
            case ScramRecord():
                log.info("credential changed", user=record.user)
            case RemoveScram():
                log.info("credential deleted", user=record.user)
            case AclRecord():
                log.info("acl created", acl=str(Acl(*record.acl)))
            case RemoveAcl():
                log.info("acl deleted", acl=str(Acl(*record.acl)))
            case DelegationTokenRecord():
                owner = ":".join(record.owner)
                log.info(
                    "delegation token changed", token=record.token_id, owner=owner, expires_ms=record.expires_ms
                )
            case RemoveDelegationToken():
                log.info("delegation token removed", token=record.token_id)


def _is_secret(record: ConfigRecord) -> bool:
    """Whether the value must not be logged: a sensitive broker setting, or an unknown one, as in DescribeConfigs."""
    if record.resource_type != _BROKER:
        return False
    setting = NODE_SETTINGS.get(listener_base_name(record.name) or record.name)
    return setting is None or setting.sensitive


def _reassigned(state: PartitionState) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return state.adding_replicas, state.removing_replicas
