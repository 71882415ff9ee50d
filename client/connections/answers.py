"""Checks that a response covers every item that its request names (topics, groups …), and no others. Pure.

If an item is missing, it is unknown whether the broker has acted on it, as if the response had been lost. The check
therefore raises NetworkError, and callers retry. Requests whose callers use the partitions that were answered, and look
up each partition themselves, are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from minikafka.protocol.apis import api_of
from minikafka.protocol.errors import NetworkError
from minikafka.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from minikafka.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from minikafka.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from minikafka.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from minikafka.protocol.messages.create_partitions import CreatePartitionsRequest
from minikafka.protocol.messages.create_topics import CreateTopicsRequest
from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest
from minikafka.protocol.messages.delete_records import DeleteRecordsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest
from minikafka.protocol.messages.describe_configs import DescribeConfigsRequest
from minikafka.protocol.messages.describe_groups import DescribeGroupsRequest
from minikafka.protocol.messages.describe_producers import DescribeProducersRequest
from minikafka.protocol.messages.describe_quorum import DescribeQuorumRequest
from minikafka.protocol.messages.describe_transactions import DescribeTransactionsRequest
from minikafka.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from minikafka.protocol.messages.elect_leaders import ElectLeadersRequest
from minikafka.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from minikafka.protocol.messages.offset_commit import OffsetCommitRequest
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequest
from minikafka.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from minikafka.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from minikafka.protocol.shortened import shortened

_NAMED_MAX = 3
_TOPICS = "topics.name partitions.partition_index"
_RESOURCE = "resource_type.resource_name"
_ASKED_AND_ANSWERED: dict[type, tuple[str, str]] = {
    CreateTopicsRequest: ("topics.name", "topics.name"),
    DeleteTopicsRequest: ("topic_names", "responses.name"),
    CreatePartitionsRequest: ("topics.name", "results.name"),
    DescribeConfigsRequest: (f"resources.{_RESOURCE}", f"results.{_RESOURCE}"),
    IncrementalAlterConfigsRequest: (f"resources.{_RESOURCE}", f"responses.{_RESOURCE}"),
    DeleteRecordsRequest: (_TOPICS, _TOPICS),
    ElectLeadersRequest: (
        "topic_partitions.topic partitions",
        "replica_election_results.topic partition_result.partition_id",
    ),
    AlterPartitionReassignmentsRequest: (_TOPICS, "responses.name partitions.partition_index"),
    DescribeQuorumRequest: (
        "topics.topic_name partitions.partition_index",
        "topics.topic_name partitions.partition_index",
    ),
    ConsumerGroupDescribeRequest: ("group_ids", "groups.group_id"),
    DescribeGroupsRequest: ("groups", "groups.group_id"),
    DeleteGroupsRequest: ("groups_names", "results.group_id"),
    OffsetFetchRequest: ("groups.group_id", "groups.group_id"),
    DescribeTransactionsRequest: ("transactional_ids", "transaction_states.transactional_id"),
    DescribeUserScramCredentialsRequest: ("users.name", "results.user"),
    DescribeProducersRequest: ("topics.name partition_indexes", _TOPICS),
    WriteTxnMarkersRequest: (
        "markers.producer_id topics.name partition_indexes",
        "markers.producer_id topics.name partitions.partition_index",
    ),
    AlterClientQuotasRequest: (
        "entries entity.entity_type.entity_name",
        "entries entity.entity_type.entity_name",
    ),
    AddPartitionsToTxnRequest: (
        "v3_and_below_topics.name partitions",
        "results_by_topic_v3_and_below.name results_by_partition.partition_index",
    ),
    OffsetCommitRequest: (_TOPICS, _TOPICS),
    TxnOffsetCommitRequest: (_TOPICS, _TOPICS),
}
"""By request class, the paths to the names of items in the request and in the response.

A path lists nested list fields, each followed by the fields that name its elements. A list that is None in a request
asks for all items that exist.
"""

Key = tuple[Any, ...]


def check_answers(request: Any, response: Any) -> None:
    """Raise NetworkError if the items in a response are not those of its request; a top-level error is not checked.

    An item may occur several times in a response.
    """
    places = _ASKED_AND_ANSWERED.get(type(request))
    if places is None or getattr(response, "error_code", None):
        return
    if getattr(request, _level(places[0])[0]) is None:
        return
    asked = {key for key, _ in _found(request, places[0])}
    answered = {key for key, _ in _found(response, places[1])}
    if asked != answered:
        lacking, odd = asked - answered, answered - asked
        what = f"lacks {_listed(lacking)}" if lacking else f"is about {_listed(odd)} as well"
        raise NetworkError(f"the {api_of(type(request)).name} response {what}")


def answer_to(request: Any, response: Any) -> Any:
    """The element of a checked response for the single item of its request."""
    return next(one for _, one in _found(response, _ASKED_AND_ANSWERED[type(request)][1]))


def _found(message: Any, place: str) -> Iterator[tuple[Key, Any]]:
    """The items at a path in a message: the name of each, and the element about it."""
    field, names, inner = _level(place)
    for one in getattr(message, field) or ():
        key = tuple(getattr(one, name) for name in names) if names or inner else (one,)
        if inner:
            yield from ((key + rest, leaf) for rest, leaf in _found(one, inner))
        else:
            yield key, one


def _level(place: str) -> tuple[str, list[str], str]:
    """Split off the first step of a path: the list's field, the fields that name its elements, and the other steps."""
    level, _, inner = place.partition(" ")
    field, *names = level.split(".")
    return field, names, inner


def _listed(keys: set[Key]) -> str:
    some = sorted("-".join(map(str, key)) for key in keys)
    more = f" and {len(some) - _NAMED_MAX} more" if len(some) > _NAMED_MAX else ""
    return ", ".join(map(shortened, some[:_NAMED_MAX])) + more
