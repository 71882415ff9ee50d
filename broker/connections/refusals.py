"""Builds responses that refuse a whole request: one error code, or the same code for every topic, resource, ….

Many responses have no error code for the whole request. Such a response repeats the items of the request, each with the
error. The repetition is derived from the declarations of both messages: an array of the response repeats the array of
the request that `_REPEATS` names, and a field repeats the field of the same meaning. Source: the methods
`getErrorResponse` of Kafka's requests.
"""

from collections.abc import Iterable
from typing import Any

from minikafka.protocol.codec.schema import Field, default_of, fresh
from minikafka.protocol.errors import (
    FetchSessionIdNotFoundError,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpochError,
    KafkaError,
)
from minikafka.protocol.message import fields_of

__all__ = ["refusal_of"]

_ERRORS = ("error_code", "partition_error_code")
_BOTH = (
    "ElectLeadersResponse", "AlterPartitionReassignmentsResponse", "DescribeUserScramCredentialsResponse",
    "ListPartitionReassignmentsResponse",
)
"""Responses with an error code for the whole request that repeat its items all the same."""
_NO_ERROR = ("EntityData", "OngoingTopicReassignment", "OngoingPartitionReassignment")
"""Items that are repeated though they have no error."""
_NO_NAME = "DescribeUserScramCredentialsResult"
"""The item that does not say which item of the request it repeats."""
_FETCH, _FETCH_BY_ID = "FetchResponse", 13
"""A response that repeats its partitions beside its error, below this version, unless the error is of the session."""
_OF_SESSIONS = (FetchSessionIdNotFoundError, InvalidFetchSessionEpochError, FetchSessionTopicIdError)
_NOT_READ: dict[str, Any] = {"high_watermark": -1, "records": b""}
"""The fields of a refused partition of a Fetch that do not have their defaults."""
_NULL = {"DescribeClientQuotasResponse": "entries"}
"""The array of a response that is null where the request is refused."""
_REPEATS: dict[str, tuple[str, ...]] = {
    "responses": ("topic_data", "topics", "topic_names", "resources"),
    "partition_responses": ("partition_data",),
    "partitions": ("partitions", "partition_indexes"),
    "partition_result": ("partitions",),
    "replica_election_results": ("topic_partitions",),
    "results": ("topics", "dirs", "resources", "creations", "groups_names", "deletions", "upsertions", "users"),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_partition": ("partitions",),
    "filter_results": ("filters",),
    "groups": ("groups", "group_ids"),
    "coordinators": ("coordinator_keys",),
    "transaction_states": ("transactional_ids",),
}
"""The arrays of the request that an array of the response repeats, by its name; by default the array of that name."""
_NAMES = {"topic_name": "name", "partition_index": "partition", "user": "name"}
"""The field of the request that a field of the response repeats, if the request has no field of the same name."""
_IDENTIFYING = frozenset(
    (
        "name", "topic", "topic_name", "topic_id", "index", "partition", "partition_index", "partition_id", "group_id",
        "transactional_id", "producer_id", "key", "resource_type", "resource_name", "entity_type", "entity_name",
        "user",
    )
)
"""The fields of an item that a refusal repeats; all other fields have their defaults."""


def refusal_of(request: Any, response: type, version: int, error: KafkaError, *, of_items: bool = False) -> Any:
    """Build the response to a request that fails as a whole.

    Args:
        response: The class of the response.
        version: The version of the response.
        error: The error, whose code and text are written into the response.
        of_items: Refuse the items of the request, where the response repeats them, and not the request as a whole.
    """
    refused = fresh(response)
    fields = [field for field in fields_of(response) if version in field.versions]
    whole = not of_items and any(field.name in _ERRORS for field in fields)
    is_fetch = response.__name__ == _FETCH and version < _FETCH_BY_ID
    both = response.__name__ in _BOTH or (is_fetch and not isinstance(error, _OF_SESSIONS))
    for field in fields:
        if _is_repeated(field) and (not whole or both):
            setattr(refused, field.name, _repeated(request, field, version, error))
    if response.__name__ in _NULL:
        setattr(refused, _NULL[response.__name__], None)
    return refused if of_items else _with_error(refused, error)


def _with_error(refused: Any, error: KafkaError) -> Any:
    for name in _ERRORS:
        if hasattr(refused, name):
            setattr(refused, name, error.code)
    if hasattr(refused, "error_message"):
        refused.error_message = error.detail
    return refused


def _is_repeated(field: Field) -> bool:
    if not field.is_array or field.struct is None:
        return False
    if field.struct.__name__ in _NO_ERROR:
        return True
    return any(one.name in _ERRORS or _is_repeated(one) for one in fields_of(field.struct))


def _repeated(named: Any, field: Field, version: int, error: KafkaError) -> list[Any]:
    elements = [one for source in _REPEATS.get(field.name, (field.name,)) for one in getattr(named, source, None) or ()]
    if getattr(named, "dirs", None):  # AlterReplicaLogDirs: each directory has topics
        elements = [topic for directory in elements for topic in directory.topics]
    declared = {one.name: one for one in fields_of(field.struct) if version in one.versions}
    assert field.struct is not None, field
    if field.struct.__name__ == _NO_NAME:
        return [_with_error(fresh(field.struct), error) for _ in elements]
    if "user" in declared:
        elements = list({one.name: one for one in elements}.values())
    return [_element(field.struct, declared.values(), one, version, error) for one in elements]


def _element(struct: Any, declared: Iterable[Field], named: Any, version: int, error: KafkaError) -> Any:
    element = fresh(struct)
    for field in declared:
        if _is_repeated(field):
            setattr(element, field.name, _repeated(named, field, version, error))
        elif field.name in _IDENTIFYING:
            setattr(element, field.name, _identity(named, field))
        elif field.name in _NOT_READ:
            setattr(element, field.name, _NOT_READ[field.name])
    return _with_error(element, error)


def _identity(named: Any, field: Field) -> Any:
    """Return the field's value from an item of the request, which is a struct, a name or a number; else its default."""
    default = default_of(field)
    if isinstance(named, str | int):
        return named if type(named) is type(default) else default
    for name in (field.name, _NAMES.get(field.name, "")):
        if hasattr(named, name):
            return getattr(named, name)
    return default
