"""Group: what commits, expiry, listing and description ask of a group of either protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from minikafka.broker.coordinator.groups.state.offset_table import CommittedOffset
from minikafka.protocol.errors import ErrorCode

PartitionCheck = Callable[[bytes, int], ErrorCode]
"""Whether an offset of a partition, given by topic id and number, may be committed."""


class Committer(NamedTuple):
    """The sender of a commit.

    Attributes:
        epoch: Its generation or its member epoch; -1 for clients that are no members.
        transactional: For TxnOffsetCommit.
        version: Of the request.
    """

    member_id: str
    instance_id: str | None
    epoch: int
    transactional: bool
    version: int


class Group(Protocol):
    """A group. `type_name`, `state_name` and `protocol_type` are spelled as in ListGroups."""

    @property
    def group_id(self) -> str: ...

    @property
    def type_name(self) -> str: ...

    @property
    def state_name(self) -> str: ...

    @property
    def listed_protocol_type(self) -> str: ...

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        ...

    @property
    def allows_offset_deletion(self) -> bool:
        """Whether offsets of topics without subscribers may be deleted while it has members."""
        ...

    @property
    def kept(self) -> tuple[int, int]:
        """The bytes that are kept of what its members gave, and how many members there are, or ids for such."""
        ...

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member reads the topic: its offsets then neither expire nor can be deleted."""
        ...

    def check_commit(self, committer: Committer) -> ErrorCode | PartitionCheck:
        """NONE, an error, or a check of each partition."""
        ...

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """NONE if the member may fetch offsets; any client may that names no member."""
        ...

    def retention_starts_ms(self, committed: CommittedOffset) -> int | None:
        """The time from which the retention of a committed offset counts; None while it does not count at all."""
        ...

    def tombstones(self) -> list[tuple[Any, None]]:
        """The records that delete the group, which has no members."""
        ...
