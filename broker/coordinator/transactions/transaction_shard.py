"""TransactionShard: the state machine that the runtime loads, drives and wakes for one partition of
`__transaction_state`.

Source: Kafka's `TransactionStateManager`.
"""

from __future__ import annotations

from collections.abc import Callable

from minikafka.broker.coordinator.deadlines import Deadlines
from minikafka.broker.coordinator.decision import Decision, Now
from minikafka.broker.coordinator.transactions.transaction import Transaction
from minikafka.broker.coordinator.transactions.transaction_records import decode_record, encode_record
from minikafka.broker.coordinator.transactions.transaction_settings import TransactionSettings

TIMEOUTS, EXPIRY = "timeouts", "expiry"
"""The deadlines: the next check for transactions that timed out, and for transactional ids that expired."""
ABORTED_MAX, EXPIRED_MAX = 50, 1_000
"""Records of one batch; the rest follows in further batches."""


class TransactionShard:
    """The transactions of one partition of `__transaction_state`; a `runtime.CoordinatorState`.

    Args:
        settings: The node's.
        partition: The partition of `__transaction_state`.
        coordinator_epoch: The leader epoch of that partition, which markers carry.
        transaction_version: Returns the finalized level of `transaction.version`.
        prepared: Called with this shard and the transactional id when the outcome of a transaction is in the log: by a
            decision, or by the last coordinator, which did not complete it.

    Attributes:
        transactions: By transactional id. Only `apply` changes it.
        prepared_offsets: The offset of the record with the outcome, of each prepared transaction.
    """

    last_record_counts = False
    decode = staticmethod(decode_record)

    def __init__(
        self,
        settings: TransactionSettings,
        partition: int,
        coordinator_epoch: int,
        transaction_version: Callable[[], int],
        prepared: Callable[[TransactionShard, str], None],
    ) -> None:
        self.settings = settings
        self.partition = partition
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version
        self.transactions: dict[str, Transaction] = {}
        self.prepared_offsets: dict[str, int] = {}
        self._prepared = prepared
        self._is_loaded = False
        self._deadlines: Deadlines[str] = Deadlines()
        self._open_since: dict[str, tuple[int, int, int, int]] = {}
        """By transactional id: producer id, epoch and start of an open transaction, and when it was first noticed."""

    def encode(self, key: str, value: Transaction | None) -> tuple[bytes, bytes | None]:
        """Encode a record for the log."""
        return encode_record(key, value, min(self.transaction_version(), 1))

    def apply(self, key: str, value: Transaction | None, record_offset: int, producer_id: int) -> None:
        """Apply a record, live or during loading."""
        self.prepared_offsets.pop(key, None)
        if value is None:
            self.transactions.pop(key, None)
            return
        self.transactions[key] = value
        if value.is_prepared:
            self.prepared_offsets[key] = record_offset
            if self._is_loaded:
                self._prepared(self, key)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """This topic has no records of transactions, hence no markers."""

    def loaded(self, now: Now) -> list[Decision]:
        """Resume the transactions whose outcome is decided, and start the checks."""
        self._is_loaded = True
        self._deadlines.set(TIMEOUTS, now.steady_ms + self.settings.abort_interval_ms)
        self._deadlines.set(EXPIRY, now.steady_ms + self.settings.expiry_interval_ms)
        for transactional_id in list(self.prepared_offsets):
            self._prepared(self, transactional_id)
        return []

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline, on the steady clock."""
        return self._deadlines.next_ms()

    def due(self, now: Now) -> list[str]:
        """Remove and return the deadlines that have passed."""
        return self._deadlines.due(now.steady_ms)

    def expire(self, name: str, now: Now) -> Decision:
        """Abort the transactions that timed out, or remove the transactional ids that expired."""
        if name == TIMEOUTS:
            self._deadlines.set(TIMEOUTS, now.steady_ms + self.settings.abort_interval_ms)
            return self._abort_timed_out(now)
        assert name == EXPIRY, name
        self._deadlines.set(EXPIRY, now.steady_ms + self.settings.expiry_interval_ms)
        return self._remove_expired(now)

    def _abort_timed_out(self, now: Now) -> Decision:
        late = self._timed_out(now)
        decision = Decision()
        for key in late[:ABORTED_MAX]:
            aborted = self.transactions[key].fenced(now.clock_ms, self.transaction_version())
            decision.records.append((key, aborted))
        if len(late) > ABORTED_MAX:
            decision.then = lambda: self._abort_timed_out(now)
        return decision

    def _timed_out(self, now: Now) -> list[str]:
        """The ids of the transactions that are open for longer than their timeout.

        By the wall clock, as in Kafka, or by the steady clock since this coordinator noticed them: a transaction that
        began while a clock was ahead would stay open for that time otherwise.
        """
        known, self._open_since = self._open_since, {}
        late: list[str] = []
        for key, one in self.transactions.items():
            if not one.is_limited:
                continue
            began = one.producer_id, one.producer_epoch, one.start_ms
            *before, noticed_ms = known.get(key, (*began, now.steady_ms))
            if tuple(before) != began:
                noticed_ms = now.steady_ms
            self._open_since[key] = *began, noticed_ms
            if one.start_ms + one.timeout_ms < now.clock_ms or noticed_ms + one.timeout_ms < now.steady_ms:
                late.append(key)
        return late

    def _remove_expired(self, now: Now) -> Decision:
        expiration_ms = self.settings.expiration_ms
        old = [key for key, one in self.transactions.items() if one.has_expired(now.clock_ms, expiration_ms)]
        decision = Decision([(key, None) for key in old[:EXPIRED_MAX]])
        if len(old) > EXPIRED_MAX:
            decision.then = lambda: self._remove_expired(now)
        return decision
