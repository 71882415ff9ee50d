"""TransactionShard: the state machine that the runtime loads, drives and wakes for one partition of
`__transaction_state`.

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
"""The deadlines: what the last coordinator did not complete, and the next check for transactions that timed out, and
for transactional ids that expired."""
ABORTED_MAX, EXPIRED_MAX, RESUMED_MAX = 50, 1_000, 1_000
"""Transactions of one decision; the rest follows in further ones."""
VISITED_MAX = 10_000
"""Transactions that are looked at in vain before others run: they take up to 5 ms."""


class TransactionShard:
    """The transactions of one partition of `__transaction_state`; a `runtime.CoordinatorState`.

    Args:
        settings: The node's.
        partition: The partition of `__transaction_state`.
        coordinator_epoch: The leader epoch of that partition, which markers carry.
        transaction_version: Returns the finalized level of `transaction.version`.
        prepared: Called with this shard and the transactional id when the outcome of a transaction is in the log: by a
            decision, or by the last coordinator, which did not complete it.
        exhausted: Called with the transactional id of a transaction that has timed out at the last epoch of its
            producer: the abort gives it another producer id (version 2).

    Attributes:
        transactions: By transactional id. Only `apply` changes it.
        prepared_offsets: The offset of the record with the outcome, of each prepared transaction.
        deadlines: The next checks.
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
        """By transactional id of each open transaction with a timeout: when the first check after its begin was."""

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

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """This topic has no records of transactions, hence no markers."""

    def loaded(self, now: Now) -> Generator[Decision, None, None]:
        """Start the checks; the first thing to do is to resume the transactions whose outcome is decided."""
        self._is_loaded = True
        self._unresumed = dict(self.prepared_offsets)
        self.deadlines.set(RESUMPTION, now.steady_ms)
        self.deadlines.set(TIMEOUTS, now.steady_ms + self.settings.abort_interval_ms)
        self.deadlines.set(EXPIRY, now.steady_ms + self.settings.expiry_interval_ms)
        yield Decision()

    def expire(self, name: str, now: Now) -> Generator[Decision, None, None]:
        """Resume transactions, abort those that timed out, or remove the transactional ids that expired."""
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
        """Whether a transaction is open for longer than its timeout.

        By the wall clock, as in Kafka, or by the steady clock since this coordinator noticed it: a transaction that
        began while a clock was ahead would stay open for that time otherwise.
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
    """Decide about each transaction, in decisions of so many records; others may change it before it is its turn."""
    decision, visited = Decision(), 0
    for key in keys:
        decide(key, decision)
        visited += 1
        if len(decision.records) >= records_max or visited >= VISITED_MAX:
            yield decision
            decision, visited = Decision(), 0
    yield decision
