"""`CleanedTransactions`: decides which transactional batches and markers the cleaner may remove. Pure.

The data of an aborted transaction can be removed at once. A marker must stay as long as any batch of its transaction
is left. Otherwise consumers would take aborted data for committed data, or wait for the end of a transaction that has
no marker.

Source: Kafka's `CleanedTransactionMetadata`.
"""

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from minikafka.protocol.records.batch import Batch
from minikafka.protocol.records.control import ControlType, control_type
from minikafka.storage.segments.transaction_index import AbortedTransaction


class CleanedTransactions:
    """Follows the transactions of a log while the cleaner reads the batches of the log in order.

    Attributes:
        retained: called with each aborted transaction whose marker stays, for the transaction index of the cleaned
            segment.
    """

    def __init__(self) -> None:
        self.retained: Callable[[AbortedTransaction], None] = lambda transaction: None
        self._committed: set[int] = set()
        self._aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        self._expected: list[tuple[int, AbortedTransaction]] = []

    def expect(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Adds the aborted transactions that overlap the next segment. A transaction may be added several times."""
        for one in aborted:
            heappush(self._expected, (one.first_offset, one))

    def may_discard(self, batch: Batch) -> bool:
        """Whether the records of the next batch may be removed.

        They may if they are data of an aborted transaction, or the marker of a transaction without other batches.
        Raises CorruptRecords.
        """
        while self._expected and self._expected[0][0] <= batch.last_offset:
            one = heappop(self._expected)[1]
            if batch.base_offset <= one.last_offset:
                self._aborted.setdefault(one.producer_id, (one, False))
        if batch.is_control:
            return self._may_discard_marker(batch)
        if not batch.is_transactional:
            return False
        aborted = self._aborted.get(batch.producer_id)
        if aborted is None:
            self._committed.add(batch.producer_id)
            return False
        self._aborted[batch.producer_id] = (aborted[0], True)
        return True

    def _may_discard_marker(self, batch: Batch) -> bool:
        records = batch.records()
        if not records:
            return True
        kind = control_type(records[0].key)
        if kind is ControlType.ABORT:
            transaction, has_batches = self._aborted.pop(batch.producer_id, (None, False))
            if transaction is not None and has_batches:
                self.retained(transaction)
                return False
            return True
        if kind is ControlType.COMMIT:
            found = batch.producer_id in self._committed
            self._committed.discard(batch.producer_id)
            return not found
        return False
