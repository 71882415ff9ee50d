"""The records of the metadata log, and their encoding: a msgpack map of kind, version and fields.

An unknown kind or version is refused, because a node that skips a record would get another state than the other nodes
(KAFKA-14275). A new field raises the record's version, names that version (`added`), and has a default with the meaning
of the older versions. A record is written in the lowest version that has all fields without their default, like Kafka's
BrokerRegistrationChangeRecord. Older nodes can read the record as long as no newer field is used; a newer field is used
once metadata.version has reached its level.
"""

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import msgpack

__all__ = [
    "AclRecord",
    "BrokerChange",
    "BrokerRecord",
    "ClientQuotaRecord",
    "ClusterRecord",
    "ConfigRecord",
    "DelegationTokenRecord",
    "Endpoint",
    "FeatureRecord",
    "PartitionChange",
    "PartitionRecord",
    "ProducerIdsRecord",
    "Record",
    "RemoveAcl",
    "RemoveBroker",
    "RemoveDelegationToken",
    "RemoveScram",
    "RemoveTopic",
    "ScramRecord",
    "TopicRecord",
    "UnreadableRecord",
    "decode_record",
    "encode_record",
]


class UnreadableRecord(Exception):
    """A record that this version of minikafka cannot read; the node must stop."""


def added(version: int, default: Any) -> Any:
    """A field that was added in `version`."""
    return field(default=default, metadata={"since": version})


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The cluster id: 22 characters of base64.

    Attributes:
        last_broker_epoch: the greatest epoch of all brokers so far, including unregistered brokers.
    """

    VERSION: ClassVar[int] = 1
    cluster_id: str
    last_broker_epoch: int = added(1, default=-1)


Endpoint = tuple[str, str, int, str]
"""An address of a broker: listener name, host, port, security protocol."""


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """A broker's registration; a later one of the same node replaces it.

    Attributes:
        epoch: the broker epoch, which grows with each registration of any broker.
        incarnation_id: 16 bytes, new with each start of the process.
        fenced: whether the broker must not lead partitions.
        in_controlled_shutdown: whether the broker is shutting down, so that it must not become leader.
        log_dirs: the ids of the data directories that the broker can use (KIP-858); empty if it has not reported any.
        cordoned: the ids of the directories in which no new replicas are to be placed (KIP-1066).
    """

    VERSION: ClassVar[int] = 3
    node_id: int
    epoch: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool = added(1, default=False)
    log_dirs: tuple[bytes, ...] = added(2, default=())
    cordoned: tuple[bytes, ...] = added(3, default=())

    @property
    def takes_replicas(self) -> bool:
        """Whether new replicas may be placed on it: not all its data directories are cordoned."""
        return not self.log_dirs or any(directory not in self.cordoned for directory in self.log_dirs)


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """A change of a registered broker: it was fenced or unfenced, began a controlled shutdown, lost a data directory,
    or cordoned directories. A field of None is unchanged."""

    VERSION: ClassVar[int] = 3
    node_id: int
    epoch: int
    fenced: bool | None = None
    in_controlled_shutdown: bool | None = added(1, default=None)
    log_dirs: tuple[bytes, ...] | None = added(2, default=None)
    cordoned: tuple[bytes, ...] | None = added(3, default=None)


@dataclass(frozen=True, slots=True)
class RemoveBroker:
    """A broker was unregistered."""

    VERSION: ClassVar[int] = 0
    node_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A new topic; its partitions follow."""

    VERSION: ClassVar[int] = 0
    topic_id: bytes
    name: str


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """A new partition, with its whole state.

    Attributes:
        leader: the node id of the leader; -1 for none.
        partition_epoch: a counter that every change of the partition increments.
        elr: eligible leader replicas (KIP-966).
        last_known_elr, directories: see `PartitionState`.
    """

    VERSION: ClassVar[int] = 2
    topic_id: bytes
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = added(1, default=())
    last_known_elr: tuple[int, ...] = added(1, default=())
    directories: tuple[bytes, ...] = added(2, default=())


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """A change of a partition. A field of None is unchanged.

    A record with a leader increments the leader epoch, even if the leader stays the same, as it must when replicas are
    removed (KAFKA-15021). The partition epoch is always incremented.
    """

    VERSION: ClassVar[int] = 2
    topic_id: bytes
    partition: int
    isr: tuple[int, ...] | None = None
    leader: int | None = None
    replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    elr: tuple[int, ...] | None = added(1, default=None)
    last_known_elr: tuple[int, ...] | None = added(1, default=None)
    directories: tuple[bytes, ...] | None = added(2, default=None)


@dataclass(frozen=True, slots=True)
class RemoveTopic:
    """A topic was deleted, with its partitions and settings."""

    VERSION: ClassVar[int] = 0
    topic_id: bytes


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """A setting of a resource; a value of None removes it.

    Attributes:
        resource_type: the type, as in DescribeConfigs: 2 topic, 4 broker, 16 client metrics, 32 group.
        resource_name: the name of the resource; "" for all brokers.
    """

    VERSION: ClassVar[int] = 0
    resource_type: int
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord:
    """Producer ids below `next_producer_id` were allocated to brokers."""

    VERSION: ClassVar[int] = 0
    node_id: int
    broker_epoch: int
    next_producer_id: int


@dataclass(frozen=True, slots=True)
class ClientQuotaRecord:
    """A quota of an entity; a value of None removes it.

    Attributes:
        entity: pairs of type ("user", "client-id", "ip") and name, sorted; a name of None is the default
        entity.
    """

    VERSION: ClassVar[int] = 0
    entity: tuple[tuple[str, str | None], ...]
    key: str
    value: float | None


