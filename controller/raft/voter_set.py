"""`VoterSet`: the voters of the metadata log, as a value. A voter is a node id with the id of its metadata directory.

A node whose disk was replaced has lost its votes and records, so it is another voter (KIP-853). Source: Kafka's
`VoterSet`, `ReplicaKey`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from minikafka.protocol.names import uuid_text

NO_DIRECTORY = bytes(16)
"""The directory id of a voter that is named by its node id alone, as in `controller.quorum.voters`."""
KRAFT_VERSION_MAX = 1
"""The highest supported kraft.version. With 0 the settings name the voters. With 1 records in the log name the voters,
which can be changed while the quorum runs."""


class ReplicaKey(NamedTuple):
    """A replica of the metadata log: node id, and the id of its metadata directory (16 bytes)."""

    id: int
    directory_id: bytes = NO_DIRECTORY

    def __str__(self) -> str:
        directory = "<undefined>" if self.directory_id == NO_DIRECTORY else uuid_text(self.directory_id)
        return f"ReplicaKey(id={self.id}, directoryId={directory})"


class VoterEndpoint(NamedTuple):
    """An address of a voter: listener name, host, port."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    """A voter, its addresses, and the versions of kraft.version that it supports."""

    key: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...] = ()
    min_version: int = 0
    max_version: int = KRAFT_VERSION_MAX

    def is_key(self, key: ReplicaKey) -> bool:
        """Whether a replica is this voter. If the voter has no directory id, the node id alone is compared."""
        return key.id == self.key.id and self.key.directory_id in (NO_DIRECTORY, key.directory_id)

    def supports(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version


class VoterSet:
    """A set of voters with different node ids, in order of node id."""

    __slots__ = ("_by_id", "ids", "majority")

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        """Create the set. Raises ValueError if two voters have the same node id."""
        listed = sorted(voters, key=lambda voter: voter.key.id)
        self._by_id = {voter.key.id: voter for voter in listed}
        if len(self._by_id) != len(listed):
            raise ValueError(f"two voters have the same node id: {[voter.key.id for voter in listed]}")
        self.ids = tuple(self._by_id)
        self.majority = len(listed) // 2 + 1

    @classmethod
    def of_ids(cls, ids: Iterable[int]) -> "VoterSet":
        """The voters of a static quorum."""
        return cls(Voter(ReplicaKey(id_)) for id_ in set(ids))

    def get(self, id_: int) -> Voter | None:
        return self._by_id.get(id_)

    def is_voter(self, key: ReplicaKey) -> bool:
        voter = self._by_id.get(key.id)
        return voter is not None and voter.is_key(key)

    def with_voter(self, voter: Voter) -> "VoterSet":
        """A set with `voter`, in place of the voter with the same node id if there is one."""
        return VoterSet((self._by_id | {voter.key.id: voter}).values())

    def without(self, id_: int) -> "VoterSet":
        return VoterSet(voter for voter in self if voter.key.id != id_)

    @property
    def keys(self) -> tuple[ReplicaKey, ...]:
        return tuple(voter.key for voter in self)

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._by_id == other._by_id

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"VoterSet([{', '.join(map(str, self.keys))}])"
