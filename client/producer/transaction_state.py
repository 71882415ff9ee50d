"""The state of a transactional producer (Kafka's `TransactionManager`), and the errors that change it. Pure.

    READY ──begin──► IN_TRANSACTION ──commit──► COMMITTING ──ended──► READY
                          │    └──────abort──► ABORTING ──ended──► READY
                          └─error─► ABORTABLE_ERROR ──abort──► ABORTING        any ──fatal error──► FATAL_ERROR

The protocol has two versions. In version 1 (KIP-98) the coordinator must know a partition before a batch is sent to it:
new partitions wait for AddPartitionsToTxn. In version 2 (KIP-890) the partition's leader adds the partition, and each
transaction has its own producer epoch, which the end of the previous transaction has assigned.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError, ProducerFencedError


class AbortableTransactionError(KafkaError):
    """The transaction cannot be committed: call `abort`, and then begin it again. `__cause__` is the reason.

    A transaction that was open for longer than `transaction_timeout_ms` has been aborted by its coordinator.
    """

    code = ErrorCode.TRANSACTION_ABORTABLE


class TransactionAborted(KafkaError):
    """A record was not sent, because its transaction was aborted before."""

    code = ErrorCode.TRANSACTION_ABORTABLE


class FatalTransactionError(KafkaError):
    """The producer cannot be used any longer: close it, and create another one. `__cause__` is the reason."""

    code = ErrorCode.INVALID_TXN_STATE


class ProducerFenced(FatalTransactionError, ProducerFencedError):
    """Another producer with the same `transactional_id` has started, or, before `transaction.version` 2, a time-out."""

    code = ErrorCode.PRODUCER_FENCED


class Phase(Enum):
    """The phases of a transactional producer; the module's docstring has a diagram of the transitions."""

    READY = "no transaction is open"
    IN_TRANSACTION = "a transaction is open"
    COMMITTING = "the transaction is being committed"
    ABORTING = "the transaction is being aborted"
    ABORTABLE_ERROR = "the transaction has failed and must be aborted"
    FATAL_ERROR = "the producer has failed"


class Reaction(Enum):
    """The reactions to an error of a coordinator."""

    RETRY = "repeat the request"
    FIND_COORDINATOR = "look the coordinator up, and repeat the request"
    ABORT = "the transaction must be aborted"
    FAIL = "the producer cannot be used any longer"


_FIND = frozenset({
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.BROKER_NOT_AVAILABLE,
})
_RETRY = frozenset({
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
})
_ABORT = frozenset({
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
})
DENIALS = frozenset({
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
})
"""The errors that say that a right is missing."""
_FATAL_FOR_BATCHES = frozenset({
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
})
_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_AFTER_TIMEOUT = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_EPOCH})
"""The errors of leaders and coordinators in version 2 after a transaction has timed out; `abort` is still possible."""


def reaction(error: KafkaError) -> Reaction:
    """The reaction to the error of a coordinator."""
    if error.code in _FIND:
        return Reaction.FIND_COORDINATOR
    if error.code in _RETRY:
        return Reaction.RETRY
    return Reaction.ABORT if error.code in _ABORT else Reaction.FAIL


