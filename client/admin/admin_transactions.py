"""The methods of `Admin` for transactions: list, describe, find and abort the hanging ones (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from minikafka.client.admin.admin_requests import ask_about, item_error
from minikafka.client.admin.admin_types import (
    HangingTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from minikafka.client.admin.item_errors import ask_leaders
from minikafka.client.argument_kinds import Int16, Int32, Natural, PartitionArgument
from minikafka.client.connections.answers import answer_to
from minikafka.client.connections.base_client import ClusterClient
from minikafka.client.connections.cluster_client import Cluster, CoordinatorType
from minikafka.protocol.errors import (
    CoordinatorNotAvailableError,
    KafkaError,
    NetworkError,
    NotCoordinatorError,
    TransactionalIdNotFoundError,
    error_for,
)
from minikafka.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from minikafka.protocol.messages.describe_transactions import DescribeTransactionsRequest
from minikafka.protocol.messages.list_transactions import ListTransactionsRequest
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from minikafka.protocol.names import TopicPartition


async def list_transactions(
    admin: ClusterClient, *, states: Iterable[str] = (), producer_ids: Iterable[int] = ()
) -> list[TransactionListing]:
    """The transactional ids of all brokers, sorted by id.

    Args:
        states: only ids in these states ("Ongoing", …), if any are given.
        producer_ids: only ids with one of these producer ids, if any are given.

    Raises KafkaError if a broker does not respond, because the list would be incomplete.
    """
    await admin.cluster.retry(admin.cluster.refresh, "finding brokers")
    request = ListTransactionsRequest(state_filters=list(states), producer_id_filters=list(producer_ids))
    found: list[TransactionListing] = []
    for node_id in sorted(admin.cluster.metadata.brokers):
        response = await ask_about(admin.cluster, request, f"listing transactions of broker {node_id}", node_id)
        found += [
            TransactionListing(one.transactional_id, one.producer_id, one.transaction_state, node_id)
            for one in response.transaction_states
        ]
    return sorted(found, key=lambda one: one.transactional_id)


async def describe_transaction(admin: ClusterClient, transactional_id: str) -> TransactionDescription:
    """Describe the last transaction of a transactional id. Raises TransactionalIdNotFoundError …"""

    async def attempt() -> TransactionDescription:
        node_id = await admin.cluster.coordinator(transactional_id, CoordinatorType.TRANSACTION)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        try:
            response = await admin.cluster.request(request, node_id)
            one = answer_to(request, response)
            if one.error_code:
                text = f"transactional id {transactional_id!r}: {error_for(one.error_code)}"
                raise error_for(one.error_code, text)
        except (NotCoordinatorError, CoordinatorNotAvailableError, NetworkError):
            admin.cluster.forget_coordinator(transactional_id, CoordinatorType.TRANSACTION)
            raise
        partitions = [TopicPartition(topic.topic, index) for topic in one.topics for index in topic.partitions]
        return TransactionDescription(
            transactional_id,
            one.transaction_state,
            one.producer_id,
            one.producer_epoch,
            node_id,
            one.transaction_timeout_ms,
            one.transaction_start_time_ms,
            sorted(partitions),
        )

    return await admin.cluster.retry(attempt, f"describing transactional id {transactional_id!r}")


async def describe_producers(admin: ClusterClient, partition: PartitionArgument) -> list[ProducerState]:
    """The producers that a partition's leader knows. Raises UnknownTopicOrPartitionError …"""
    tp = TopicPartition(*partition)
    request = DescribeProducersRequest(topics=[TopicRequest(name=tp.topic, partition_indexes=[tp.partition])])

    one = await _ask_leader(admin.cluster, tp, request, f"describing the producers of {tp}")
    return [
        ProducerState(
            state.producer_id,
            state.producer_epoch,
            state.last_sequence,
            state.last_timestamp,
            state.coordinator_epoch,
            None if state.current_txn_start_offset < 0 else state.current_txn_start_offset,
        )
        for state in one.active_producers
    ]


async def abort_transaction(
    admin: ClusterClient,
    partition: PartitionArgument,
    producer_id: int,
    producer_epoch: Int16,
    coordinator_epoch: Int32,
) -> None:
    """Write an abort marker into one partition without asking the coordinator; only for hanging transactions.

    Raises InvalidProducerEpochError, TransactionCoordinatorFencedError …
    """
    tp = TopicPartition(*partition)
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=tp.topic, partition_indexes=[tp.partition])],
    )

    request = WriteTxnMarkersRequest(markers=[marker])
    await _ask_leader(admin.cluster, tp, request, f"aborting the transaction in {tp}")


async def find_hanging_transactions(
    admin: ClusterClient, partitions: Iterable[PartitionArgument], *, older_than_ms: Natural = 900_000
) -> list[HangingTransaction]:
    """The open transactions in these partitions that no coordinator knows, and that therefore never end.

    Args:
        older_than_ms: only transactions whose last record is at least this old, in ms; the brokers'
            `transaction.max.timeout.ms`.
    """
    before_ms = admin.cluster.seams.now_ms() - older_than_ms
    candidates: list[HangingTransaction] = []
    for tp in partitions:
        for one in await describe_producers(admin, tp):
            if one.transaction_start_offset is not None and one.last_timestamp_ms <= before_ms:
                candidates.append(HangingTransaction(TopicPartition(*tp), one))
    if not candidates:
        return []
    ids = {one.producer.producer_id for one in candidates}
    known = {one.producer_id: one.transactional_id for one in await list_transactions(admin, producer_ids=ids)}
    return [one for one in candidates if not await _is_coordinated(admin, one, known)]


async def _is_coordinated(admin: ClusterClient, one: HangingTransaction, known: dict[int, str]) -> bool:
    """Whether a coordinator's transaction of the producer includes the partition."""
    transactional_id = known.get(one.producer.producer_id)
    if transactional_id is None:
        return False
    try:
        described = await describe_transaction(admin, transactional_id)
    except TransactionalIdNotFoundError:
        return False
    return described.producer_id == one.producer.producer_id and one.partition in described.partitions


async def _ask_leader(cluster: Cluster, tp: TopicPartition, request: Any, what: str) -> Any:
    """The answer of a partition's leader about a request's only partition. Raises its KafkaError, after retries."""

    async def ask(leader: int, some: dict[TopicPartition, str]) -> dict[TopicPartition, Any]:
        one = answer_to(request, await cluster.request(request, leader))
        return {tp: item_error(one, what) or one}

    found = (await ask_leaders(cluster, {tp: what}, ask, what))[tp]
    if isinstance(found, KafkaError):
        raise found
    return found
