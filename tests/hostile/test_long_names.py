"""A thousand groups with names of 30,000 letters: responses that nobody reads, and requests that name them all."""

from __future__ import annotations

import time
from contextlib import ExitStack
from selectors import EVENT_READ, DefaultSelector

import pytest
from support.clients_raw import RawConnection, forget_peak, peak_bytes, request, resident_bytes
from support.node import ServerProcess
from support.oracle import Oracle

from minikafka.broker.connections.large_messages import UNSENT_SIZE_BYTES_MAX
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

MIB = 1 << 20
GROUPS = 1_000
NAMES = [f"{number:04}" + "g" * 29_996 for number in range(GROUPS)]
RESPONSE_BYTES = sum(map(len, NAMES))
CLIENTS = 30
ENOUGH_S = 5.0
"""In which all would be answered."""
NOT_YET = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
MARGIN = 2 * RESPONSE_BYTES + 32 * MIB
"""A response is made of its pieces; the heap that held them stays in pieces."""


@pytest.fixture(scope="module", autouse=True)
def of_this_node(node: ServerProcess) -> None:
    """Skips Apache Kafka, which has no such bounds; creates the groups."""
    if isinstance(node, Oracle):
        pytest.skip("about this node's memory and steps")
    with RawConnection(node.address) as first:
        commit_to_all(first)


@pytest.fixture
def growth_bytes_max(growth_bytes_max: int) -> int:
    return growth_bytes_max + 3 * RESPONSE_BYTES


def commit_to_all(connection: RawConnection) -> None:
    topic = CreatableTopic(name="long-names", num_partitions=1, replication_factor=1)
    connection.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 5)
    while connection.ask(FindCoordinatorRequest(coordinator_keys=NAMES[:1]), 4).coordinators[0].error_code:
        pass
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")]
    topics = [OffsetCommitRequestTopic(name="long-names", partitions=partitions)]
    for name in NAMES:
        while (error := commit(connection, name, topics)) in NOT_YET:
            pass
        assert error == ErrorCode.NONE


def commit(connection: RawConnection, group_id: str, topics: list[OffsetCommitRequestTopic]) -> int:
    reply: OffsetCommitResponse = connection.ask(OffsetCommitRequest(group_id=group_id, topics=topics), 8)
    return reply.topics[0].partitions[0].error_code


def begun_within(timeout_s: float, clients: list[RawConnection]) -> int:
    """How many clients receive responses after this time, or earlier if all do."""
    deadline = time.monotonic() + timeout_s
    with DefaultSelector() as waiting:
        for client in clients:
            waiting.register(client.socket, EVENT_READ)
        while waiting.get_map() and (left_s := deadline - time.monotonic()) > 0:
            for begun, _ in waiting.select(left_s):
                waiting.unregister(begun.fileobj)
        return len(clients) - len(waiting.get_map())


def listed(connection: RawConnection, states: list[str]) -> ListGroupsResponse:
    response: ListGroupsResponse = connection.ask(ListGroupsRequest(states_filter=states), 4)
    return response


@pytest.mark.slow
def test_lists_of_long_names_that_nobody_reads_take_no_more_than_their_budget(node: ServerProcess) -> None:
    with RawConnection(node.address) as honest:
        before = resident_bytes(node.pid)
        forget_peak(node.pid)
        with ExitStack() as stack:
            clients = [stack.enter_context(RawConnection(node.address)) for _ in range(CLIENTS)]
            for client in clients:
                client.send(request(ListGroupsRequest(), 4))
            assert 0 < begun_within(ENOUGH_S, clients) < CLIENTS
            assert not listed(honest, ["Dead"]).groups, "small responses do not wait"
        assert len(listed(honest, []).groups) >= GROUPS
        grown = peak_bytes(node.pid) - before
        assert grown < UNSENT_SIZE_BYTES_MAX + RESPONSE_BYTES + MARGIN, f"grew by {grown / MIB:.0f} MiB"


@pytest.mark.slow
def test_many_groups_with_long_names_are_deleted_in_steps(node: ServerProcess) -> None:
    with RawConnection(node.address) as connection:
        results = connection.ask(DeleteGroupsRequest(groups_names=NAMES), 2).results
        assert len(results) == GROUPS
        again = connection.ask(DeleteGroupsRequest(groups_names=NAMES), 2).results
    assert {result.error_code for result in again} == {ErrorCode.GROUP_ID_NOT_FOUND}
