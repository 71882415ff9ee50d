"""Requests that name the same thing again and again: what their responses repeat is bounded in bytes, for every API."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
import trio
from support.images import cluster, static, with_topic

from minikafka.broker.apis import (
    consumer_group_describe,
    describe_configs,
    describe_groups,
    describe_producers,
    describe_transactions,
    offset_fetch,
)
from minikafka.broker.apis.handler_table import HANDLERS
from minikafka.broker.apis.repeats import REPEATED_SIZE_BYTES_MAX, Repeats
from minikafka.broker.connections.request_context import ConnectionInfo, RequestContext
from minikafka.controller.settings.effective_settings import EffectiveSettings
from minikafka.protocol.apis import api_of
from minikafka.protocol.errors import InvalidRequestError
from minikafka.protocol.message import encode, fields_of
from minikafka.protocol.messages.consumer_group_describe import Assignment, ConsumerGroupDescribeRequest, Member
from minikafka.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from minikafka.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from minikafka.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from minikafka.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from minikafka.protocol.messages.describe_transactions import DescribeTransactionsRequest, TopicData, TransactionState
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

ELEMENTS_MAX = 10_000
IMAGE = with_topic(cluster(), "t", (1,))

ONCE_FOR_EACH = {
    "DescribeLogDirs": "partitions are looked for in a set",
    "DescribeQuorum": "of the metadata partition, if it is named once",
    "DescribeTopicPartitions": "topics are sorted, each once; `response.partition.limit`",
    "Fetch": "aborted transactions of records, which `max_bytes` bounds",
    "Metadata": "topics are answered once",
    "Produce": "errors of records of one batch, which the request has",
    "ListPartitionReassignments": "replicas of a partition",
    "DescribeClientQuotas": "a component named twice is refused",
    "DescribeUserScramCredentials": "a user named twice is refused",
    "DeleteAcls": "there are none",
    "DescribeDelegationToken": "there are none",
}
"""Of the other APIs whose responses have arrays within what their requests name: why nothing is repeated."""


class Case(NamedTuple):
    """An API that describes what is named.

    Attributes:
        request: A request that names the same thing so many times.
        services: What describes it, in some 30 KB; counts how often it was asked.
    """

    module: ModuleType
    request: Callable[[int], Any]
    services: Callable[[list[str]], Any]


def counting(asked: list[str], answer: Callable[[], Any]) -> Callable[..., Any]:
    async def describe(*_: object, **__: object) -> Any:
        asked.append("")
        return answer()

    return describe


def a_group() -> DescribedGroup:
    return DescribedGroup(group_id="g", members=[DescribedGroupMember(member_metadata=bytes(30_000))])


def a_consumer_group() -> DescribedConsumerGroup:
    nothing = Assignment()
    members = [
        Member(member_id="m" * 36, client_id="c" * 264, assignment=nothing, target_assignment=nothing)
        for _ in range(100)
    ]
    return DescribedConsumerGroup(group_id="g", members=members)


def all_offsets() -> OffsetFetchResponseGroup:
    partitions = [
        OffsetFetchResponsePartitions(partition_index=index, committed_offset=1, metadata="m" * 3_000)
        for index in range(10)
    ]
    return OffsetFetchResponseGroup(group_id="g", topics=[OffsetFetchResponseTopics(name="t", partitions=partitions)])


def a_transaction() -> TransactionState:
    return TransactionState(topics=[TopicData(topic="t", partitions=list(range(7_000)))])


class Producers:
    """Of a partition: those of 700 ids. An iteration counts as asked."""

    def __init__(self, asked: list[str]) -> None:
        self._asked = asked

    def __iter__(self) -> Any:
        self._asked.append("")
        one = SimpleNamespace(
            producer_id=1, epoch=0, last_sequence=0, last_timestamp=0, coordinator_epoch=0, transaction_first_offset=-1
        )
        return iter([one] * 700)


def a_partition(asked: list[str]) -> Any:
    partition = SimpleNamespace(log=SimpleNamespace(producers=Producers(asked)))
    return SimpleNamespace(partitions=SimpleNamespace(find=lambda *_: partition))


def groups(name: str, answer: Callable[[], Any]) -> Callable[[list[str]], Any]:
    def services(asked: list[str]) -> Any:
        coordinator = SimpleNamespace(supports_consumer_groups=True, **{name: counting(asked, answer)})
        return SimpleNamespace(groups=coordinator, transactions=SimpleNamespace(coordinator=coordinator), image=IMAGE)

    return services


class Levels(dict[str, str]):
    """Loggers; a look at them counts as asked."""

    def __init__(self, asked: list[str]) -> None:
        super().__init__({f"{number:05}" + "l" * 95: "INFO" for number in range(250)})
        self._asked = asked

    def items(self) -> Any:
        self._asked.append("")
        return super().items()


def configs(asked: list[str]) -> Any:
    setup = SimpleNamespace(effective=EffectiveSettings(static(), IMAGE), log_levels=Levels(asked))
    return SimpleNamespace(setup=setup)


def group_of_offsets() -> OffsetFetchRequestGroup:
    return OffsetFetchRequestGroup(group_id="g", topics=None)


def a_spelling(number: int) -> str:
    """One of the ways to write 1: zeros before it may be those of another alphabet."""
    return f"{number:014b}".translate({ord("1"): "\u0660"}) + "1"


CASES = {
    "DescribeGroups": Case(
        describe_groups, lambda times: DescribeGroupsRequest(groups=["g"] * times), groups("describe", a_group)
    ),
    "ConsumerGroupDescribe": Case(
        consumer_group_describe,
        lambda times: ConsumerGroupDescribeRequest(group_ids=["g"] * times),
        groups("describe_consumer_group", a_consumer_group),
    ),
    "OffsetFetch": Case(
        offset_fetch,
        lambda times: OffsetFetchRequest(groups=[group_of_offsets() for _ in range(times)]),
        groups("fetch", all_offsets),
    ),
    "DescribeTransactions": Case(
        describe_transactions,
        lambda times: DescribeTransactionsRequest(transactional_ids=["t"] * times),
        groups("describe", a_transaction),
    ),
    "DescribeProducers": Case(
        describe_producers,
        lambda times: DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0] * times)]),
        a_partition,
    ),
    "DescribeProducers, topics": Case(
        describe_producers,
        lambda times: DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])] * times),
        a_partition,
    ),
    "DescribeConfigs": Case(
        describe_configs,
        lambda times: DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=8, resource_name="1", configuration_keys=None)] * times
        ),
        configs,
    ),
    "DescribeConfigs, spellings": Case(
        describe_configs,
        lambda times: DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=8, resource_name=a_spelling(number), configuration_keys=None)
                for number in range(times)
            ]
        ),
        configs,
    ),
}


def handled(case: Case, times: int, asked: list[str]) -> bytes:
    """The response in the API's newest version."""
    version = int(case.module.VERSIONS.rpartition("-")[2])
    version = min(version, 9) if case.module is offset_fetch else version  # 10 has ids in place of names
    context = RequestContext(case.services(asked), version, "", ConnectionInfo("PLAINTEXT", "127.0.0.1"))
    return encode(trio.run(case.module.handle, case.request(times), context), version)


