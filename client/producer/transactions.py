"""`Transactions`: the requests of a transactional producer to the coordinators of its transaction and of groups.

`Producer` calls `begin`, `commit`, `abort` and `send_offsets`. Partitions are added to the transaction in the
background before their first batch is sent. `transaction_state.py` makes the decisions; this module sends requests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Protocol, TypeVar

import anyio
from anyio.abc import TaskGroup

from minikafka.client.broker_limits import explained
from minikafka.client.connections.cluster_client import Cluster, CoordinatorType
from minikafka.client.connections.retry_backoff import Backoff
from minikafka.client.groups.group_metadata import GroupMetadata
from minikafka.client.offsets import OffsetAndMetadata
from minikafka.client.options import ProducerOptions
from minikafka.client.producer.record_accumulator import Accumulator, ProducerIdentity
from minikafka.client.producer.transaction_state import (
    DENIALS,
    Phase,
    Reaction,
    TransactionAborted,
    TransactionState,
    reaction,
)
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import ConcurrentTransactionsError, KafkaError, RequestTimedOutError, error_for
from minikafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from minikafka.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from minikafka.protocol.messages.end_txn import EndTxnRequest
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from minikafka.protocol.names import TopicPartition

T = TypeVar("T")
PRODUCE_VERSION_MAX = 11
"""The highest version of Produce in version 1 of transactions; 12 and later add partitions implicitly (KIP-890)."""
_ADD_PARTITIONS_VERSION_MAX = 3
"""The highest version of AddPartitionsToTxn for clients; later versions are for brokers."""
_END_VERSION_MAX = 4
_OFFSETS_VERSION_MAX = 4
"""The highest versions of EndTxn and TxnOffsetCommit in version 1 of transactions."""
_FEATURE = "transaction.version"
_INITIALIZING = "initializing transactions"
_CONCURRENT_PAUSE_S = 0.02
"""The pause while the markers of the previous transaction are written (Kafka's `ADD_PARTITIONS_RETRY_BACKOFF_MS`)."""
_CONCURRENT_ATTEMPTS = 10
"""How many attempts use that pause. After that, the markers are evidently delayed, and the pauses grow as usual."""


class BatchSender(Protocol):
    """The interface through which `Transactions` uses the task that sends batches."""

    def flushing(self) -> AbstractContextManager[None]:
        """A block within which batches are sent without lingering."""
        ...

    def pump(self) -> None:
        """Send all batches that can be sent now."""
        ...

    async def memory_freed(self) -> None:
        """Wait until a batch is done or a request is over."""
        ...


class Transactions:
    """The transactions of one producer.

    Args:
        sender: sends the batches.

    Attributes:
        state: the state machine, which makes the decisions.
        left_by: the exception that ends the open transaction, or None.
        ends_by: the deadline for ending the transaction after `left_by`, on the event loop's clock.
    """

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        options: ProducerOptions,
        tasks: TaskGroup,
        backoff: Backoff,
        sender: BatchSender,
    ) -> None:
        assert options.transactional_id is not None
        self.state = TransactionState(
            options.transactional_id, timeout_ms=options.transaction_timeout_ms, now=anyio.current_time
        )
        accumulator.transaction = self.state
        self._cluster = cluster
        self._accumulator = accumulator
        self._options = options
        self._tasks = tasks
        self._backoff = backoff
        self._sender = sender
        self._initialized = anyio.Event()
        self.left_by: BaseException | None = None
        self.ends_by = float("inf")
        self._end_over: anyio.Event | None = None
        """Set when the `commit` or `abort` in progress is over; None if there is none."""
        self._adding_over: anyio.Event | None = None
        """Set when partitions have been added to the transaction or adding has failed; None if none are added."""

    async def initialize(self) -> None:
        """Get a producer id and an epoch. This fences producers with the same transactional id, and aborts their
        transaction.

        With `start="lazy"` this runs in the background, and `begin` raises its errors.

        Raises KafkaError; RequestTimedOutError after `max_block_ms`.
        """
        if self._options.start == "lazy":
            self._tasks.start_soon(self._initialize_in_background)
        else:
            await self._retry(self._init_producer_id, _INITIALIZING)
            self._initialized.set()

    async def _initialize_in_background(self) -> None:
        with suppress(KafkaError):  # `state` keeps the error.
            await self._retry(self._init_producer_id, _INITIALIZING, limit_ms=float("inf"))
        self._initialized.set()

    @property
    def name(self) -> str:
        """The transactional id."""
        return self.state.transactional_id

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open, or being committed or aborted."""
        return self.state.can_abort or self.state.phase is Phase.COMMITTING

    def end_by(self, deadline: float, left_by: BaseException | None) -> None:
        """Set the deadline for ending the open transaction, and the exception that ends it."""
        self.ends_by, self.left_by = deadline, left_by

    def waiting(self, what: str) -> AbstractContextManager[None]:
        """A block that waits for the cluster. A long wait is logged as `what`."""
        return self._cluster.waiting(what)

    async def resolve(self) -> None:
        """Abort the open transaction, or finish a commit of which the coordinator may know.

        If another task is in `commit` or `abort`, wait for its end first. Raises the errors of `abort` and `commit`.
        """
        while self._end_over is not None:
            await self._end_over.wait()
        if self.is_open:
            await (self.abort() if self.state.can_abort else self.commit())

    @contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        """A block in which this task ends the transaction. Raises RuntimeError while another task does so."""
        if self._end_over is not None:
            raise RuntimeError(
                f"cannot {what}: {self.state.phase.value} by another task or thread; only one may call commit() or"
                " abort() at a time"
            )
        self._end_over = anyio.Event()
        try:
            yield
        finally:
            self._end_over.set()
            self._end_over = None

    async def begin(self) -> None:
        """Begin a transaction. Raises RuntimeError, FatalTransactionError.

        Raises RequestTimedOutError if the producer is not initialized within `max_block_ms`.
        """
        limit_ms = self._options.max_block_ms
        if not self._initialized.is_set():
            with anyio.move_on_after(limit_ms / 1000):
                await self._initialized.wait()
            if not self._initialized.is_set():
                raise self._timed_out(_INITIALIZING, limit_ms, None)
        self.state.begin(version2=self._cluster.features.get(_FEATURE, 0) >= 2)

    async def commit(self) -> None:
        """Deliver all batches, and commit the transaction; see `Producer.commit`."""
        with self._alone("commit"):
            self.state.commit()
            await self._deliver_all()
            self.state.check_committing()
            if self.state.started:
                self.state.ending = True
                await self._retry(lambda: self._end(committed=True), "committing the transaction")
            await self._bump_epoch()
            self.state.ended()

    async def abort(self) -> None:
        """Drop waiting batches, and abort the transaction; see `Producer.abort`. As in Kafka's `TransactionManager`,
        requests that add partitions precede the request that ends the transaction."""
        with self._alone("abort"):
            self.state.abort()
            self._accumulator.drop_waiting(TransactionAborted("the transaction was aborted before the record was sent"))
            await self._deliver_all()
            if self._adding_over is not None:
                await self._adding_over.wait()
            self.state.check_committing()
            if self.state.started:
                await self._retry(lambda: self._end(committed=False), "aborting the transaction")
            await self._bump_epoch()
            self.state.ended()

    async def _bump_epoch(self) -> None:
        """Get a new epoch if requests of this one may be in flight. In version 2 each EndTxn response brings one."""
        if self.state.bump_wanted and not self.state.version2:
            await self._retry(self._init_producer_id, "getting another producer epoch")

    async def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> None:
        """Commit a group's offsets in the open transaction; see `Producer.send_offsets_to_transaction`."""
        self.state.check_open()
        if not offsets:
            return
        if not self.state.version2:
            what = "adding offsets to the transaction"
            await self._retry(lambda: self._add_offsets(group.group_id), what, within=True)
            self.state.confirmed = True
        what = "committing offsets in the transaction"
        await self._retry(
            lambda: self._commit_offsets(dict(offsets), group), what, group_id=group.group_id, within=True
        )

    def pump(self) -> None:
        """Start to add new partitions to the transaction, or drop the waiting batches if the transaction has failed."""
        if self.state.failed:
            assert self.state.error is not None
            self._accumulator.drop_waiting(self.state.error)
        elif partitions := self.state.take_new():
            self._adding_over = anyio.Event()
            self._tasks.start_soon(self._add_partitions, partitions, self._adding_over)

    # -- requests ------------------------------------------------------------------------------------------------

    async def _deliver_all(self) -> None:
        """Wait until every batch is done, and every Produce request has its response."""
        with self._sender.flushing(), self._cluster.waiting("the responses to all batches"):
            for batch in list(self._accumulator.unfinished()):
                await batch.wait()
            while self._accumulator.has_in_flight():
                await self._sender.memory_freed()

    async def _init_producer_id(self) -> None:
        known = self._accumulator.identity
        request = InitProducerIdRequest(
            transactional_id=self.state.transactional_id,
            transaction_timeout_ms=self._options.transaction_timeout_ms,
        )
        if known is not None:
            request.producer_id, request.producer_epoch = known.producer_id, known.epoch
        response = await self._ask(request)
        _check(response.error_code, "InitProducerId", self._options)
        self._accumulator.renew(ProducerIdentity(response.producer_id, response.producer_epoch))

    async def _add_partitions(self, partitions: list[tuple[str, int]], over: anyio.Event) -> None:
        try:
            await self._retry(lambda: self._add(partitions), "adding partitions to the transaction", within=True)
        except KafkaError as error:
            self.state.must_abort(error)
        else:
            self.state.added()
        finally:
            over.set()
            self._adding_over = None
        self._sender.pump()

    async def _add(self, partitions: list[tuple[str, int]]) -> None:
        identity = self._identity()
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for name, index in partitions:
            topics.setdefault(name, AddPartitionsToTxnTopic(name=name, partitions=[])).partitions.append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.state.transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=list(topics.values()),
        )
        response = await self._ask(request, highest=_ADD_PARTITIONS_VERSION_MAX)
        codes = {
            (topic.name, one.partition_index): one.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        }
        failed = {key: code for key, code in codes.items() if code}
        causes = {key: code for key, code in failed.items() if code != ErrorCode.OPERATION_NOT_ATTEMPTED} or failed
        for (name, index), code in causes.items():
            _check(code, f"AddPartitionsToTxn of {name}-{index}")

    async def _add_offsets(self, group_id: str) -> None:
        identity = self._identity()
        request = AddOffsetsToTxnRequest(
            transactional_id=self.state.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=group_id,
        )
        _check((await self._ask(request, begins=True)).error_code, "AddOffsetsToTxn")

    async def _commit_offsets(self, offsets: dict[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> None:
        identity = self._identity()
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for tp, one in offsets.items():
            topic = topics.setdefault(tp.topic, TxnOffsetCommitRequestTopic(name=tp.topic, partitions=[]))
            topic.partitions.append(
                TxnOffsetCommitRequestPartition(
                    partition_index=tp.partition,
                    committed_offset=one.offset,
                    committed_leader_epoch=one.leader_epoch,
                    committed_metadata=one.metadata,
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self.state.transactional_id,
            group_id=group.group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            generation_id=group.generation,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=list(topics.values()),
        )
        highest = None if self.state.version2 else _OFFSETS_VERSION_MAX
        try:
            response = await self._ask(request, group_id=group.group_id, highest=highest, begins=True)
        except BaseException:
            self.state.bump_wanted = True  # The coordinator may get it after the end of the transaction.
            raise
        for topic in response.topics:
            for one in topic.partitions:
                _check(one.error_code, f"committing the offset of {topic.name}-{one.partition_index}")

    async def _end(self, *, committed: bool) -> None:
        identity = self._identity()
        request = EndTxnRequest(
            transactional_id=self.state.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=committed,
        )
        response = await self._ask(request, highest=None if self.state.version2 else _END_VERSION_MAX)
        if response.error_code == ErrorCode.INVALID_TXN_STATE and not (committed or self.state.is_known):
            return  # The request that would have begun the transaction has not reached the coordinator.
        _check(response.error_code, "EndTxn")
        if self.state.version2 and response.producer_epoch >= 0:
            self._accumulator.renew(ProducerIdentity(response.producer_id, response.producer_epoch))

    def _identity(self) -> ProducerIdentity:
        assert self._accumulator.identity is not None, "the producer was initialized before"
        return self._accumulator.identity

    async def _ask(
        self, request: Any, *, group_id: str = "", highest: int | None = None, begins: bool = False
    ) -> Any:
        """Send a request to the transaction's coordinator, or with `group_id` to the group's; return the response.

        Args:
            begins: whether the request can make the transaction known to the coordinator as soon as it is sent.
        """
        kind = CoordinatorType.GROUP if group_id else CoordinatorType.TRANSACTION
        node_id = await self._cluster.coordinator(group_id or self.state.transactional_id, kind)
        await self._cluster.connection(node_id)
        self.state.started |= begins
        return await self._cluster.request(request, node_id, highest=highest)

    async def _retry(
        self,
        attempt: Callable[[], Awaitable[T]],
        what: str,
        *,
        group_id: str = "",
        limit_ms: float | None = None,
        within: bool = False,
    ) -> T:
        """Call `attempt` until it succeeds, for `limit_ms` (default: `max_block_ms`).

        Args:
            group_id: given if `attempt` uses the group's coordinator.
            within: whether `attempt` adds to the transaction, rather than ends it.

        Raises RequestTimedOutError, or the error of the state to which the failure leads.
        """
        failures, last = 0, None
        limit_ms = self._options.max_block_ms if limit_ms is None else limit_ms
        with anyio.move_on_after(limit_ms / 1000), self._cluster.waiting(what, lambda: last):
            while True:
                try:
                    return await attempt()
                except KafkaError as error:
                    self._handle(error, group_id, within=within)
                    last = error
                await anyio.sleep(self._pause_s(last, failures))
                failures += 1
        raise self._timed_out(what, limit_ms, last) from last

    def _pause_s(self, error: KafkaError, failures: int) -> float:
        if not isinstance(error, ConcurrentTransactionsError):
            return self._backoff.delay_ms(failures) / 1000
        longer = failures - _CONCURRENT_ATTEMPTS
        return _CONCURRENT_PAUSE_S if longer < 0 else self._backoff.delay_ms(longer) / 1000

    def _timed_out(self, what: str, limit_ms: float, last: KafkaError | None) -> RequestTimedOutError:
        why = self._cluster.why(last)
        return RequestTimedOutError(f"{what} did not succeed within {limit_ms} ms (max_block_ms): {why}")

    def _handle(self, error: KafkaError, group_id: str, *, within: bool) -> None:
        """Return if the request can be repeated; otherwise change the state, and raise the state's error."""
        state = self.state
        match reaction(error):
            case _ if state.times_out_with(error):
                pass
            case Reaction.RETRY:
                return
            case Reaction.FIND_COORDINATOR if group_id:
                self._cluster.forget_coordinator(group_id, CoordinatorType.GROUP)
                return
            case Reaction.FIND_COORDINATOR:
                self._cluster.forget_coordinator(state.transactional_id, CoordinatorType.TRANSACTION)
                return
            case Reaction.ABORT if state.sends:
                state.bump_wanted = True
                state.must_abort(error)
            case Reaction.ABORT if within and state.can_abort:  # The transaction is or must be aborted already.
                raise error
            case _:
                state.fail(error)
        self._sender.pump()
        if error.code in DENIALS:  # Another attempt is in vain: Kafka's client raises these as they are, too.
            raise error
        state.check_committing()


def _check(code: int, what: str, options: object = None) -> None:
    """Raise the KafkaError of an error code, if it is not 0."""
    if code:
        raise error_for(code, f"{what} failed: {explained(code, options)}")
