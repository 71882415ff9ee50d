"""The transaction of one task: the requests to the coordinators of its transactional id and of its marker. Blocking.

Exactly-once writes depend on the order of requests: `begin` fences every older attempt of the task and ends its
transaction, so the marker that `marker` reads afterwards is final. The marker is committed together with the records,
as offsets of a consumer group without members, whose name is the transactional id.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from minikafka.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from minikafka.protocol.messages.describe_transactions import DescribeTransactionsRequest
from minikafka.protocol.messages.end_txn import EndTxnRequest
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from minikafka.protocol.names import TopicPartition
from minikafka.spark_connector.brokers.offset_reader import GROUP, TRANSACTION, OffsetReader
from minikafka.spark_connector.brokers.refusals import refusal
from minikafka.spark_connector.sink.replay_check import Marker

_OLD_PROTOCOL = {AddPartitionsToTxnRequest: 3, TxnOffsetCommitRequest: 4, EndTxnRequest: 4, AddOffsetsToTxnRequest: 3}
"""The highest request versions of version 1 of transactions (KIP-98), which suffices for a task's one transaction."""
OFFSET_FETCH_VERSION_MAX, _OFFSET_FETCH_GROUPS = 9, 8
ENDING = "Prepare"
"""The prefix of the states of a transaction that is decided and whose markers are being written: PrepareCommit …"""


