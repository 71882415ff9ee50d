"""`TransactionQuestions`: asks a transaction's coordinator about a partition before its records are appended (KIP-890).

A producer of version 1 must have added its partitions itself, which is verified. For a producer of version 2 the
partitions are added. Questions to one coordinator share a request (AddPartitionsToTxn version 4), unless they concern
the same transactional id: of two entries with the same id a coordinator reads only one. The coordinator on this node is
asked directly. Source: Kafka's `AddPartitionsToTxnManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from itertools import groupby
from typing import NamedTuple

import trio

from minikafka.broker.coordinator.internal_topic import leader_of
from minikafka.broker.coordinator.transactions.broker_requests import Batcher, BrokerConnections, items_of
from minikafka.broker.coordinator.transactions.init_producer import ProducerIdentity
from minikafka.broker.coordinator.transactions.transaction import EPOCH_PER_TRANSACTION
from minikafka.broker.coordinator.transactions.transaction_coordinator import TOPIC, TransactionCoordinator
from minikafka.broker.coordinator.transactions.transaction_settings import TransactionSettings
from minikafka.controller.metadata.image import Image
from minikafka.protocol.errors import ErrorCode, KafkaError, NetworkError
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from minikafka.protocol.names import TopicPartition
from minikafka.storage.waits import in_task

Results = dict[TopicPartition, ErrorCode]
UNKNOWN_PRODUCER = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
"""The error codes for a producer that does not, or no longer, own the transactional id."""


class ClientSupport(Enum):
    """The support of transactions that the version of a client's request implies."""

    INVALID_TXN_STATE = 0
    TRANSACTION_ABORTABLE = 1
    ADDS_PARTITIONS = 2
    """The partitions are added by the first request that needs them."""


class Question(NamedTuple):
    """A question to a coordinator: whether partitions belong to a transaction, or a request to add them to it."""

    transactional_id: str
    producer: ProducerIdentity
    partitions: frozenset[TopicPartition]
    adds: bool


class TransactionQuestions:
    """Verifies or adds partitions, whichever node coordinates the transaction.

    Args:
        node_id: The id of this node.
        image: The metadata, with the leaders of `__transaction_state`.
        coordinator: The coordinator on this node.
        connections: The connections to the other brokers.
        settings: The settings for the retries.
        is_enabled: Returns `transaction.partition.verification.enable`. If it is False, the partitions that clients
            add themselves are not verified. For a client of version 2 the partitions are added nevertheless, as in
            Kafka.
    """

    def __init__(
        self,
        node_id: int,
        image: Image,
        coordinator: TransactionCoordinator,
        connections: BrokerConnections,
        settings: TransactionSettings,
        is_enabled: Callable[[], bool],
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._coordinator = coordinator
        self._connections = connections
        self._settings = settings
        self._is_enabled = is_enabled
        self._batcher = Batcher[Question, Results](
            connections,
            self._send,
            partitions=lambda question: question.partitions,
            key=lambda question: question.transactional_id,
        )

    async def verify(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: frozenset[TopicPartition],
        support: ClientSupport,
    ) -> Results:
        """Return an error code for each partition, NONE if records may be appended to it.

        There is no wait if the coordinator is on this node and need not wait. A client receives the answer to EndTxn
        before the markers are written. The coordinator itself waits until the markers are written. If it answers
        CONCURRENT_TRANSACTIONS before that, the question is repeated for a short time.
        """
        if support is not ClientSupport.ADDS_PARTITIONS and not self._is_enabled():
            return dict.fromkeys(partitions, ErrorCode.NONE)
        question = Question(transactional_id, producer, partitions, support is ClientSupport.ADDS_PARTITIONS)
        deadline = trio.current_time() + self._settings.retry_max_ms / 1000
        while True:
            results = await self._ask(question)
            if not _is_busy(question, results) or trio.current_time() >= deadline:
                return _for_clients(results, support)
            await in_task()
            await trio.sleep(self._settings.retry_ms / 1000)

    async def _ask(self, question: Question) -> Results:
        leader = leader_of(self._image, TOPIC, self._coordinator.partition_of(question.transactional_id))
        if leader < 0:
            return dict.fromkeys(question.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return await (self._ask_here(question) if leader == self._node_id else self._ask_there(leader, question))

    async def _ask_there(self, leader: int, question: Question) -> Results:
        results: Results = {}
        for some in items_of(question.partitions):
            try:
                results |= await self._batcher.ask(leader, question._replace(partitions=frozenset(some)))
            except KafkaError as error:
                results |= dict.fromkeys(some, ErrorCode(error.code))
        return results

    async def _ask_here(self, question: Question) -> Results:
        transactional_id, producer, partitions, adds = question
        if not adds:
            return await self._coordinator.verify_partitions(transactional_id, producer, partitions)
        added = await self._coordinator.add_partitions(
            transactional_id, producer, partitions, client_version=EPOCH_PER_TRANSACTION
        )
        return dict.fromkeys(partitions, added)

    async def _send(self, node_id: int, batch: Sequence[Question]) -> list[Results]:
        request = AddPartitionsToTxnRequest(transactions=[_message(question) for question in batch])
        response: AddPartitionsToTxnResponse = await self._connections.request(node_id, request)
        failed = ErrorCode(response.error_code)
        if failed:
            return [dict.fromkeys(question.partitions, failed) for question in batch]
        answered = [
            {
                TopicPartition(topic.name, one.partition_index): ErrorCode(one.partition_error_code)
                for topic in result.topic_results
                for one in topic.results_by_partition
            }
            for result in response.results_by_transaction
        ]
        if len(answered) != len(batch):
            raise NetworkError(f"broker {node_id} answered {len(answered)} of {len(batch)} transactions")
        return answered


def _message(question: Question) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer.producer_id,
        producer_epoch=question.producer.epoch,
        verify_only=not question.adds,
        topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=[one.partition for one in some])
            for topic, some in groupby(sorted(question.partitions), lambda name: name.topic)
        ],
    )


def _is_busy(question: Question, results: Results) -> bool:
    """Whether to ask again, since the producer's last transaction is not completed and the next one cannot begin."""
    return question.adds and ErrorCode.CONCURRENT_TRANSACTIONS in results.values()


def _for_clients(results: Results, support: ClientSupport) -> Results:
    return {name: _for_client(error, support) for name, error in results.items()}


def _for_client(error: ErrorCode, support: ClientSupport) -> ErrorCode:
    """The error code that the client expects.

    Producers expect INVALID_PRODUCER_EPOCH in place of PRODUCER_FENCED, and only later versions know
    TRANSACTION_ABORTABLE.
    """
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and support is ClientSupport.INVALID_TXN_STATE:
        return ErrorCode.INVALID_TXN_STATE
    return error
