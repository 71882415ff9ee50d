"""`GroupMetadata`: a consumer's membership of a group, which a transactional producer sends with offsets (KIP-447)."""

from __future__ import annotations

from dataclasses import dataclass

from minikafka.client.argument_kinds import Int32


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A consumer's membership at one time. With it the coordinator rejects offsets of a consumer that has since left.

    Attributes:
        generation, member_id: those of the membership. The defaults are for consumers without a group subscription; the
            coordinator then fences no member.
    """

    group_id: str
    generation: Int32 = -1
    member_id: str = ""
    group_instance_id: str | None = None