class Transaction:
    """A transactional producer's requests or, without a transactional id, those of an idempotent producer.

    All methods raise KafkaError: the first that is not retriable, RequestTimedOutError after `kafka.max.block.ms`.
    """

    def __init__(self, brokers: OffsetReader, transactional_id: str | None) -> None:
        self.transactional_id = transactional_id
        self.producer_id, self.epoch = -1, -1
        self._brokers = brokers
        self._added: set[TopicPartition] = set()

    def begin(self, timeout_ms: int) -> None:
        """Gets a producer id and epoch: fences older producers of the transactional id, aborts their transaction."""
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms)

        def attempt() -> Any:
            response = self._ask(request, None if self.transactional_id is None else TRANSACTION)
            if response.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise error_for(
                    response.error_code,
                    f"the broker refuses a transaction of {timeout_ms} ms: set kafka.transaction.timeout.ms to"
                    " its transaction.max.timeout.ms at most",
                )
            self._check(response.error_code, "InitProducerId")
            return response

        response = self._brokers.retry(attempt, "starting the producer")
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Adds partitions to the transaction, before records are sent to them."""
        topics: dict[str, list[int]] = {}
        for tp in partitions:
            if tp not in self._added:
                topics.setdefault(tp.topic, []).append(tp.partition)
        if self.transactional_id is None or not topics:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=some) for name, some in topics.items()],
        )

        def attempt() -> None:
            response = self._ask(request, TRANSACTION)
            for topic in response.results_by_topic_v3_and_below:
                for one in topic.results_by_partition:
                    self._check(one.partition_error_code, f"adding {topic.name}-{one.partition_index}")

        self._brokers.retry(attempt, "adding partitions to the transaction")
        self._added.update(TopicPartition(name, index) for name, some in topics.items() for index in some)

    def marker(self) -> Marker | None:
        """Returns the marker of the last commit under this transactional id; None if there is none."""
        group = self.transactional_id or ""

        def attempt() -> Any:
            modern = self._version_for(OffsetFetchRequest, GROUP) >= _OFFSET_FETCH_GROUPS
            request = OffsetFetchRequest(require_stable=True, topics=None)
            if modern:
                request = OffsetFetchRequest(
                    require_stable=True, groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]
                )
            else:
                request.group_id = group
            response = self._ask(request, GROUP, highest=OFFSET_FETCH_VERSION_MAX)
            found = response.groups[0] if modern else response
            self._check(found.error_code, "OffsetFetch")
            for one in (one for topic in found.topics for one in topic.partitions):
                self._check(one.error_code, "OffsetFetch")
            return found.topics

        return newest_marker(self._brokers.retry(attempt, "reading the marker"))

    def mark(self, marker: Marker) -> None:
        """Adds a marker to the transaction, as the offset of one partition of each topic in the transaction."""
        places = {tp.topic: tp.partition for tp in sorted(self._added)}
        common: dict[str, Any] = {
            "transactional_id": self.transactional_id, "group_id": self.transactional_id,
            "producer_id": self.producer_id, "producer_epoch": self.epoch,
        }  # fmt: skip
        commit = TxnOffsetCommitRequest(topics=[
            TxnOffsetCommitRequestTopic(name=name, partitions=[TxnOffsetCommitRequestPartition(
                partition_index=index, committed_offset=marker.version + 1, committed_metadata=marker.metadata(),
            )])
            for name, index in places.items()
        ], **common)  # fmt: skip

        def add() -> None:
            self._check(self._ask(AddOffsetsToTxnRequest(**common), TRANSACTION).error_code, "AddOffsetsToTxn")

        def attempt() -> None:
            for topic in self._ask(commit, GROUP).topics:
                for one in topic.partitions:
                    self._check(one.error_code, "TxnOffsetCommit")

        self._brokers.retry(add, "adding the marker to the transaction")
        self._brokers.retry(attempt, "writing the marker")

    def end(self, *, commit: bool) -> None:
        """Commits or aborts the transaction; may be repeated. Does nothing if the transaction has no partitions."""
        if self.transactional_id is None or not self._added:
            return
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        self._brokers.retry(
            lambda: self._check(self._ask(request, TRANSACTION).error_code, "EndTxn"), "ending the transaction"
        )

    def resume(self, producer_id: int, epoch: int, partitions: Iterable[TopicPartition]) -> None:
        """Takes over the open transaction of a task, to end it."""
        self.producer_id, self.epoch, self._added = producer_id, epoch, set(partitions)

    def marker_of_others(self) -> Marker | None:
        """Returns the marker as `marker` does, without `begin`; waits first for a transaction that is being ended.

        Until its end, OffsetFetch omits the transaction's offsets. OffsetFetch reports a partition as unstable only if
        the partition has an older offset.
        """

        def attempt() -> bool:
            state = self._described()
            if state is not None and state.transaction_state.startswith(ENDING):
                self._check(ErrorCode.CONCURRENT_TRANSACTIONS, "DescribeTransactions")
            return state is not None

        return self.marker() if self._brokers.retry(attempt, "describing the transaction") else None

    @property
    def has_begun(self) -> bool:
        """Whether any producer has begun with this transactional id."""
        return self._brokers.retry(self._described, "describing the transaction") is not None

    @property
    def is_open(self) -> bool:
        """Whether this producer's transaction is still open at the coordinator, and not aborted by a time-out."""
        state = self._brokers.retry(self._described, "describing the transaction")
        if state is None or (state.producer_id, state.producer_epoch) != (self.producer_id, self.epoch):
            return False
        return bool(state.transaction_state == "Ongoing")

    def _described(self) -> Any | None:
        """The state of the transactional id at its coordinator, without retries; None if no producer has begun."""
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id or ""])
        (state,) = self._ask(request, TRANSACTION).transaction_states
        if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        self._check(state.error_code, "DescribeTransactions")
        return state

    def _ask(self, request: Any, coordinator: int | None, *, highest: int | None = None) -> Any:
        node = None if coordinator is None else self._coordinator(coordinator)
        try:
            return self._brokers.request(request, node, highest=highest or _OLD_PROTOCOL.get(type(request)))
        except KafkaError:
            self._forget_coordinators()
            raise

    def _version_for(self, kind: type, coordinator: int) -> int:
        """The request version that a coordinator supports. After an error, the cached coordinators are forgotten."""
        try:
            return self._brokers.connection_to(self._coordinator(coordinator)).version_for(kind)
        except KafkaError:
            self._forget_coordinators()
            raise

    def _coordinator(self, key_type: int) -> int:
        return self._brokers.known_coordinator(self.transactional_id or "", key_type)

    def _forget_coordinators(self) -> None:
        self._brokers.forget_coordinators(self.transactional_id or "")

    def _check(self, error_code: int, action: str) -> None:
        if error_code:
            self._forget_coordinators()
            of = "" if self.transactional_id is None else f" of {self.transactional_id!r}"
            raise refusal(error_code, f"{action}{of}")


def newest_marker(topics: Iterable[Any]) -> Marker | None:
    """The newest marker of a group in an OffsetFetch response, which may have markers of several topics; or None."""
    found = [(one, topic.name) for topic in topics for one in topic.partitions if one.committed_offset > 0]
    if not found:
        return None
    newest = max((one for one, _ in found), key=lambda one: one.committed_offset)
    names = frozenset(name for one, name in found if one.committed_offset == newest.committed_offset)
    return Marker.parse(newest.committed_offset, newest.metadata or "", names)
