"""No response of a leader ends a node: it is not followed, and the node fetches on after a pause."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from minikafka.controller.failures import FAILURES
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.metadata_log import encode_decision
from minikafka.controller.metadata.records import FeatureRecord
from minikafka.controller.metadata.snapshot_encoding import encode_snapshot, records_of
from minikafka.controller.quorum.raft_driver import RaftDriver
from minikafka.controller.quorum.raft_log import StoredRaftLog
from minikafka.controller.raft.log_interface import EpochEnd, SnapshotId
from minikafka.controller.raft.membership_records import control_batch
from minikafka.controller.raft.messages import BeginEpoch, FetchResponse, FetchSnapshotResponse, Response, VoteResponse
from minikafka.controller.raft.raft_settings import RaftSettings
from minikafka.protocol.records.batch import assign
from minikafka.protocol.records.control import ControlType
from minikafka.storage.disks.memory_disk import MemoryDisk
from minikafka.storage.log_config import LogConfig

EPOCH, LEADER = 5, 2
COMMITTED = 3
BATCH = encode_decision([FeatureRecord("x", 1)] * COMMITTED, 0)
INT31, INT63 = (1 << 31) - 1, (1 << 63) - 1


def at(offset: int, data: bytes = BATCH) -> bytes:
    """A batch as the leader's log has it."""
    writable = bytearray(data)
    assign(writable, 0, offset, EPOCH)
    return bytes(writable)


def fetched(**given: Any) -> FetchResponse:
    return FetchResponse(**{"epoch": EPOCH, "leader": LEADER, "high_watermark": COMMITTED} | given)


def part(data: bytes, offset: int = 9, size: int | None = None) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(EPOCH, LEADER, SnapshotId(offset, EPOCH), len(data) if size is None else size, 0, data)


def offered(offset: int) -> FetchResponse:
    return fetched(snapshot=SnapshotId(offset, EPOCH))


GOOD_SNAPSHOT = encode_snapshot(records_of(Image()))
UNREADABLE_VOTERS = control_batch([(ControlType.KRAFT_VOTERS, b"\0\1 newer")], timestamp_ms=0)
HOSTILE: dict[str, list[Response]] = {
    "a truncation below the high watermark": [fetched(diverging=EpochEnd(EPOCH, 1))],
    "a truncation of an epoch before all": [fetched(diverging=EpochEnd(0, 0))],
    "another leader of the same epoch": [fetched(leader=3)],
    "a later epoch, and this node as its leader": [fetched(epoch=INT31, leader=1)],
    "a leader that is not a voter": [fetched(leader=77)],
    "a response of another kind": [VoteResponse(EPOCH, LEADER, granted=True)],
    "records beyond the log end": [fetched(records=at(7))],
    "records that are there already": [fetched(records=at(0))],
    "half a batch": [fetched(records=at(COMMITTED)[:-1])],
    "a damaged batch": [fetched(records=at(COMMITTED)[:-1] + b"!")],
    "voters that cannot be read": [fetched(records=at(COMMITTED, UNREADABLE_VOTERS))],
    "an offset at the end of all": [fetched(records=at(INT63 - 1))],
    "the greatest high watermark": [fetched(high_watermark=INT63, log_start=INT63)],
    "a snapshot below the high watermark": [offered(1), part(GOOD_SNAPSHOT, 1)],
    "a snapshot that is too large": [offered(9), part(b"x", size=INT63)],
    "an empty snapshot": [offered(9), part(b"")],
    "a damaged snapshot": [offered(9), part(GOOD_SNAPSHOT[:-1] + b"!")],
    "a snapshot that is larger than it says": [offered(9), part(GOOD_SNAPSHOT, size=3)],
    "a part that was not asked for": [part(GOOD_SNAPSHOT)],
    "a snapshot instead of its parts": [offered(9), offered(9), offered(9)],
}


class Node:
    """Node 1 of three, which follows node 2: that one gives prepared responses, and then what it has."""

    def __init__(self, responses: list[Response]) -> None:
        self.responses = [fetched(records=at(0)), *responses]
        self.disk = MemoryDisk(Random(0))
        self.stored = StoredRaftLog.open(self.disk, "/data", LogConfig(retention_ms=-1), now_ms=lambda: 0)
        self.asked: list[tuple[float, dict[str, Any]]] = []
        self.driver: RaftDriver

    async def send(self, peer: int, body: dict[str, Any]) -> dict[str, Any]:
        if body["kind"] != "fetch" and body["kind"] != "fetch-snapshot":
            await trio.sleep_forever()
        self.asked.append((trio.current_time(), body))
        if self.responses:
            return dict(self.responses.pop(0).to_map())
        if body["kind"] == "fetch-snapshot":
            return dict(FetchSnapshotResponse(self.driver.epoch, LEADER, SnapshotId(*body["snapshot"])).to_map())
        records = at(body["fetch_offset"]) if body["fetch_offset"] < 2 * COMMITTED else b""
        if body["high_watermark"] == 2 * COMMITTED:
            await trio.sleep_forever()
        response = fetched(epoch=self.driver.epoch, records=records, high_watermark=2 * COMMITTED)
        return dict(response.to_map())

    async def follow(self) -> None:
        """Until it has what the leader has."""
        self.driver = RaftDriver(
            node_id=1, voters=(1, 2, 3), stored=self.stored, settings=RaftSettings(4, 4, 0.1, 1, 0.5), random=Random(1),
            send_request=self.send, listener=Listener(), wall_clock_ms=lambda: 0,
        )  # fmt: skip
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.driver.run)
            self.driver.request(LEADER, BeginEpoch(EPOCH, LEADER).to_map(), lambda body: None)
            with trio.fail_after(60):
                while self.driver.high_watermark < 2 * COMMITTED:
                    await trio.sleep(0.01)
                    if self.driver.leader_id != LEADER:
                        body = BeginEpoch(self.driver.epoch, LEADER).to_map()
                        self.driver.request(LEADER, body, lambda body: None)
            nursery.cancel_scope.cancel()


