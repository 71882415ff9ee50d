"""Verifies the transactional batches of a Produce request with the coordinator of the transaction (KIP-890).

The result is a token for each partition, with which the batch is appended. Source: Kafka's
`ReplicaManager.handleProduceAppend`.
"""

from collections.abc import Iterable

from minikafka.broker.apis.services import TransactionService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.coordinator.transactions.init_producer import ProducerIdentity
from minikafka.broker.coordinator.transactions.transaction_questions import UNKNOWN_PRODUCER, ClientSupport, Results
from minikafka.broker.partitions.partition import Partition
from minikafka.broker.partitions.verification import Verification
from minikafka.protocol.errors import (
    ErrorCode,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    KafkaError,
    NotEnoughReplicasError,
    again,
    error_for,
    without_frames,
)
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import Batch

VERSION_WITH_ABORTABLE, VERSION_THAT_ADDS = 11, 12
COORDINATOR_ERRORS = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""Errors that producers do not expect from a leader; producers get NOT_ENOUGH_REPLICAS, a retriable error, instead."""


class Verified:
    """The verifications of one request: a token or an error for each partition that needs one."""

    def __init__(self) -> None:
        self.tokens: dict[TopicPartition, Verification] = {}
        self.errors: dict[TopicPartition, KafkaError] = {}

    def check(self, partition: Partition) -> None:
        """Check that the coordinator has not refused the partition.

        Raises:
            KafkaError: The coordinator has refused it, with this error.
        """
        error = self.errors.get(partition.topic_partition)
        if error is not None:
            raise again(error)

    def token(self, partition: Partition) -> Verification | None:
        """Return the token with which a batch is appended; None if its transaction is open in the partition."""
        return self.tokens.get(partition.topic_partition)


NOT_VERIFIED = Verified()


async def verify(
    transactional_id: str,
    batches: Iterable[tuple[Partition, Batch]],
    context: RequestContext[TransactionService],
) -> Verified:
    """Ask the coordinator about the partitions in which the transaction is not open yet.

    Raises:
        InvalidProducerIdMappingError: The batches are of several producers.
    """
    verified = Verified()
    producers: set[ProducerIdentity] = set()
    for partition, batch in batches:
        producers.add(ProducerIdentity(batch.producer_id, batch.producer_epoch))
        try:
            token = _begin(partition, batch, context.version)
        except KafkaError as error:
            verified.errors[partition.topic_partition] = without_frames(error)
            continue
        if token is not None:
            verified.tokens[partition.topic_partition] = token
    if len(producers) > 1:
        raise InvalidProducerIdMappingError("Transactional records contained more than one producer ID")
    if verified.tokens:
        (producer,) = producers
        support = _support(context.version)
        results = await context.services.transactions.transaction_questions.verify(
            transactional_id, producer, frozenset(verified.tokens), support
        )
        _add_results(verified, results, support)
    return verified


def _add_results(verified: Verified, results: Results, support: ClientSupport) -> None:
    for name, error_code in results.items():
        if error_code:
            if error_code in UNKNOWN_PRODUCER:
                verified.tokens[name].withdraw()
            verified.errors[name] = _error(error_code, support)


def _begin(partition: Partition, batch: Batch, version: int) -> Verification | None:
    return partition.begin_verification(
        batch.producer_id, batch.producer_epoch, batch.base_sequence, bumps_epoch=version >= VERSION_THAT_ADDS
    )


def _support(version: int) -> ClientSupport:
    if version >= VERSION_THAT_ADDS:
        return ClientSupport.ADDS_PARTITIONS
    return ClientSupport.TRANSACTION_ABORTABLE if version >= VERSION_WITH_ABORTABLE else ClientSupport.INVALID_TXN_STATE


def _error(code: ErrorCode, support: ClientSupport) -> KafkaError:
    if code is ErrorCode.INVALID_TXN_STATE:
        return InvalidTxnStateError("Partition was not added to the transaction")
    busy = code is ErrorCode.CONCURRENT_TRANSACTIONS and support is not ClientSupport.ADDS_PARTITIONS
    if busy or code in COORDINATOR_ERRORS:
        return NotEnoughReplicasError(
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        )
    return error_for(code)
