"""`Group`: the operations that commits, expiry, listing and description need of a group of either protocol."""

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
        transactional: Whether the request is TxnOffsetCommit.
        version: The version of the request.
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
        """Whether the group has no members."""
        ...

    @property
    def allows_offset_deletion(self) -> bool:
        """Whether offsets of topics without subscribers may be deleted while the group has members."""
        ...

    @property
    def kept(self) -> tuple[int, int]:
        """The size in bytes of the data that members gave, and the number of members and of pending member ids."""
        ...

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member subscribes to the topic. If so, its offsets neither expire nor can be deleted."""
        ...

    def check_commit(self, committer: Committer) -> ErrorCode | PartitionCheck:
        """Check the sender of a commit. Returns NONE, an error, or a function that checks each partition."""
        ...

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """NONE if the member may fetch offsets. A client that names no member may always fetch them."""
        ...

    def retention_starts_ms(self, committed: CommittedOffset) -> int | None:
        """The time from which the retention of a committed offset counts; None while it does not count at all."""
        ...

    def tombstones(self) -> list[tuple[Any, None]]:
        """The records that delete the group, which has no members."""
        ...
