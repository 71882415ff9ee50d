"""Aborts a producer's open transaction, and drops its undelivered records, when a block is left."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio

from minikafka.client.escaped_log import escaped
from minikafka.client.producer.record_accumulator import Accumulator
from minikafka.client.producer.transaction_state import Phase
from minikafka.client.producer.transactions import Transactions
from minikafka.protocol.errors import KafkaError, NetworkError

_logger = escaped(logging.getLogger("minikafka.client.producer"))
ABORT_TIMEOUT_S = 5
"""How long leaving a transaction's or the producer's block waits for the end of the transaction."""


async def abort_open(transactions: Transactions, left_by: BaseException | None) -> None:
    """Abort a transaction that is still open when the producer's block is left: consumers would wait for its end.

    An exception that has also left the transaction's block has spent `ABORT_TIMEOUT_S` there; it is not spent twice.
    """
    if not transactions.is_open:
        return
    committing, failure, name = not transactions.state.can_abort, "", transactions.name
    if left_by is None or transactions.left_by is not left_by:
        transactions.end_by(anyio.current_time() + ABORT_TIMEOUT_S, left_by)
    with anyio.CancelScope(deadline=transactions.ends_by, shield=True):
        try:
            await transactions.resolve()
        except KafkaError as error:
            failure = f": {error}"
    if not transactions.is_open and not failure:
        outcome = "committed" if committing else "aborted"
        _logger.warning("producer closed within a transaction, which was %s: %s", outcome, name)
    else:
        _logger.warning("producer closed within a transaction: %s: %s%s", name, _left_open(transactions), failure)


async def abort_after(
    transactions: Transactions,
    error: BaseException,
    *,
    ahead: Callable[[], Awaitable[None]] | None = None,
    advice: str = "",
) -> None:
    """Abort an open transaction after an exception, within `ABORT_TIMEOUT_S`; a failure is noted in the exception.

    Args:
        ahead: awaited before the abort.
        advice: how to end the wait, for the log line about a long wait.
    """
    if not transactions.is_open:
        return
    transactions.end_by(anyio.current_time() + ABORT_TIMEOUT_S, error)
    what = f"ending the transaction after {type(error).__name__}, for {ABORT_TIMEOUT_S} s at most{advice}"
    with anyio.CancelScope(deadline=transactions.ends_by, shield=True) as scope, transactions.waiting(what):
        try:
            if ahead is not None:
                await ahead()
            await transactions.resolve()
        except KafkaError as failure:
            error.add_note(f"aborting the transaction failed as well: {failure}")
    if scope.cancelled_caught:
        error.add_note(f"the transaction was not ended within {ABORT_TIMEOUT_S} s: {_left_open(transactions)}")


def _left_open(transactions: Transactions) -> str:
    """A description of what becomes of a transaction that was not ended, for messages."""
    if transactions.state.phase is Phase.COMMITTING:
        return "it is not known whether it is committed; if not, its coordinator aborts it after transaction_timeout_ms"
    return "its coordinator aborts it after transaction_timeout_ms"


def drop_undelivered(
    accumulator: Accumulator, drop_ahead: Callable[[KafkaError], int], left_by: BaseException | None
) -> None:
    """Fail all undelivered records, and log their number.

    Args:
        drop_ahead: drops the records that have not reached the accumulator, and returns their number.
        left_by: the exception by which the block was left, or None.
    """
    closed = NetworkError("the producer was closed before the record was delivered")
    left = sum(len(batch.values) for batch in accumulator.unfinished()) + drop_ahead(closed)
    if left and left_by is not None:
        _logger.warning(
            "producer closed with undelivered records: %d: left by %s; flush() delivers them before",
            left,
            type(left_by).__name__,
        )
    elif left:
        _logger.warning("producer closed with undelivered records: %d", left)
    accumulator.fail_all(closed)
