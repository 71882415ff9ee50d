"""`Transaction`: the state of one transactional id, and the changes from one state to the next. Pure.

    Empty ──partitions added──► Ongoing ──EndTxn──► PrepareCommit ──markers written──► CompleteCommit
      ▲                            │ fenced, timed out, or EndTxn
      │ InitProducerId             └──────────────► PrepareAbort ───markers written──► CompleteAbort
      └── from each of Empty, CompleteCommit, CompleteAbort, which also begin the next transaction

Version 2 (KIP-890) raises the producer epoch with every transaction, and also aborts where nothing was added. A value
is never changed: a decision writes the next one, and the shard replaces it when the record is applied. Source: Kafka's
`TransactionMetadata`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from minikafka.protocol.errors import ProducerFencedError
from minikafka.protocol.names import TopicPartition

EPOCH_MAX = 2**15 - 1
NONE = -1
"""No producer id, no epoch, no time."""
WITHOUT_TIMEOUT_MS = 2**31 - 1
"""The timeout of a transaction of two-phase commit, which the coordinator never aborts (KIP-939)."""
EPOCH_PER_TRANSACTION = 2
"""The first transaction version that raises the producer epoch with every transaction."""


class TransactionState(IntEnum):
    """The states, with their numbers in the log. `title` is the name in requests and responses."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """`PrepareCommit`."""
        return self.name.title().replace("_", "")


EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
PREPARED = (PREPARE_COMMIT, PREPARE_ABORT)
IDLE = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
"""The states without a transaction, in which InitProducerId and a new transaction may follow at once."""


def is_exhausted(epoch: int) -> bool:
    """Whether a producer may not get a higher epoch. The last one is kept for the coordinator, to fence with."""
    return epoch >= EPOCH_MAX - 1


@dataclass(frozen=True, slots=True)
class Transaction:
    """The state of a transactional id.

    Attributes:
        previous_producer_id: The producer id before the last change, often the same.
        next_producer_id: The id of the next transaction, if the epochs of this one are used up (version 2).
        producer_epoch: -1 before the first InitProducerId is answered.
        last_producer_epoch: The epoch before, with which a producer may repeat a request whose answer it lost. Not in
            the log.
        partitions: The partitions that get a marker; empty once all have it.
        start_ms, last_update_ms: Wall clock; `start_ms` is -1 before the first transaction.
        client_version: The transaction version of the client that began or ended the transaction.
    """

    producer_id: int
    timeout_ms: int
    previous_producer_id: int = NONE
    next_producer_id: int = NONE
    producer_epoch: int = NONE
    last_producer_epoch: int = NONE
    state: TransactionState = EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NONE
    last_update_ms: int = NONE
    client_version: int = 0

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided, and markers are being written."""
        return self.state in PREPARED

    @property
    def is_limited(self) -> bool:
        """Whether the transaction is open, and has a timeout."""
        return self.state is ONGOING and self.timeout_ms != WITHOUT_TIMEOUT_MS

    def has_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether the transactional id has not been used for so long that it is removed."""
        return self.state in IDLE and self.last_update_ms <= now_ms - expiration_ms

    # -- changes ------------------------------------------------------------------------------------------------

    def initialized(self, expected_epoch: int | None, timeout_ms: int, now_ms: int) -> Transaction:
        """InitProducerId: the next epoch, which fences older producers (KIP-360).

        Args:
            expected_epoch: The epoch that the producer has, if it continues after an error; None for a new producer.

        Raises:
            ProducerFencedError: Another producer has a later epoch.
        """
        assert self.state in IDLE, self.state
        epoch, last = self.producer_epoch + 1, NONE
        if expected_epoch is not None:
            if self.producer_epoch in (NONE, expected_epoch):
                last = self.producer_epoch
            elif expected_epoch == self.last_producer_epoch:  # The answer was lost, and the request is repeated.
                again = self._idle(
                    self.producer_id, self.producer_epoch, self.last_producer_epoch, timeout_ms, now_ms
                )
                return replace(again, previous_producer_id=self.previous_producer_id)
            else:
                raise ProducerFencedError("There is a newer producer with the same transactionalId.")
        assert epoch < EPOCH_MAX, epoch
        return self._idle(self.producer_id, epoch, last, timeout_ms, now_ms)

    def with_new_producer_id(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, last_epoch: int
    ) -> Transaction:
        """InitProducerId where the epochs are used up: a new producer id, from epoch 0."""
        assert self.state in IDLE, self.state
        return self._idle(producer_id, 0, last_epoch, timeout_ms, now_ms)

    def _idle(self, producer_id: int, epoch: int, last: int, timeout_ms: int, now_ms: int) -> Transaction:
        return replace(
            self,
            producer_id=producer_id,
            previous_producer_id=self.producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last,
            timeout_ms=timeout_ms,
            state=EMPTY,
            partitions=frozenset(),
            start_ms=NONE,
            last_update_ms=now_ms,
        )

    def with_partitions(self, added: frozenset[TopicPartition], now_ms: int, client_version: int) -> Transaction:
        """Add partitions; the first ones begin a transaction."""
        assert self.state in (*IDLE, ONGOING), self.state
        return replace(
            self,
            previous_producer_id=self.producer_id,
            state=ONGOING,
            partitions=self.partitions | added,
            start_ms=self.start_ms if self.state is ONGOING else now_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def prepared(
        self, now_ms: int, client_version: int, *, commit: bool, next_producer_id: int = NONE
    ) -> Transaction:
        """EndTxn: the outcome is decided. Version 2 raises the epoch, and may abort where nothing was added."""
        bump = client_version >= EPOCH_PER_TRANSACTION
        assert self.state is ONGOING or (bump and not commit and self.state in IDLE), self.state
        return replace(
            self,
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            producer_epoch=min(self.producer_epoch + 1, EPOCH_MAX) if bump else self.producer_epoch,
            last_producer_epoch=self.producer_epoch if bump else self.last_producer_epoch,
            state=PREPARE_COMMIT if commit else PREPARE_ABORT,
            start_ms=self.start_ms if self.state is ONGOING else now_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def fenced(self, now_ms: int, server_version: int, next_producer_id: int = NONE) -> Transaction:
        """Abort the open transaction with an epoch that no producer has: it timed out, or another producer began."""
        if server_version >= EPOCH_PER_TRANSACTION:
            return self.prepared(now_ms, server_version, commit=False, next_producer_id=next_producer_id)
        bumped = replace(self, producer_epoch=min(self.producer_epoch + 1, EPOCH_MAX), last_producer_epoch=NONE)
        return bumped.prepared(now_ms, 0, commit=False)

    @property
    def following(self) -> tuple[int, int]:
        """Producer id and epoch of the next transaction. A producer without epochs left goes on with its next id."""
        if self.client_version >= EPOCH_PER_TRANSACTION and self.next_producer_id != NONE:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch

    def completed(self, now_ms: int) -> Transaction:
        """All markers are written."""
        assert self.is_prepared, self.state
        producer_id, producer_epoch = self.following
        return replace(
            self,
            producer_id=producer_id,
            previous_producer_id=self.producer_id,
            next_producer_id=NONE,
            producer_epoch=producer_epoch,
            state=COMPLETE_COMMIT if self.state is PREPARE_COMMIT else COMPLETE_ABORT,
            partitions=frozenset(),
            last_update_ms=now_ms,
        )
