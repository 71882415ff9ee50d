"""What a producer does with an open transaction, and with undelivered records, when a block is left."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio

from minikafka.client.escaped_log import escaped
from minikafka.client.producer.record_accumulator import Accumulator
from minikafka.client.producer.transactions import Transactions
from minikafka.protocol.errors import KafkaError, NetworkError

_logger = escaped(logging.getLogger("minikafka.client.producer"))
ABORT_TIMEOUT_S = 5


async def abort_open(transactions: Transactions) -> None:
    """Abort a transaction that is still open, since consumers would wait for its end."""
    if transactions.is_open:
        _logger.warning("producer closed within a transaction, which is aborted: %s", transactions.name)
        with anyio.move_on_after(ABORT_TIMEOUT_S, shield=True):
            try:
                await transactions.resolve()
            except KafkaError as error:
                _logger.warning("transaction not aborted, it will time out: %s", error)


async def abort_after(transactions: Transactions, error: BaseException) -> None:
    """Abort what is open, after an exception, for a few seconds; what fails thereby is noted in the exception."""
    if not transactions.is_open:
        return
    with anyio.move_on_after(ABORT_TIMEOUT_S, shield=True) as scope:
        try:
            await transactions.resolve()
        except KafkaError as failure:
            error.add_note(f"aborting the transaction failed as well: {failure}")
    if scope.cancelled_caught:
        error.add_note(f"the transaction was not aborted within {ABORT_TIMEOUT_S} s; it will time out")


def drop_undelivered(
    accumulator: Accumulator, drop_ahead: Callable[[KafkaError], int], left_by: BaseException | None
) -> None:
    """Fail all records, and log how many these are.

    Args:
        drop_ahead: drops those that the accumulator has not got yet, and returns their number.
        left_by: the exception that the block was left by.
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