@dataclass(frozen=True, slots=True)
class ScramRecord:
    """A user's SCRAM credential, from which the password cannot be recovered (RFC 5802)."""

    VERSION: ClassVar[int] = 0
    user: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


@dataclass(frozen=True, slots=True)
class RemoveScram:
    """A user's credential of one mechanism was deleted."""

    VERSION: ClassVar[int] = 0
    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class AclRecord:
    """A new rule of access: the fields of an `Acl`, in their order."""

    VERSION: ClassVar[int] = 0
    acl: tuple[int, str, int, str, str, int, int]


@dataclass(frozen=True, slots=True)
class RemoveAcl:
    """A rule of access was deleted: the fields of the `Acl`, in their order."""

    VERSION: ClassVar[int] = 0
    acl: tuple[int, str, int, str, str, int, int]


PrincipalParts = tuple[str, str]
"""The type and the name of a principal."""


@dataclass(frozen=True, slots=True)
class DelegationTokenRecord:
    """A delegation token; a later record of the same token changes it (KIP-48). It has no secret: the token's HMAC is
    computed from its id with a key of the nodes.

    Attributes:
        requester: who created it.
        renewers: who may renew and expire it, beside the owner.
        issued_ms, max_ms, expires_ms: when it was created, until when it can be renewed at the most, and when it ends
            unless it is renewed; in milliseconds since 1970.
    """

    VERSION: ClassVar[int] = 0
    token_id: str
    owner: PrincipalParts
    requester: PrincipalParts
    renewers: tuple[PrincipalParts, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int

    def ends_before(self, now_ms: int) -> bool:
        """Whether the token has ended."""
        return self.expires_ms < now_ms


@dataclass(frozen=True, slots=True)
class RemoveDelegationToken:
    """A delegation token has ended."""

    VERSION: ClassVar[int] = 0
    token_id: str


@dataclass(frozen=True, slots=True)
class FeatureRecord:
    """A feature's finalized level; 0 removes the feature."""

    VERSION: ClassVar[int] = 0
    name: str
    level: int


Record = (
    ClusterRecord
    | BrokerRecord
    | BrokerChange
    | RemoveBroker
    | TopicRecord
    | PartitionRecord
    | PartitionChange
    | RemoveTopic
    | ConfigRecord
    | ProducerIdsRecord
    | ClientQuotaRecord
    | ScramRecord
    | RemoveScram
    | AclRecord
    | RemoveAcl
    | DelegationTokenRecord
    | RemoveDelegationToken
    | FeatureRecord
)

_KINDS: dict[str, type[Record]] = {
    "cluster": ClusterRecord,
    "broker": BrokerRecord,
    "broker-changed": BrokerChange,
    "broker-removed": RemoveBroker,
    "topic": TopicRecord,
    "partition": PartitionRecord,
    "partition-changed": PartitionChange,
    "topic-removed": RemoveTopic,
    "config": ConfigRecord,
    "producer-ids": ProducerIdsRecord,
    "client-quota": ClientQuotaRecord,
    "scram": ScramRecord,
    "scram-removed": RemoveScram,
    "acl": AclRecord,
    "acl-removed": RemoveAcl,
    "delegation-token": DelegationTokenRecord,
    "delegation-token-removed": RemoveDelegationToken,
    "feature": FeatureRecord,
}
_KIND_OF = {record: kind for kind, record in _KINDS.items()}
_FIELDS = {record: tuple(one.name for one in fields(record)) for record in _KINDS.values()}
_SINCE = {record: {one.name: one.metadata.get("since", 0) for one in fields(record)} for record in _KINDS.values()}
_ADDED = {
    record: tuple((one.name, one.metadata["since"], one.default) for one in fields(record) if "since" in one.metadata)
    for record in _KINDS.values()
}


def encode_record(record: Record) -> bytes:
    """Encode a metadata record as the value of a log record, in the lowest version of its kind that loses nothing."""
    kind = type(record)
    version, names = 0, _FIELDS[kind]
    if added := _ADDED[kind]:
        version = max((since for name, since, default in added if getattr(record, name) != default), default=0)
        names = tuple(name for name, since in _SINCE[kind].items() if since <= version)
    named = {name: getattr(record, name) for name in names}
    return bytes(msgpack.packb({"kind": _KIND_OF[kind], "version": version, **named}))


def decode_record(data: bytes | memoryview) -> Record:
    """Decode the value of a log record: the inverse of `encode_record`.

    Raises:
        UnreadableRecord: the kind or version is unknown, fields are missing or unknown, or the data is no msgpack map.
    """
    try:
        plain = msgpack.unpackb(data, use_list=False, strict_map_key=True)
    except (ValueError, msgpack.UnpackException) as error:
        raise UnreadableRecord(f"metadata record of {len(data)} bytes is not msgpack: {error}") from None
    if not isinstance(plain, dict):
        raise UnreadableRecord(f"metadata record is not a map: {plain!r}")
    return _record_from(plain)


def _record_from(plain: dict[str, Any]) -> Record:
    kind, version = plain.pop("kind", None), plain.pop("version", None)
    record = _KINDS.get(kind) if isinstance(kind, str) else None
    if record is None:
        raise UnreadableRecord(f"metadata record of unknown kind {kind!r}: written by a newer minikafka?")
    if not isinstance(version, int) or not 0 <= version <= record.VERSION:
        raise UnreadableRecord(
            f"metadata record {kind!r} has version {version!r}, this minikafka reads {record.VERSION} and older"
        )
    if plain.keys() != {name for name, since in _SINCE[record].items() if since <= version}:
        raise UnreadableRecord(f"metadata record {kind!r} has the fields {sorted(plain)}")
    return record(**plain)
