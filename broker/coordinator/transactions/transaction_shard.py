"""`TransactionShard`: one partition of `__transaction_state`; aborts what exceeds `transaction.timeout.ms`.

The coordinator runtime drives it.

Source: Kafka's `TransactionStateManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from minikafka.broker.coordinator.deadlines import Deadlines
from minikafka.broker.coordinator.decision import Decision, Now
from minikafka.broker.coordinator.transactions.transaction import EPOCH_PER_TRANSACTION, Transaction, is_exhausted
from minikafka.broker.coordinator.transactions.transaction_records import decode_record, encode_record
from minikafka.broker.coordinator.transactions.transaction_settings import TransactionSettings

RESUMPTION, TIMEOUTS, EXPIRY = "resumption", "timeouts", "expiry"
"""The names of the deadlines: resumption of the transactions that the last coordinator did not complete, the next check
for transactions that timed out, and the next check for transactional ids that expired."""
ABORTED_MAX, EXPIRED_MAX, RESUMED_MAX = 50, 1_000, 1_000
"""The largest numbers of transactions in one decision. Further decisions follow for other transactions."""
VISITED_MAX = 10_000
"""The number of transactions that are looked at without a result before other tasks run; up to 5 ms."""


class TransactionShard:
    """The transactions of one partition of `__transaction_state`; a `runtime.CoordinatorState`.

    Args:
        settings: The settings of the node's transaction coordinator.
        partition: The partition of `__transaction_state`.
        coordinator_epoch: The leader epoch of that partition, which markers carry.
        transaction_version: Returns the finalized level of `transaction.version`.
        prepared: Called with this shard and the transactional id when the outcome of a transaction is in the log: a
            decision has written it, or the last coordinator, which did not complete the transaction.
        exhausted: Called with this shard and the transactional id of a transaction that has timed out at the last
            epoch of its producer: the abort needs another producer id (version 2).

    Attributes:
        transactions: The transactions by transactional id. Only `apply` changes this dictionary.
        prepared_offsets: By transactional id of each prepared transaction, the offset of the record with the outcome.
        deadlines: The times of the next checks.
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
        exhausted: Callable[[TransactionShard, str], None],
    ) -> None:
        self.settings = settings
        self.partition = partition
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version
        self.transactions: dict[str, Transaction] = {}
        self.prepared_offsets: dict[str, int] = {}
        self._prepared = prepared
        self._exhausted = exhausted
        self._is_loaded = False
        self.deadlines: Deadlines[str] = Deadlines()
        self._unresumed: dict[str, int] = {}
        """The prepared transactions of the last coordinator, with the offsets of their records."""
        self._open_since: dict[str, int | None] = {}
        """By transactional id of each open transaction with a timeout, the time of the first check after its begin."""

    def encode(self, key: str, value: Transaction | None) -> tuple[bytes, bytes | None]:
        """Encode a record for the log."""
        return encode_record(key, value, min(self.transaction_version(), 1))

    def apply(self, key: str, value: Transaction | None, record_offset: int, producer_id: int) -> None:
        """Apply a record, live or during loading."""
        self.prepared_offsets.pop(key, None)
        if value is None:
            self.transactions.pop(key, None)
            self._open_since.pop(key, None)
            return
        self.transactions[key] = value
        if value.is_limited:
            self._open_since.setdefault(key, None)
        else:
            self._open_since.pop(key, None)
        if value.is_prepared:
            self.prepared_offsets[key] = record_offset
            if self._is_loaded:
                self._prepared(self, key)

    def end_transaction(self, producer_id: int, *, committed: bool) -> Generator[None, None, None]:
        """Do nothing: this topic has no transactional records, and so no markers."""
        yield from ()

    def loaded(self, now: Now) -> Generator[Decision, None, None]:
        """Set the deadlines of the checks. The first deadline resumes the transactions whose outcome is decided."""
        self._is_loaded = True
        self._unresumed = dict(self.prepared_offsets)
        self.deadlines.set(RESUMPTION, now.steady_ms)
        self.deadlines.set(TIMEOUTS, now.steady_ms + self.settings.abort_interval_ms)
        self.deadlines.set(EXPIRY, now.steady_ms + self.settings.expiry_interval_ms)
        yield Decision()

    def expire(self, name: str, now: Now) -> Generator[Decision, None, None]:
        """Resume transactions, abort timed-out transactions, or remove expired transactional ids, by deadline."""
        if name == RESUMPTION:
            return self._resume()
        if name == TIMEOUTS:
            return self._abort_timed_out(now)
        assert name == EXPIRY, name
        return self._remove_expired(now)

    def _resume(self) -> Generator[Decision, None, None]:
        while self._unresumed:
            for _ in range(min(RESUMED_MAX, len(self._unresumed))):
                key, offset = self._unresumed.popitem()
                if self.prepared_offsets.get(key) == offset:
                    self._prepared(self, key)
            yield Decision()

    def _abort_timed_out(self, now: Now) -> Generator[Decision, None, None]:
        def abort(key: str, decision: Decision) -> None:
            version = self.transaction_version()
            if not self.has_timed_out(key, now):
                return
            if version >= EPOCH_PER_TRANSACTION and is_exhausted(self.transactions[key].producer_epoch):
                self._exhausted(self, key)
            else:
                decision.records.append((key, self.transactions[key].fenced(now.clock_ms, version)))

        try:
            yield from _for_each(list(self._open_since), abort, ABORTED_MAX)
        finally:
            self.deadlines.set(TIMEOUTS, now.steady_ms + self.settings.abort_interval_ms)

    def has_timed_out(self, key: str, now: Now) -> bool:
        """Whether a transaction has been open for longer than its timeout.

        The time is measured by the wall clock, as in Kafka, and by the steady clock since this coordinator noticed the
        transaction. With the wall clock alone, a transaction that began while a clock was ahead would stay open longer.
        """
        if key not in self._open_since:
            return False
        noticed_ms = self._open_since[key]
        if noticed_ms is None:
            noticed_ms = self._open_since[key] = now.steady_ms
        one = self.transactions[key]
        return one.start_ms + one.timeout_ms < now.clock_ms or noticed_ms + one.timeout_ms < now.steady_ms

    def _remove_expired(self, now: Now) -> Generator[Decision, None, None]:
        def remove(key: str, decision: Decision) -> None:
            one = self.transactions.get(key)
            if one is not None and one.has_expired(now.clock_ms, self.settings.expiration_ms):
                decision.records.append((key, None))

        try:
            yield from _for_each(list(self.transactions), remove, EXPIRED_MAX)
        finally:
            self.deadlines.set(EXPIRY, now.steady_ms + self.settings.expiry_interval_ms)


def _for_each(
    keys: list[str], decide: Callable[[str, Decision], None], records_max: int
) -> Generator[Decision, None, None]:
    """Decide about each transaction, in decisions of up to `records_max` records.

    Other operations run between two decisions, and may change a transaction before its turn.
    """
    decision, visited = Decision(), 0
    for key in keys:
        decide(key, decision)
        visited += 1
        if len(decision.records) >= records_max or visited >= VISITED_MAX:
            yield decision
            decision, visited = Decision(), 0
    yield decision
