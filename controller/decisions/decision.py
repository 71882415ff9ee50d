"""What a decision takes and what it gives."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Generic, Protocol, TypeVar

from minikafka.controller.metadata.cluster_ids import new_id
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import Record
from minikafka.controller.settings.effective_settings import InForce
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.protocol.errors import PolicyViolationError

__all__ = ["RECORDS_MAX", "Context", "Decision", "check_size"]

Reply = TypeVar("Reply", covariant=True)

RECORDS_MAX = 10_000
"""Most records of one decision, which becomes one batch: whole or not at all (TRAPS 27, Kafka's bound)."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[Reply]):
    """What is to be written, and what is answered once it is.

    Attributes:
        records: applied in this order; empty where nothing changes.
        reply: usually a response message.
        log_levels: loggers of this node whose level changes; they are not part of the metadata.
    """

    records: list[Record]
    reply: Reply
    log_levels: Mapping[str, str] = field(default_factory=dict)


class Sessions(Protocol):
    """The broker sessions (`active/broker_sessions.py`), as far as decisions need them."""

    def is_live(self, node_id: int, epoch: int, now_ms: int) -> bool: ...

    def is_caught_up(self, node_id: int, applied_offset: int) -> bool: ...

    def others_caught_up(self, node_id: int, others: Iterable[int]) -> bool: ...


class LoneNodeSessions:
    """The sessions of a node that is not the active controller of a cluster: there are none."""

    def is_live(self, node_id: int, epoch: int, now_ms: int) -> bool:
        return False

    def is_caught_up(self, node_id: int, applied_offset: int) -> bool:
        return True

    def others_caught_up(self, node_id: int, others: Iterable[int]) -> bool:
        return all(other == node_id for other in others)


@dataclass(frozen=True, slots=True)
class Context:
    """What a decision may know besides image and request.

    Attributes:
        static: what the node was started with that decides.
        random: the source of ids and of places.
        version: of the request, for the few answers that differ.
        log_levels: level by logger, of the node that decides.
        sessions: who was heard of when; of a node alone nobody needs to be.
        now_ms: the time by which sessions are kept.
        handed_on: whether another node was asked, which has seen to its own settings (`hand_on.py`).
    """

    static: StaticSettings
    random: Random
    version: int
    log_levels: Mapping[str, str] = field(default_factory=dict)
    sessions: Sessions = field(default_factory=LoneNodeSessions)
    now_ms: int = 0
    handed_on: bool = False

    def in_force(self, image: Image) -> InForce:
        """The settings in force on the node that decides."""
        return InForce(self.static, image)

    def new_id(self) -> bytes:
        """16 bytes that nothing else is named by."""
        return new_id(self.random)


def check_size(records: list[Record]) -> None:
    """Refuse what does not fit into one batch.

    Raises:
        PolicyViolationError: more than `RECORDS_MAX`.
    """
    if len(records) > RECORDS_MAX:
        raise PolicyViolationError("Unable to perform excessively large batch operation.")
