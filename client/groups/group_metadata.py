"""What a transactional producer must know of a consumer's membership (KIP-447): `GroupMetadata`."""

from __future__ import annotations

from dataclasses import dataclass

from minikafka.client.argument_kinds import Int32


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A membership at one time. With it the coordinator rejects offsets of a consumer that has left its group since.

    Attributes:
        generation, member_id: of the membership; the defaults are for consumers outside of the group, and fence none.
    """

    group_id: str
    generation: Int32 = -1
    member_id: str = ""
    group_instance_id: str | None = None
