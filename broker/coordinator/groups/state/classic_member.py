"""`Member`: one member of a classic group, as requests and records describe it."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import NamedTuple

from minikafka.broker.coordinator.decision import Ticket
from minikafka.controller.security.access import UNRESTRICTED, Access
from minikafka.protocol.messages.group_records import MemberMetadata
from minikafka.protocol.messages.join_group import JoinGroupRequest

Protocols = tuple[tuple[str, bytes], ...]
"""Names and metadata of the protocols that a member supports, in order of preference."""

PROTOCOL_SIZE_BYTES = 200
"""The memory of a protocol besides the letters of its name and its metadata, in bytes: a pair, two objects, its count
among the group's protocols, and an element of the request while the request waits. Measured: 130 to 220."""


class Caller(NamedTuple):
    """The sender of a request: client id, host as in records ("/127.0.0.1"), the request's version, what it may do."""

    client_id: str
    client_host: str
    version: int
    access: Access = UNRESTRICTED


@dataclass(slots=True, eq=False)
class Member:
    """A member of a classic group.

    Attributes:
        instance_id: Set for static members (KIP-345).
        assignment: The leader's assignment in the generation that is in the log.
        joining: The waiting JoinGroup. *Invariant:* set only in PreparingRebalance.
        syncing: The waiting SyncGroup. *Invariant:* set only in CompletingRebalance.
        is_new: Whether the first JoinGroup of the member has not been answered yet. *Use:* such a member sends no
            heartbeats, and its waiting JoinGroup does not keep its session alive.
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
    def size_bytes(self) -> int:
        """The memory for the kept data of the member's JoinGroup, in bytes, as `join_size_bytes`."""
        ids = text_size_bytes(self.client_id) + text_size_bytes(self.instance_id)
        return protocols_size_bytes(self.protocols) + ids

    @property
    def protocol_names(self) -> list[str]:
        return [name for name, _ in self.protocols]

    def metadata(self, protocol: str | None) -> bytes:
        """The metadata for `protocol`; empty if the member does not support it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: Set[str]) -> str:
        """The candidate that the member prefers.

        Raises:
            StopIteration: The member supports no candidate; `ClassicGroup.supports` prevents this.
        """
        return next(name for name, _ in self.protocols if name in candidates)

    @property
    def session_suspended(self) -> bool:
        """Whether the session cannot expire now, because the member waits for a response of the coordinator."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def update_from_record(self, recorded: Member, protocol: str | None) -> None:
        """Update from a record. Protocols that were not selected are not in the log and stay as they are."""
        selected = protocol or ""
        if selected not in self.protocol_names or self.metadata(selected) != recorded.metadata(selected):
            self.protocols = recorded.protocols
        self.member_id = recorded.member_id
        self.client_id = recorded.client_id
        self.client_host = recorded.client_host
        self.rebalance_timeout_ms = recorded.rebalance_timeout_ms
        self.session_timeout_ms = recorded.session_timeout_ms
        self.assignment = recorded.assignment

    def record(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
        """The member's part of the group record, with only the metadata of the selected protocol."""
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
    """The member in a record. Records before v1 have no rebalance timeout: the session timeout is used."""
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
    """The member in a JoinGroup request."""
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
    """The request's rebalance timeout in ms; in version 0, which has none, the session timeout."""
    return request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms


def join_size_bytes(request: JoinGroupRequest, client_id: str) -> int:
    """The memory for the kept data of a request, in bytes: its protocols, and the ids of the client and instance."""
    protocols = sum(_protocol_size_bytes(one.name, one.metadata) for one in request.protocols)
    return protocols + text_size_bytes(client_id) + text_size_bytes(request.group_instance_id)


def protocols_size_bytes(protocols: Protocols) -> int:
    """The memory of protocols in bytes."""
    return sum(_protocol_size_bytes(name, metadata) for name, metadata in protocols)


def _protocol_size_bytes(name: str, metadata: bytes | memoryview) -> int:
    return PROTOCOL_SIZE_BYTES + text_size_bytes(name) + len(metadata)


def text_size_bytes(text: str | None) -> int:
    """The largest memory of a text's letters, in bytes: one letter beyond U+FFFF makes all letters take four bytes."""
    return 0 if text is None else len(text) if text.isascii() else 4 * len(text)


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """The request's protocols in its order; the metadata is copied out of the frame."""
    return tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)