class Listener(SimpleNamespace):
    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


@pytest.mark.parametrize("responses", HOSTILE.values(), ids=HOSTILE)
def test_no_response_of_a_leader_ends_a_node(responses: list[Response]) -> None:
    node = Node(list(responses))
    with capture_logs():
        trio.run(node.follow, clock=trio.testing.MockClock(autojump_threshold=0))
    assert node.stored.end_offset == 2 * COMMITTED
    assert len(node.asked) < 100, "it fetches again after a pause"
    node.stored.close()
    again = StoredRaftLog.open(node.disk, "/data", LogConfig(retention_ms=-1), now_ms=lambda: 0)
    assert again.end_offset == 2 * COMMITTED


@pytest.mark.parametrize(
    "refused",
    [
        fetched(records=at(7)),
        fetched(records=at(0)),
        fetched(records=at(COMMITTED)[:-1]),
        fetched(diverging=EpochEnd(EPOCH, 1)),
        fetched(leader=3),
        fetched(leader=77),
        fetched(epoch=INT31, leader=77),
        fetched(epoch=INT31),
    ],
)
def test_why_a_response_is_refused_is_logged_once_however_often_it_comes(refused: FetchResponse) -> None:
    node = Node([refused] * 5)
    with capture_logs() as lines:
        trio.run(node.follow, clock=trio.testing.MockClock(autojump_threshold=0))
    errors = [line for line in lines if line["log_level"] == "error"]
    assert [line["event"] for line in errors] == ["malformed raft response"]
    assert errors[0]["node"] == LEADER
    assert errors[0]["error"]


def test_why_a_request_is_refused_is_logged_once_however_often_it_comes() -> None:
    """A node of another quorum, whose voters are others, repeats its request twice a second."""
    node, answers = Node([]), list[Any]()

    async def story() -> None:
        await node.follow()
        for _ in range(5):
            node.driver.request(7, BeginEpoch(EPOCH + 1, 7).to_map(), answers.append)

    with capture_logs() as lines:
        trio.run(story, clock=trio.testing.MockClock(autojump_threshold=0))
    errors = [line for line in lines if line["log_level"] == "error"]
    assert [(line["event"], line["node"]) for line in errors] == [("malformed raft request", 7)]
    assert answers == [{}] * 5


@pytest.mark.parametrize("appended", [False, True])
def test_a_bug_fails_one_exchange_and_nothing_is_acknowledged_before_it_is_synced(appended: bool) -> None:
    node, bugs = Node([]), 3
    spoiled: Any = node.stored
    append, sync, left = spoiled.append_as_follower, spoiled.sync, iter([False] + [True] * bugs)
    synced = [0]

    def broken(data: bytes) -> int:
        is_broken = next(left, False)
        if appended or not is_broken:
            append(data)
        if is_broken:
            raise RuntimeError("a bug")
        return node.stored.end_offset

    async def slow_sync() -> None:
        end_offset = node.stored.end_offset
        await trio.sleep(0.2)
        await sync()
        synced.append(end_offset)

    async def send(peer: int, body: dict[str, Any]) -> dict[str, Any]:
        assert body.get("fetch_offset", 0) <= synced[-1]
        return await Node.send(node, peer, body)

    node.send, spoiled.append_as_follower, spoiled.sync = send, broken, slow_sync  # type: ignore[method-assign]
    before = FAILURES["raft"]
    with capture_logs() as lines:
        trio.run(node.follow, clock=trio.testing.MockClock(autojump_threshold=0))
    logged = [line for line in lines if line["event"] == "raft response failed"]
    assert len(logged) == FAILURES["raft"] - before == (1 if appended else bugs)
    assert all(line["exc_info"] for line in logged)
    pauses = [later[0] - sooner[0] for sooner, later in itertools.pairwise(node.asked)]
    assert appended or min(pauses) > 0.09, "after each bug there is a pause"
