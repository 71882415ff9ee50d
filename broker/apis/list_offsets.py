"""ListOffsets: finds the first offset, the last offset, or the offset of a timestamp.

Versions 1 to 11: read_committed from 2, leader epochs from 4 (KIP-320), the greatest timestamp from 7 (KIP-734), local
and tiered starts from 8 and 9 (KIP-405, KIP-1005), the earliest not yet copied from 11 (KIP-1023). The last three have
the results of a Kafka without tiered storage: the local start is the log start, and nothing is remote.
"""

from collections import Counter

from minikafka.broker.apis.authorization import AllowedTopics
from minikafka.broker.apis.services import PartitionStore
from minikafka.broker.connections.large_messages import ELEMENTS_MAX_WITH_PAUSES
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.partitions.large_batches import LargeBatches
from minikafka.broker.partitions.partition import Partition
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.errors import (
    ErrorCode,
    InvalidRequestError,
    KafkaError,
    OffsetNotAvailableError,
    UnsupportedVersionError,
)
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from minikafka.storage.steps import Pauses

REQUEST = ListOffsetsRequest
VERSIONS = "1-11"
ELEMENTS_MAX = ELEMENTS_MAX_WITH_PAUSES

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
VERSION_OF = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}
NOTHING = (-1, -1, -1)
DEBUGGER, CONSUMER = -2, -1
VERSION_OF_NOT_AVAILABLE = 5
"""Earlier versions get LEADER_NOT_AVAILABLE in place of OFFSET_NOT_AVAILABLE (KIP-207)."""
VERSION_MAX = 2**15


async def handle(request: ListOffsetsRequest, context: RequestContext[PartitionStore]) -> ListOffsetsResponse:
    """Find the requested offsets. Each partition has its own error; duplicates get INVALID_REQUEST.

    A topic that the client may not describe is answered as often as it is named, after the others.
    """
    asked: dict[str, list[ListOffsetsPartition]] = {}
    hidden: list[ListOffsetsTopicResponse] = []
    visible = AllowedTopics(context, AclOperation.DESCRIBE)
    pause = Pauses()
    for topic in request.topics:
        await pause()
        if topic.name not in visible:
            hidden.append(await _hidden(topic.name, topic.partitions, pause))
        elif topic.partitions:
            asked.setdefault(topic.name, []).extend(topic.partitions)
    response = ListOffsetsResponse()
    for name, partitions in asked.items():
        response.topics.append(await _topic(name, partitions, request, context, pause))
    response.topics += hidden
    return response


async def _hidden(name: str, partitions: list[ListOffsetsPartition], pause: Pauses) -> ListOffsetsTopicResponse:
    """Answer for a topic that the client may not describe, whether it exists or not."""
    answer = ListOffsetsTopicResponse(name=name)
    for asked in partitions:
        await pause()
        answer.partitions.append(
            ListOffsetsPartitionResponse(
                partition_index=asked.partition_index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
            )
        )
    return answer


async def _topic(
    name: str,
    partitions: list[ListOffsetsPartition],
    request: ListOffsetsRequest,
    context: RequestContext[PartitionStore],
    pause: Pauses,
) -> ListOffsetsTopicResponse:
    answer = ListOffsetsTopicResponse(name=name)
    named: Counter[int] = Counter()
    last_named: dict[int, ListOffsetsPartition] = {}
    for asked in partitions:
        await pause()
        named[asked.partition_index] += 1
        last_named[asked.partition_index] = asked
    for asked in last_named.values():
        await pause()
        answered = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
        answer.partitions.append(answered)
        try:
            if named[asked.partition_index] > 1:
                raise InvalidRequestError(f"{name}-{asked.partition_index} is requested twice")
            _check_timestamp(asked.timestamp, context.version)
            partition = context.services.partitions.find(name, asked.partition_index)
            leader_only = request.replica_id != DEBUGGER
            partition.check_leader(asked.current_leader_epoch, leader_only=leader_only)
            found = _at_end_or_start(partition, asked.timestamp, request)
            if found is None:
                found = await _search(partition, asked, request, context.services.partitions.large_batches)
            answered.timestamp, answered.offset, answered.leader_epoch = found
        except OffsetNotAvailableError as error:
            old = context.version < VERSION_OF_NOT_AVAILABLE
            answered.error_code = ErrorCode.LEADER_NOT_AVAILABLE if old else error.code
        except KafkaError as error:
            answered.error_code = ErrorCode(error.code)
    return answer


def _check_timestamp(wanted: int, version: int) -> None:
    """Raise UnsupportedVersionError for a special timestamp that the request's version does not have."""
    if wanted < 0 and version < VERSION_OF.get(wanted, VERSION_MAX if wanted < EARLIEST else 0):
        raise UnsupportedVersionError(f"timestamp {wanted} is not supported by version {version}")


def _at_end_or_start(partition: Partition, wanted: int, request: ListOffsetsRequest) -> tuple[int, int, int] | None:
    """Return (timestamp, offset, leader epoch) for a special timestamp; None if a record has to be searched for.

    The values are -1 where there is none.
    """
    log = partition.log
    if wanted == LATEST:
        end = _visible_end(partition, request)
        if request.replica_id == CONSUMER:
            partition.check_caught_up()
        return -1, end, partition.leader_epoch
    if wanted in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.start_offset, _epoch_of_start(partition)
    if wanted in (LATEST_TIERED, EARLIEST_PENDING):
        return NOTHING
    return None


def _visible_end(partition: Partition, request: ListOffsetsRequest) -> int:
    """Return the offset up to which the sender may read: consumers by isolation level, followers the whole log."""
    if request.replica_id == CONSUMER:
        return partition.visible_end(request.isolation_level)
    return partition.log.end_offset


async def _search(
    partition: Partition, asked: ListOffsetsPartition, request: ListOffsetsRequest, large: LargeBatches
) -> tuple[int, int, int]:
    """Find the first record at or after a timestamp, or with the largest timestamp; `NOTHING` if there is none."""
    log, end = partition.log, _visible_end(partition, request)
    wanted = asked.timestamp
    search = log.offset_of_max_timestamp() if wanted == MAX_TIMESTAMP else log.offset_for_timestamp(wanted)
    found = await large.searched(search, log.disk)
    if found is not None and found[1] < end:
        return found
    if request.replica_id == CONSUMER:
        partition.check_caught_up()
    return NOTHING


def _epoch_of_start(partition: Partition) -> int:
    """Return the leader epoch of the log start offset; for an empty log a leader's own, -1 for a follower, as Kafka."""
    epoch = partition.log.epochs.epoch_of(partition.log.start_offset)
    if epoch is not None:
        return epoch
    return partition.leader_epoch if partition.is_leader else -1
