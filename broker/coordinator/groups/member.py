"""One member of a classic group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from minikafka.broker.coordinator.decision import Ticket
from minikafka.protocol.messages.group_records import MemberMetadata
from minikafka.protocol.messages.join_group import JoinGroupRequest

Protocols = tuple[tuple[str, bytes], ...]
"""Names and metadata of the protocols that a member knows, best first."""


class Caller(NamedTuple):
    """Who asks: client id, host as records have it ("/127.0.0.1"), and the version of the request."""

    client_id: str
    client_host: str
    version: int


@dataclass(slots=True, eq=False)
class Member:
    """A member as the group knows it.

    Attributes:
        instance_id: Set for static members (KIP-345).
        assignment: The leader's, of the generation that is in the log.
        joining: The JoinGroup that waits for an answer. *Invariant:* only in PreparingRebalance.
        syncing: The SyncGroup that waits. *Invariant:* only in CompletingRebalance.
        is_new: It has not been told of any generation yet. *Use:* it sends no heartbeats, so its waiting JoinGroup
            does not count as a sign of life for ever.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    joining: Ticket | None = None
    syncing: Ticket | None = None
    is_new: bool = False

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def protocol_names(self) -> list[str]:
        return [name for name, _ in self.protocols]

    def metadata(self, protocol: str | None) -> bytes:
        """What the member says under `protocol`; empty if it does not know it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: list[str]) -> str:
        """The candidate that it likes best.

        Raises:
            StopIteration: It knows none, which a group must not let happen.
        """
        return next(name for name, _ in self.protocols if name in candidates)

    @property
    def excused(self) -> bool:
        """Whether its session cannot run out now: it waits for the coordinator, not the other way round."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def become(self, recorded: Member, protocol: str | None) -> None:
        """Take over what the log says. Protocols that were not chosen are known to the living alone, and kept."""
        if self.metadata(protocol) != recorded.metadata(protocol):
            self.protocols = recorded.protocols
        self.member_id = recorded.member_id
        self.client_id = recorded.client_id
        self.client_host = recorded.client_host
        self.rebalance_timeout_ms = recorded.rebalance_timeout_ms
        self.session_timeout_ms = recorded.session_timeout_ms
        self.assignment = recorded.assignment

    def record(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
        """As the log keeps it: only the metadata of the chosen protocol."""
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )


def member_of_record(record: MemberMetadata, protocol: str | None) -> Member:
    """The member that a record tells of. Records before v1 have no rebalance time-out: the session's counts."""
    return Member(
        member_id=record.member_id,
        instance_id=record.group_instance_id,
        client_id=record.client_id,
        client_host=record.client_host,
        rebalance_timeout_ms=record.session_timeout if record.rebalance_timeout == -1 else record.rebalance_timeout,
        session_timeout_ms=record.session_timeout,
        protocols=((protocol or "", bytes(record.subscription)),),
        assignment=bytes(record.assignment),
    )


def member_of_request(request: JoinGroupRequest, member_id: str, caller: Caller) -> Member:
    """The member that a JoinGroup describes. Before v1 it has no rebalance time-out: the session's counts."""
    return Member(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        rebalance_timeout_ms=rebalance_timeout_ms(request, caller.version),
        session_timeout_ms=request.session_timeout_ms,
        protocols=protocols_of(request),
    )


def rebalance_timeout_ms(request: JoinGroupRequest, version: int) -> int:
    """What the request asks for; the session time-out in version 0, which cannot say."""
    return request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """The request's protocols in its order, copied out of the frame."""
    return tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)