@pytest.mark.parametrize("name", CASES)
def test_what_is_named_again_is_answered_again_until_it_is_too_much(name: str) -> None:
    case, asked = CASES[name], list[str]()
    once, thrice = handled(case, 1, asked), handled(case, 3, asked)
    assert len(thrice) > 2.9 * len(once), "as Apache Kafka"
    asked.clear()
    with pytest.raises(InvalidRequestError, match="name it once"):
        handled(case, ELEMENTS_MAX, asked)
    assert len(asked) <= 3 + REPEATED_SIZE_BYTES_MAX // len(once)


def test_what_is_named_for_the_first_time_does_not_count_however_large_it_is() -> None:
    def large(name: str) -> DescribedGroup:
        member = DescribedGroupMember(member_metadata=bytes(2 * REPEATED_SIZE_BYTES_MAX))
        return DescribedGroup(group_id=name, members=[member])

    repeats = Repeats(lambda group: DescribeGroupsResponse(groups=[group]), 5)
    names = [f"{number:04}" + "g" * 30_000 for number in range(100)]
    for name in names:
        repeats.check(name, large(name))
    repeats.check(names[0], DescribedGroup(group_id=names[0]))
    with pytest.raises(InvalidRequestError, match="name it once"):
        repeats.check(names[0], large(names[0]))


def depth(cls: Any) -> int:
    """How many arrays a message has within each other."""
    return max((field.is_array + (depth(field.struct) if field.struct else 0) for field in fields_of(cls)), default=0)


def test_each_api_that_describes_what_is_named_is_known() -> None:
    apis = [api_of(handler.REQUEST) for handler in HANDLERS]
    describing = {api.name for api in apis if 0 < depth(api.request) < depth(api.response)}
    assert describing | {"OffsetFetch"} == {name.partition(",")[0] for name in CASES} | set(ONCE_FOR_EACH)
