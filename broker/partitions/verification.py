"""`Verifications`: decides which transactional batches may open a transaction in a partition, as the coordinator
confirms (KIP-890, part 1).

The first batch of a transaction in a partition is appended only if the transaction coordinator has confirmed that the
partition belongs to the transaction. Otherwise a late batch of a finished transaction would open a transaction that is
never ended. To ask the coordinator takes time, but an append does not wait; so there are two steps:

    begin ─► a token ─► ask the coordinator … ─► append with the token: checked and appended in one step

A transaction marker that is appended meanwhile, or a new leader epoch, makes the token void. There is one exception: if
each transaction has a producer epoch of its own, the marker of the previous transaction leaves the token valid, since a
client begins the next transaction before that marker is written. Source: Kafka's `VerificationGuard`,
`VerificationStateEntry`.
"""

from __future__ import annotations

from minikafka.protocol.errors import InvalidProducerEpochError, InvalidTxnStateError, OutOfOrderSequenceNumberError
from minikafka.protocol.records.batch import Batch
from minikafka.storage.logs.producer_state import ProducerStates

ENTRIES_MAX = 10_000
"""The most verifications that are begun and not used yet; beyond this number the oldest become void."""


class Verification:
    """A token for the batches of one producer in one partition, while its transaction is not open there.

    Attributes:
        lowest_sequence: The first sequence number among the batches that wait for the verification.
        bumps_epoch: Whether the producer gets a new epoch for each transaction, which then begins with sequence 0.
    """

    __slots__ = ("_by_producer", "bumps_epoch", "lowest_sequence", "producer_epoch", "producer_id")

    def __init__(
        self,
        by_producer: dict[int, Verification],
        producer_id: int,
        producer_epoch: int,
        sequence: int,
        *,
        bumps_epoch: bool,
    ) -> None:
        self._by_producer = by_producer
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        self.bumps_epoch = bumps_epoch

    def withdraw(self) -> None:
        """Drop the verification: the coordinator does not know a producer of this id and epoch."""
        if self._by_producer.get(self.producer_id) is self:
            del self._by_producer[self.producer_id]


class Verifications:
    """The verifications that a leader has begun, by producer id."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def begin(
        self, producers: ProducerStates, producer_id: int, epoch: int, sequence: int, *, bumps_epoch: bool = False
    ) -> Verification | None:
        """Return the token for a batch; None if the batch's transaction is already open in the partition.

        Raises:
            InvalidProducerEpochError: The partition has seen a later epoch, so the coordinator need not be asked.
        """
        if is_open(producers, producer_id, epoch):
            return None
        producer = producers.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise InvalidProducerEpochError(
                f"Epoch of producer {producer_id} is {epoch}, "
                f"which is smaller than the last seen epoch {producer.epoch}"
            )
        known = self._by_producer.get(producer_id)
        if known is not None and known.producer_epoch == epoch:
            known.lowest_sequence = min(known.lowest_sequence, sequence)
            return known
        if known is not None and known.producer_epoch > epoch:
            # Void: the producer is fenced.
            return Verification(self._by_producer, producer_id, epoch, sequence, bumps_epoch=bumps_epoch)
        if len(self._by_producer) >= ENTRIES_MAX:
            del self._by_producer[next(iter(self._by_producer))]
        begun = Verification(self._by_producer, producer_id, epoch, sequence, bumps_epoch=bumps_epoch)
        self._by_producer[producer_id] = begun
        return begun

    def check(self, producers: ProducerStates, batch: Batch, token: object | None) -> None:
        """Check a transactional batch immediately before it is appended.

        Raises:
            InvalidTxnStateError: The batch's transaction is not open here, and the token is void or missing.
        """
        if is_open(producers, batch.producer_id, batch.producer_epoch):
            return
        known = self._by_producer.get(batch.producer_id)
        if known is None or token is not known:
            raise InvalidTxnStateError(
                f"Record was not part of an ongoing transaction: producer {batch.producer_id}, epoch "
                f"{batch.producer_epoch}"
            )

    def check_sequence(self, producers: ProducerStates, batch: Batch) -> None:
        """Check that no earlier batch of the producer still waits for the verification.

        Raises:
            OutOfOrderSequenceNumberError: An earlier batch still waits, or the first batch of a producer whose epoch is
                bumped has another sequence than 0.
        """
        known = self._by_producer.get(batch.producer_id)
        if known is None:
            return
        first_is_missing = known.bumps_epoch and batch.base_sequence and producers.get(batch.producer_id) is None
        if first_is_missing or batch.base_sequence > known.lowest_sequence:
            raise OutOfOrderSequenceNumberError(
                f"Out of order sequence number for producer {batch.producer_id}: {batch.base_sequence} (incoming seq. "
                f"number), {known.lowest_sequence} (earliest seen sequence)"
            )

    def used(self, producer_id: int) -> None:
        """Drop the token of a producer whose transaction is now open."""
        self._by_producer.pop(producer_id, None)

    def end(self, producer_id: int, marker_epoch: int) -> None:
        """Drop the token of a producer whose transaction a marker has ended, unless the token is for the next one.

        If each transaction has its own epoch, the marker has the epoch of the next transaction.
        """
        known = self._by_producer.get(producer_id)
        if known is not None and not (known.bumps_epoch and known.producer_epoch >= marker_epoch):
            del self._by_producer[producer_id]

    def clear(self) -> None:
        """Make all tokens void: the leader epoch has changed."""
        self._by_producer.clear()


def is_open(producers: ProducerStates, producer_id: int, epoch: int) -> bool:
    """Whether a transaction of this producer and epoch is open in the partition."""
    producer = producers.get(producer_id)
    return producer is not None and producer.transaction_first_offset >= 0 and producer.epoch == epoch
