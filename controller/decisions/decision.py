"""The types of a decision: its context, its records and its reply."""

from collections.abc import Collection, Mapping, Sized
from dataclasses import dataclass, field
from random import Random
from typing import Generic, TypeVar

from minikafka.controller.decisions.broker_sessions import BrokerSessions
from minikafka.controller.metadata.cluster_ids import new_id
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import Record
from minikafka.controller.quotas.mutations import MutationQuota
from minikafka.controller.security.access import UNRESTRICTED, Access
from minikafka.controller.settings.effective_settings import EffectiveSettings
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.protocol.errors import PolicyViolationError

__all__ = ["RECORDS_MAX", "Context", "Decision", "check_size"]

Reply = TypeVar("Reply", covariant=True)

RECORDS_MAX = 10_000
"""The most records of a decision, as in Kafka. A decision's batch is written as a whole or not at all (KAFKA-14204)."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[Reply]):
    """The records to write, and the reply to send once they are committed.

    Attributes:
        records: applied in this order; empty if nothing changes.
        reply: usually a response message.
        log_levels: new level by logger of this node; log levels are not part of the metadata.
    """

    records: list[Record]
    reply: Reply
    log_levels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """The inputs of a decision besides image and request.

    Attributes:
        static: the static config of the deciding node.
        random: the source of ids and replica placement.
        version: the version of the request, for the few responses that depend on it.
        log_levels: level by logger of the deciding node.
        sessions: the broker sessions of the active controller; none where a node decides its own part of a request.
        now_ms: the time in milliseconds, on the clock of the sessions.
        wall_ms: the time in milliseconds since 1970.
        forwarded: whether another node received the request and has handled its own part (`forwarding_rules.py`).
        controllers: the ids of the voters.
        own_epoch: the broker epoch of the deciding process; -1 before it is registered as a broker.
        access: what the client of the request may do.
        mutations: how many partitions the client may create and delete now; None if no quota limits it.
    """

    static: StaticSettings
    random: Random
    version: int
    log_levels: Mapping[str, str] = field(default_factory=dict)
    sessions: BrokerSessions = field(default_factory=BrokerSessions)
    now_ms: int = 0
    wall_ms: int = 0
    forwarded: bool = False
    controllers: Collection[int] = ()
    own_epoch: int = -1
    access: Access = UNRESTRICTED
    mutations: MutationQuota | None = None
    _settings: list[EffectiveSettings] = field(default_factory=list, init=False, repr=False, compare=False)

    def settings(self, image: Image) -> EffectiveSettings:
        """The effective settings of the deciding node. They have a cache, so the same image gets the same object."""
        if not self._settings or self._settings[0].image is not image:
            self._settings[:] = [EffectiveSettings(self.static, image)]
        return self._settings[0]

    def count_partitions(self, count: int) -> None:
        """Count partitions that the request creates or deletes. Raises ThrottlingQuotaExceededError."""
        if self.mutations is not None:
            self.mutations.count(count)

    def new_id(self) -> bytes:
        """A new random 16-byte id."""
        return new_id(self.random)


def check_size(records: Sized, more: Sized = ()) -> None:
    """Rejects a decision that does not fit into one batch.

    Raises:
        PolicyViolationError: there are more than `RECORDS_MAX` records.
    """
    if len(records) + len(more) > RECORDS_MAX:
        raise PolicyViolationError("Unable to perform excessively large batch operation.")
