"""Places the replicas of new partitions in stripes over racks and brokers, so that every broker gets an equal share.

Racks alternate, and so do the brokers within a rack; each partition starts one position after the previous one.
Unfenced brokers come before fenced ones, and only an unfenced one leads. After as many partitions as there are unfenced
brokers the order is shuffled, so that the same sets of brokers do not repeat. Source: `StripedReplicaPlacer`.
"""

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from random import Random

from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.steps import RECORDS_IN_A_STEP
from minikafka.protocol.errors import InvalidReplicationFactorError
from minikafka.storage.steps import at_once

__all__ = ["UsableBroker", "place", "placing_partitions"]


def placing_partitions(
    image: Image, *, partitions: int, replication_factor: int, random: Random
) -> Generator[None, None, list[tuple[int, ...]]]:
    """Place the replicas of new partitions, in steps. No replica is placed on an unfenced broker in controlled
    shutdown, or on a broker whose data directories are all cordoned.

    Raises:
        InvalidReplicationFactorError: there are not enough brokers, with Kafka's message.
    """
    brokers = [
        UsableBroker(node_id, broker.rack, broker.fenced)
        for node_id, broker in sorted(image.brokers.items())
        if broker.takes_replicas and (not broker.in_controlled_shutdown or broker.fenced)
    ]
    try:
        return (yield from _placing(_Stripes(brokers, random), partitions, replication_factor))
    except InvalidReplicationFactorError as error:
        raise InvalidReplicationFactorError(
            f"Unable to replicate the partition {replication_factor} time(s): {error.message}"
        ) from None


@dataclass(frozen=True, slots=True)
class UsableBroker:
    """A broker on which replicas may be placed."""

    node_id: int
    rack: str | None
    fenced: bool


def place(
    brokers: Iterable[UsableBroker], *, partitions: int, replication_factor: int, random: Random
) -> list[tuple[int, ...]]:
    """The replicas of each new partition, the leader first.

    Raises:
        InvalidReplicationFactorError: the replication factor is not positive or exceeds the number of brokers, or all
            brokers are fenced.
    """
    return at_once(_placing(_Stripes(brokers, random), partitions, replication_factor))


def _placing(
    stripes: "_Stripes", partitions: int, replication_factor: int
) -> Generator[None, None, list[tuple[int, ...]]]:
    if replication_factor <= 0:
        raise InvalidReplicationFactorError(
            f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        )
    if not stripes.live_count:
        raise InvalidReplicationFactorError(
            "All brokers are currently fenced, or have all their log directories cordoned."
        )
    if replication_factor > stripes.count:
        raise InvalidReplicationFactorError(
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{stripes.count} broker(s) are registered or some brokers have all their log directories cordoned."
        )
    placed: list[tuple[int, ...]] = []
    while len(placed) < partitions:
        placed.append(stripes.next(replication_factor))
        if len(placed) % RECORDS_IN_A_STEP == 0:
            yield
    return placed


@dataclass(slots=True)
class _RoundRobin:
    """The brokers of a rack in round-robin order; each round starts one position after the previous one."""

    brokers: list[int] = field(default_factory=list)
    start: int = 0
    round: int = 0
    taken: int = 0

    def begin_anywhere(self, random: Random) -> None:
        self.brokers.sort()
        self.start = random.randrange(len(self.brokers)) if self.brokers else 0

    def next(self, number: int) -> int | None:
        """The next broker of round `number`; None if the round has used all brokers."""
        if self.round != number:
            self.round, self.taken = number, 0
            self.start = (self.start + 1) % len(self.brokers) if self.brokers else 0
        if self.taken >= len(self.brokers):
            return None
        self.taken += 1
        return self.brokers[(self.start + self.taken - 1) % len(self.brokers)]


@dataclass(slots=True)
class _Rack:
    live: _RoundRobin = field(default_factory=_RoundRobin)
    fenced: _RoundRobin = field(default_factory=_RoundRobin)

    def next(self, number: int) -> int | None:
        broker = self.live.next(number)
        return self.fenced.next(number) if broker is None else broker


class _Stripes:
    """The racks with their brokers, and the position of the next partition's first replica."""

    def __init__(self, brokers: Iterable[UsableBroker], random: Random) -> None:
        self._random = random
        self._round = 0
        self.count = self.live_count = 0
        racks: dict[str | None, _Rack] = {}
        for broker in brokers:
            rack = racks.setdefault(broker.rack, _Rack())
            (rack.fenced if broker.fenced else rack.live).brokers.append(broker.node_id)
            self.count += 1
            self.live_count += not broker.fenced
        # Brokers without a rack sort first, as in Kafka's comparator of optional strings.
        self._racks = [racks[name] for name in sorted(racks, key=lambda name: (name is not None, name or ""))]
        for rack in self._racks:
            rack.live.begin_anywhere(random)
            rack.fenced.begin_anywhere(random)
        self._first = random.randrange(len(self._racks)) if self._racks else 0

    def next(self, replication_factor: int) -> tuple[int, ...]:
        """The replicas of the next partition."""
        if self._round == self.live_count and self.live_count > 1:
            self._shuffle()
            self._round = 0
        self._first %= len(self._racks)
        leader, led_from = self._leader()
        replicas = [leader]
        turn, skipped = self._first, False
        while len(replicas) < replication_factor:
            if turn == led_from and not skipped:
                skipped = True  # the leader was taken from this rack
            elif (broker := self._racks[turn].next(self._round)) is not None:
                replicas.append(broker)
            turn = (turn + 1) % len(self._racks)
        self._round += 1
        self._first += 1
        return tuple(replicas)

    def _leader(self) -> tuple[int, int]:
        """The leader, an unfenced broker, and the index of its rack: the first rack with one left in this round."""
        for turn in range(self._first, self._first + len(self._racks)):
            index = turn % len(self._racks)
            broker = self._racks[index].live.next(self._round)
            if broker is not None:
                return broker, index
        raise AssertionError("a round has no more partitions than there are live brokers")

    def _shuffle(self) -> None:
        self._random.shuffle(self._racks)
        for rack in self._racks:
            self._random.shuffle(rack.live.brokers)
            self._random.shuffle(rack.fenced.brokers)