class TransactionState:
    """The state machine of a transactional producer; the module's docstring has its diagram.

    Args:
        timeout_ms: the option `transaction_timeout_ms`.
        now: returns the time, in seconds.

    Attributes:
        is_open: whether `phase` is IN_TRANSACTION, for the check of each record.
        error: the error with which the transaction or the producer has failed, or None.
        version2: whether the open transaction follows version 2; decided when the transaction begins.
        started: whether the coordinator or a leader may know of the open transaction.
        confirmed: in version 1, whether the coordinator has confirmed that it knows of the open transaction.
        ending: whether the coordinator may have been told to commit, so that it is too late to abort.
        bump_wanted: whether the next transaction needs another epoch, because sequence numbers may have a gap, or
            offsets may be in flight.
    """

    def __init__(self, transactional_id: str, *, timeout_ms: float, now: Callable[[], float]) -> None:
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._now = now
        self._begun_at = 0.0
        self._fenced_by = ""
        self.phase = Phase.READY
        self.error: KafkaError | None = None
        self.version2 = False
        self.started = self.confirmed = False
        self.bump_wanted = False
        self.ending = False
        self._new: dict[tuple[str, int], None] = {}
        self._adding: dict[tuple[str, int], None] = {}
        self._added: dict[tuple[str, int], None] = {}

    @property
    def phase(self) -> Phase:
        """The current phase; setting it updates `is_open`."""
        return self._phase

    @phase.setter
    def phase(self, phase: Phase) -> None:
        self._phase = phase
        self.is_open = phase is Phase.IN_TRANSACTION

    # -- the user's calls ----------------------------------------------------------------------------------------

    def begin(self, *, version2: bool) -> None:
        """Begin a transaction. Raises RuntimeError if a transaction is open, FatalTransactionError."""
        self._refuse_after_fatal()
        if self.phase is not Phase.READY:
            raise RuntimeError(f"cannot begin a transaction: {self.phase.value}; {self._advice()}")
        self.phase = Phase.IN_TRANSACTION
        self.version2 = version2
        self._begun_at = self._now()
        self.started = self.confirmed = self.ending = False
        self._new, self._adding, self._added = {}, {}, {}

    def check_open(self) -> None:
        """Raise RuntimeError if no transaction is open, AbortableTransactionError or FatalTransactionError."""
        if self.phase is Phase.IN_TRANSACTION:
            return
        self._refuse_after_fatal()
        if self.phase is Phase.ABORTABLE_ERROR:
            raise self._abortable()
        raise RuntimeError(f"{self.phase.value}: call begin() first, or use `async with producer.transaction():`")

    def commit(self) -> None:
        """Begin to commit; may be called again if a commit had no response. Raises the errors of `check_open`."""
        if self.phase is not Phase.COMMITTING:
            self.check_open()
            self.phase = Phase.COMMITTING

    def abort(self) -> None:
        """Begin to abort; may be called again. Raises RuntimeError if that is impossible, FatalTransactionError."""
        self._refuse_after_fatal()
        if not self.can_abort:
            raise RuntimeError(f"cannot abort: {self.phase.value}; {self._advice()}")
        self.phase = Phase.ABORTING

    @property
    def is_known(self) -> bool:
        """Whether the coordinator knows of the open transaction; True in version 2, where this makes no difference."""
        return self.version2 or self.confirmed

    @property
    def can_abort(self) -> bool:
        """Whether a transaction is open, and the coordinator was not told to commit it."""
        if self.phase is Phase.COMMITTING:
            return not self.ending
        return self.phase in (Phase.IN_TRANSACTION, Phase.ABORTABLE_ERROR, Phase.ABORTING)

    def check_committing(self) -> None:
        """Raise the error that has prevented the commit, if there is one."""
        self._refuse_after_fatal()
        if self.phase is Phase.ABORTABLE_ERROR:
            raise self._abortable()

    def ended(self) -> None:
        """Note that the transaction is committed or aborted."""
        self.phase = Phase.READY
        self.error = None
        self.bump_wanted = False

    # -- partitions ----------------------------------------------------------------------------------------------

    def use(self, topic: str, partition: int) -> None:
        """Note that records for a partition are queued, which makes the partition a part of the transaction."""
        key = (topic, partition)
        if self.version2:
            self._added[key] = None
        elif key not in self._added and key not in self._adding:
            self._new[key] = None

    def take_new(self) -> list[tuple[str, int]]:
        """Return the partitions to add now; none while others are being added, or once the transaction has failed."""
        if self._adding or not self._new or not self.sends:
            return []
        self._adding, self._new = self._new, {}
        self.started = True
        return list(self._adding)

    def added(self) -> None:
        """Note that the coordinator knows the partitions of the last `take_new`."""
        self.confirmed = True
        self._added |= self._adding
        self._adding = {}

    @property
    def sends(self) -> bool:
        """Whether batches may be sent."""
        return self.phase is Phase.IN_TRANSACTION or self.phase is Phase.COMMITTING

    @property
    def failed(self) -> bool:
        """Whether `phase` is ABORTABLE_ERROR or FATAL_ERROR."""
        return self.phase is Phase.ABORTABLE_ERROR or self.phase is Phase.FATAL_ERROR

    def may_send(self, topic: str, partition: int) -> bool:
        """Whether a batch may be sent to this partition now."""
        return self.sends and (topic, partition) in self._added

    # -- errors --------------------------------------------------------------------------------------------------

    def batch_failed(self, error: KafkaError) -> KafkaError:
        """Handle a batch that will not be delivered; return the error for its records."""
        self.bump_wanted = True
        if self.times_out_with(error):
            return self._abortable()
        if error.code in _FATAL_FOR_BATCHES or (not self.version2 and self._overtime and error.code in _FENCED):
            self.fail(error)
        else:
            self.must_abort(error)
        return error

    def refused(self, error: Exception) -> None:
        """Note that a record of the open transaction was refused before it was queued.

        A commit of which the coordinator may know goes on: `send` was called beside it, not before it.

        Source: `KafkaProducer.doSend` and `TransactionManager.maybeTransitionToErrorState`.
        """
        if isinstance(error, KafkaError) and error.code in _FATAL_FOR_BATCHES:
            self.fail(error)
        elif not self.ending:
            self.must_abort(error if isinstance(error, KafkaError) else _refusal(error))

    def times_out_with(self, error: KafkaError) -> bool:
        """Whether the error means that the coordinator has aborted the open transaction; if so, it must be aborted."""
        if not (self.version2 and error.code in _AFTER_TIMEOUT and self._overtime):
            return False
        if not self.sends:
            return self.phase is Phase.ABORTABLE_ERROR
        cause = TransactionAborted(f"{self._overtime}, and its coordinator has aborted it: {error}")
        cause.__cause__ = error
        self.must_abort(cause)
        return True

    @property
    def _overtime(self) -> str:
        """A message on how long the transaction has been open, if it is longer than allowed; else ""."""
        open_s = self._now() - self._begun_at
        if self.phase is Phase.READY or open_s * 1000 <= self._timeout_ms:
            return ""
        return f"the transaction was open for {open_s:.1f} s, longer than transaction_timeout_ms={self._timeout_ms:.0f}"

    def must_abort(self, error: KafkaError) -> None:
        """Note that the open transaction has failed; do nothing if none is open, or it is being aborted already."""
        if self.sends:
            self.phase = Phase.ABORTABLE_ERROR
            self.error = error

    def fail(self, error: KafkaError) -> None:
        """Note that the producer has failed for good."""
        if self.phase is not Phase.FATAL_ERROR:
            self._fenced_by = self._overtime or "the transaction has timed out (transaction_timeout_ms)"
            self.phase = Phase.FATAL_ERROR
            self.error = error

    def _abortable(self) -> KafkaError:
        error = AbortableTransactionError(f"the transaction has failed, call abort() and begin it again: {self.error}")
        error.__cause__ = self.error
        return error

    def _refuse_after_fatal(self) -> None:
        if self.phase is Phase.FATAL_ERROR:
            assert self.error is not None
            name = repr(self.transactional_id)
            if self.error.code in _FENCED:
                raise ProducerFenced(
                    f"another producer with transactional_id {name} has started, or {self._fenced_by};"
                    f" close this producer: {self.error}"
                ) from self.error
            raise FatalTransactionError(
                f"the producer with transactional_id {name} has failed, close it and create another one: {self.error}"
            ) from self.error

    def _advice(self) -> str:
        if self.phase is Phase.COMMITTING:
            return "its outcome is not known, call commit() again"
        if self.phase is Phase.READY:
            return "call begin() first"
        if self.phase is Phase.IN_TRANSACTION:
            return "commit() or abort() it first"
        return "call abort() first"


def _refusal(cause: Exception) -> KafkaError:
    error = TransactionAborted(f"a record was refused: {cause}")
    error.__cause__ = cause
    return error
