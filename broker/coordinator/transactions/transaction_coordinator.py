"""`TransactionCoordinator`: the entry point of the API handlers for transactional ids.

Source: Kafka's `TransactionCoordinator`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import structlog
import trio

from minikafka.broker.coordinator.decision import Decision, Now, Ticket
from minikafka.broker.coordinator.environment import Environment
from minikafka.broker.coordinator.runtime import CoordinatorRuntime, partition_for
from minikafka.broker.coordinator.transactions.add_partitions import add_partitions, is_member, verify_partitions
from minikafka.broker.coordinator.transactions.completion import Completions, Markers
from minikafka.broker.coordinator.transactions.end_transaction import abort_timed_out, end_transaction
from minikafka.broker.coordinator.transactions.init_producer import (
    ProducerIdentity,
    init_producer_id,
)
from minikafka.broker.coordinator.transactions.transaction import WITHOUT_TIMEOUT_MS
from minikafka.broker.coordinator.transactions.transaction_admin import (
    Filters,
    describe_transaction,
    list_transactions,
    unknown_states,
)
from minikafka.broker.coordinator.transactions.transaction_settings import TransactionSettings
from minikafka.broker.coordinator.transactions.transaction_shard import TransactionShard
from minikafka.controller.patterns import WORK_AT_ONCE, InvalidPattern, Pattern
from minikafka.protocol.errors import (
    ErrorCode,
    KafkaError,
    NotCoordinatorError,
)
from minikafka.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from minikafka.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from minikafka.protocol.messages.list_transactions import TransactionState as ListedTransaction
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.compression import Codec
from minikafka.storage.steps import Pauses, pause
from minikafka.storage.waits import in_task

log = structlog.get_logger("minikafka.coordinator")

TOPIC = "__transaction_state"
LOADING_S = 0.1
"""The longest time in seconds that a request waits for its partition to be loaded."""


Run = Callable[..., Awaitable[Any]]


class TransactionCoordinator:
    """Coordinates the transactional ids whose partitions of `__transaction_state` this node leads.

    Args:
        environment: The node.
        settings: The node's settings.
        next_producer_id: Returns a producer id that was never used. Raises KafkaError.
        transaction_version: Returns the finalized level of `transaction.version`.
        markers: Writes markers wherever the partitions are led.
        run: Calls a function in a worker thread, as `Disk.run`.
    """

    def __init__(
        self,
        environment: Environment,
        settings: TransactionSettings,
        next_producer_id: Callable[[], Awaitable[int]],
        transaction_version: Callable[[], int],
        markers: Markers,
        run: Run,
    ) -> None:
        self._run = run
        self._environment = environment
        self._settings = settings
        self._next_producer_id = next_producer_id
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            environment,
            TOPIC,
            lambda partition, epoch: TransactionShard(
                settings, partition, epoch, transaction_version, self._prepared, self._exhausted
            ),
            commit_timeout_ms=settings.request_timeout_ms,
            load_buffer_size=settings.load_buffer_size,
            codec=Codec.NONE,
        )
        self._completions = Completions(self.runtime, markers)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. Call `elected` only after this has started."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.runtime.run)
            nursery.start_soon(self._completions.run)
            task_status.started()

    def _prepared(self, shard: TransactionShard, transactional_id: str) -> None:
        self._completions.add(shard, transactional_id)

    def _exhausted(self, shard: TransactionShard, transactional_id: str) -> None:
        self.runtime.start_soon(shard.partition, self._abort_exhausted, transactional_id)

    async def _abort_exhausted(self, transactional_id: str) -> None:
        """Without a new producer id, as without a controller, the next look for time-outs tries it again."""
        await self._with_producer_id(transactional_id, partial(abort_timed_out, transactional_id=transactional_id))

    # -- producers -----------------------------------------------------------------------------------------------

    async def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdentity | None,
        *,
        two_phase_commit: bool = False,
        keep_prepared: bool = False,
    ) -> ProducerIdentity:
        """InitProducerId: CONCURRENT_TRANSACTIONS while the transaction of an earlier producer is being ended.

        Args:
            two_phase_commit: The producer's transactions have no timeout (KIP-939).
            keep_prepared: UNSUPPORTED_VERSION, as in Kafka 4.3.
        """
        if not transactional_id:
            return ProducerIdentity(error=ErrorCode.INVALID_REQUEST)
        if two_phase_commit and not self._settings.two_phase_commit_enabled:
            return ProducerIdentity(error=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if keep_prepared:
            return ProducerIdentity(error=ErrorCode.UNSUPPORTED_VERSION)
        if two_phase_commit:
            timeout_ms = WITHOUT_TIMEOUT_MS
        elif not 0 < timeout_ms <= self._settings.timeout_max_ms:
            return ProducerIdentity(error=ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        return await self._with_producer_id(
            transactional_id,
            partial(init_producer_id, transactional_id=transactional_id, timeout_ms=timeout_ms, expected=expected),
        )

    async def end(
        self, transactional_id: str, producer: ProducerIdentity, *, commit: bool, client_version: int
    ) -> ProducerIdentity:
        """EndTxn: answered when the outcome is committed; the markers follow."""
        if not transactional_id:
            return ProducerIdentity(error=ErrorCode.INVALID_REQUEST)
        return await self._with_producer_id(
            transactional_id,
            partial(
                end_transaction,
                transactional_id=transactional_id,
                producer=producer,
                commit=commit,
                client_version=client_version,
            ),
        )

    async def _with_producer_id(self, transactional_id: str, decide: Callable[..., Decision]) -> ProducerIdentity:
        """Decide; once more with a new producer id where that is needed."""
        new_producer_id: int | None = None
        try:
            while True:
                decided = await self._submit(transactional_id, partial(decide, new_producer_id=new_producer_id))
                if isinstance(decided, ProducerIdentity):
                    return decided
                new_producer_id = await self._next_producer_id()
        except KafkaError as error:
            return ProducerIdentity(error=ErrorCode(error.code))

    # -- partitions ----------------------------------------------------------------------------------------------

    async def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: frozenset[TopicPartition],
        *,
        client_version: int,
    ) -> ErrorCode:
        """AddPartitionsToTxn and AddOffsetsToTxn: one error for all partitions.

        A producer may ask for its next transaction while the markers of the last one are being written. That takes less
        time than a client sleeps after CONCURRENT_TRANSACTIONS, so it is waited for.
        """
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        step = partial(
            add_partitions,
            transactional_id=transactional_id,
            producer=producer,
            partitions=partitions,
            client_version=client_version,
        )
        try:
            code: ErrorCode = await self._submit(transactional_id, step)
            last = self._completions.unfinished(transactional_id)
            if code is ErrorCode.CONCURRENT_TRANSACTIONS and last is not None:
                await in_task()
                with trio.move_on_after(self._settings.retry_max_ms / 1000):
                    await last.wait()
                code = await self._submit(transactional_id, step)
        except KafkaError as error:
            return ErrorCode(error.code)
        return code

    async def verify_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: frozenset[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether the partitions belong to the open transaction: an error code for each."""
        if not transactional_id:
            return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
        shard = self.runtime.committed_state(self.partition_of(transactional_id))
        if shard is not None and is_member(shard, transactional_id, producer, partitions):
            return dict.fromkeys(partitions, ErrorCode.NONE)

        def verify(shard: TransactionShard, now: Now, ticket: Ticket) -> Decision:
            return verify_partitions(
                shard, ticket, transactional_id=transactional_id, producer=producer, partitions=partitions
            )

        try:
            results: dict[TopicPartition, ErrorCode] = await self._submit(transactional_id, verify)
        except KafkaError as error:
            return dict.fromkeys(partitions, ErrorCode(error.code))
        return results

    # -- administration ------------------------------------------------------------------------------------------

    async def describe(self, transactional_id: str) -> DescribedTransaction:
        """DescribeTransactions for one transactional id."""
        error = ErrorCode.INVALID_REQUEST
        if transactional_id:
            try:
                described: DescribedTransaction = await self._submit(
                    transactional_id,
                    lambda shard, now, ticket: describe_transaction(shard, ticket, transactional_id),
                )
                return described
            except KafkaError as failure:
                error = ErrorCode(failure.code)
        return DescribedTransaction(error_code=error, transactional_id=transactional_id)

    async def list(self, request: ListTransactionsRequest) -> ListTransactionsResponse:
        """ListTransactions over all partitions of this node; an error while one of them is loading."""
        response = ListTransactionsResponse(unknown_state_filters=unknown_states(request))
        filters, text = Filters.of(request), request.transactional_id_pattern
        try:
            pattern = Pattern(text) if text else None
        except InvalidPattern:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
        for index, _ in list(self.runtime.partitions()):
            try:
                response.transaction_states += await self.runtime.read(
                    index, partial(list_transactions, filters=filters)
                )
            except NotCoordinatorError:
                continue
            except KafkaError as error:
                return ListTransactionsResponse(error_code=error.code)
        if pattern is not None:
            response.transaction_states = await _matching(self._run, pattern, response.transaction_states)
        return response

    # -- the shards ------------------------------------------------------------------------------------------

    async def _submit(
        self, transactional_id: str, decide: Callable[[TransactionShard, Now, Ticket], Decision]
    ) -> Any:
        index = self.partition_of(transactional_id)
        await self.runtime.until_loaded(index, LOADING_S)
        return await self.runtime.submit(index, decide)

    def partition_of(self, transactional_id: str) -> int:
        """The partition of `__transaction_state`; -1 while that does not exist."""
        count = self._environment.partition_count(TOPIC)
        return -1 if count is None else partition_for(transactional_id, count)


async def _matching(run: Run, pattern: Pattern, listed: Sequence[ListedTransaction]) -> list[ListedTransaction]:
    """Those whose ids match; a long id is matched in a thread by a large pattern."""
    matching: list[ListedTransaction] = []
    pauses, work = Pauses(), 0
    for one in listed:
        await pauses()
        needed = pattern.work(one.transactional_id)
        work += needed
        if work > WORK_AT_ONCE:
            work = 0
            await pause()
        if needed > WORK_AT_ONCE:
            matches = await run(pattern.matches, one.transactional_id)
        else:
            matches = pattern.matches(one.transactional_id)
        if matches:
            matching.append(one)
    return matching
