"""Requests with offsets of very many partitions, in parts of `PARTITIONS_AT_ONCE`: each is a decision.

Partitions are independent: each has its own record, and its own error in the response. Others may decide between two
parts; a group that has changed meanwhile refuses the later ones, and the response says so for their partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from itertools import chain, islice
from typing import Any, Protocol, TypeVar

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

PARTITIONS_AT_ONCE = 1_000
"""Offsets that are checked, written and applied in one step; about 7 ms."""


class _WithTopics(Protocol):
    topics: Any


R = TypeVar("R", bound=_WithTopics)
A = TypeVar("A", bound=_WithTopics)


def is_large(request: _WithTopics) -> bool:
    """Whether a request has more partitions than one decision should have."""
    return sum([len(topic.partitions) for topic in request.topics]) > PARTITIONS_AT_ONCE


def parts(request: R) -> Iterator[R]:
    """The request in parts, in order; a topic may be in several. The request itself is not changed."""
    topics: list[Any] = []
    left = PARTITIONS_AT_ONCE
    for topic in request.topics:
        taken = 0
        while taken < len(topic.partitions):
            some = topic.partitions[taken : taken + left]
            topics.append(_with(topic, some))
            taken += len(some)
            left -= len(some)
            if not left:
                yield _of(request, topics)
                topics, left = [], PARTITIONS_AT_ONCE
    if topics:
        yield _of(request, topics)


def whole(request: _WithTopics, answers: Sequence[A]) -> A:
    """The response to a request from those to its parts: the first one, with the topics as they were asked for.

    No topic of the request is without partitions.
    """
    answered = [topic for answer in answers for topic in answer.topics]
    by_name = {topic.name: topic for topic in answered}
    partitions: Iterator[Any] = chain.from_iterable([topic.partitions for topic in answered])
    first = answers[0]
    first.topics = [
        _with(by_name[topic.name], list(islice(partitions, len(topic.partitions)))) for topic in request.topics
    ]
    return first


def deleted_in_parts(
    request: OffsetDeleteRequest, answered: Sequence[tuple[OffsetDeleteRequest, OffsetDeleteResponse]]
) -> OffsetDeleteResponse:
    """The response to an OffsetDelete. What refuses a later part is the error of its partitions, not of all.

    A group that was deleted meanwhile has no offsets left.
    """
    if answered[0][1].error_code:
        return answered[0][1]
    return whole(request, [_with_partitions(part, reply) for part, reply in answered])


def _with_partitions(part: OffsetDeleteRequest, reply: OffsetDeleteResponse) -> OffsetDeleteResponse:
    if not reply.error_code:
        return reply
    error = ErrorCode.NONE if reply.error_code == ErrorCode.GROUP_ID_NOT_FOUND else reply.error_code
    answered = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(partition_index=one.partition_index, error_code=error)
                for one in topic.partitions
            ],
        )
        for topic in part.topics
    ]
    return OffsetDeleteResponse(topics=answered)


def _of(request: R, topics: list[Any]) -> R:
    part = copy(request)
    part.topics = topics
    return part


def _with(topic: Any, partitions: list[Any]) -> Any:
    changed = copy(topic)
    changed.partitions = partitions
    return changed
