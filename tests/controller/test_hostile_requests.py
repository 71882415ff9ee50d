"""Requests that meet a bug, and frames of any content: they end nothing but themselves, directly and forwarded."""

from collections.abc import Mapping
from typing import Any

import pytest
import structlog.testing
import trio
from support.quorum import Controllers, create, register, run

from minikafka.controller.decisions.decision import Decision
from minikafka.controller.decisions.request_table import IN_STEPS
from minikafka.controller.failures import FAILURES
from minikafka.controller.quorum.handshake import ConnectionLost
from minikafka.controller.quorum.peer_network import TcpNetwork
from minikafka.protocol.apis import APIS
from minikafka.protocol.codec.schema import fresh
from minikafka.protocol.errors import NotControllerError, UnknownServerError
from minikafka.protocol.messages.alter_configs import AlterConfigsRequest
from minikafka.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from minikafka.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

VERSION = {api.request: api.versions.last for api in APIS.values()}


async def all_go_on(cluster: Controllers, *node_ids: int) -> None:
    """Every node runs, and topics can be created."""
    leader = await cluster.leader()
    await register(leader.controller, leader.node_id, incarnation=9)
    assert await create(cluster[leader.node_id], "afterwards") == [0]
    await cluster.agree()
    assert sorted(cluster.running) == sorted(node_ids)
    assert not [one.failure for one in cluster.running.values() if one.ended.is_set()]


@pytest.mark.parametrize("kind", IN_STEPS, ids=lambda kind: kind.__name__)
def test_a_bug_in_any_decision_is_answered_logged_and_counted(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Decision[Any]:
        raise OverflowError("a bug")

    async def scenario(cluster: Controllers) -> None:
        await cluster.start(1, 2, 3)
        leader = (await cluster.leader()).node_id
        with monkeypatch.context() as patch, structlog.testing.capture_logs() as logs:
            patch.setitem(IN_STEPS, kind, broken)
            failed = FAILURES["decision"]
            for node_id in (1, 2, 3):
                with pytest.raises(UnknownServerError) as caught:
                    await cluster[node_id].handle(fresh(kind), VERSION[kind])
                assert caught.value.detail is None
        assert [one["event"] for one in logs if "exc_info" in one] == ["decision failed"] * 3
        assert FAILURES["decision"] == failed + 3
        assert (await cluster.leader()).node_id == leader
        await all_go_on(cluster, 1, 2, 3)

    run(scenario)


@pytest.mark.parametrize("name", ["x" * 32_768, "\ud800"], ids=["too long", "not unicode"])
def test_a_forwarded_request_whose_response_cannot_be_encoded_is_answered(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unencodable(*_: Any) -> Decision[Any]:
        return Decision([], CreateTopicsResponse(topics=[CreatableTopicResult(name=name, error_message=None)]))

    async def scenario(cluster: Controllers) -> None:
        await cluster.start(1, 2, 3)
        leader = (await cluster.leader()).node_id
        with monkeypatch.context() as patch, structlog.testing.capture_logs() as logs:
            patch.setitem(IN_STEPS, CreateTopicsRequest, unencodable)
            with pytest.raises(UnknownServerError):
                await cluster[leader % 3 + 1].handle(CreateTopicsRequest(topics=[], timeout_ms=1), 7)
        assert [one["api"] for one in logs if one["event"] == "forwarded request failed"] == ["CreateTopics"]
        await all_go_on(cluster, 1, 2, 3)

    run(scenario)


@pytest.mark.parametrize(("kind", "sent"), [(AlterConfigsRequest, 2), (CreateTopicsRequest, 1)])
def test_a_request_that_ends_its_receiver_is_sent_to_one_more_leader_at_most(
    kind: type, sent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(cluster: Controllers) -> None:
        await cluster.start(1, 2, 3, 4, 5)
        leader = (await cluster.leader()).node_id
        ended: list[int] = []

        def deadly(*_: Any) -> Decision[Any]:
            active = next(one for one in cluster.running.values() if one.controller.is_active)
            ended.append(active.node_id)
            active.scope.cancel()
            return Decision([], None)

        with monkeypatch.context() as patch:
            patch.setitem(IN_STEPS, kind, deadly)
            with pytest.raises(NotControllerError):
                await cluster[leader % 5 + 1].handle(fresh(kind), VERSION[kind])
            await trio.sleep(5)
        assert len(ended) == sent

    run(scenario, voters=5)


def test_a_request_outlives_any_number_of_elections(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that is deposed, and does not answer, was not ended by the request."""

    async def scenario(cluster: Controllers) -> None:
        await cluster.start(1, 2, 3, 4)
        await cluster.leader()
        peers, deposed = cluster[4]._peers, list[int]()
        request = peers.request

        async def unanswered(peer: int, kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
            if kind == "forward" and len(deposed) < 4:
                deposed.append(peer)
                await cluster[peer].resign()
                await trio.sleep_forever()
            return await request(peer, kind, body)

        monkeypatch.setattr(peers, "request", unanswered)
        assert await cluster[4].handle(AlterConfigsRequest(resources=[]), VERSION[AlterConfigsRequest])
        assert len(deposed) == 4

    run(scenario)


BODIES: list[dict[str, Any]] = [
    {},
    {"api": 19},
    {"api": "19", "version": 7, "data": b""},
    {"api": [], "version": {}, "data": 1},
    {"api": 1 << 63, "version": 7, "data": b""},
    {"api": 19, "version": 1 << 63, "data": b""},
    {"api": 19, "version": 7, "data": b"\xff" * 100},
    {"api": 19, "version": 7, "data": b""},
    {"api": 3, "version": 12, "data": b""},
    {"api": 44, "version": 1, "data": b"\x00" * 9},
    {"epoch": 1 << 63, "offset": -1},
    {"epoch": None, "offset": "x"},
    {"kind": []},
    {"kind": "fetch"},
    {"kind": "vote", "version": -1},
    {"kind": "fetch-snapshot", "version": 1 << 60, "epoch": "\u0000"},
]


@pytest.mark.parametrize("what", ["raft", "applied", "describe", "forward", "", "\u0000"])
def test_frames_of_any_content_end_no_node(what: str) -> None:
    async def scenario(cluster: Controllers) -> None:
        await cluster.start(1, 2, 3)
        leader = (await cluster.leader()).node_id
        sender = leader % 3 + 1
        for body in BODIES:
            with trio.move_on_after(1):
                try:
                    await cluster[sender]._peers.request(leader, what, body)
                except ConnectionLost:
                    await trio.sleep(0.5)
        await all_go_on(cluster, 1, 2, 3)

    run(scenario)


def test_a_bug_that_a_peers_frame_meets_closes_its_connection_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(cluster: Controllers) -> None:
        await cluster.start(1, 2, 3)
        leader = (await cluster.leader()).node_id
        failed = FAILURES["peer"]

        def broken(*_: Any) -> None:
            raise ZeroDivisionError

        with monkeypatch.context() as patch:
            patch.setattr(cluster[leader]._peers._accepted[leader % 3 + 1], "_on_request", broken)
            with pytest.raises(ConnectionLost):
                await cluster[leader % 3 + 1]._peers.request(leader, "applied", {})
        assert FAILURES["peer"] > failed
        await all_go_on(cluster, 1, 2, 3)

    run(scenario)


@pytest.mark.parametrize(
    ("host", "port"),
    [("a\0b", 1), ("x" * 64 + ".", 1), ("\ud800", 1), ("127.0.0.1", 1 << 40), ("127.0.0.1", -1), ("..", 9)],
)
def test_what_is_no_address_cannot_be_reached(host: str, port: int) -> None:
    """Other nodes and AddRaftVoter name any."""
    with pytest.raises(OSError, match=r".+"):
        trio.run(TcpNetwork().connect, host, port)


def test_heartbeats_of_unknown_brokers_are_answered() -> None:
    async def scenario(cluster: Controllers) -> None:
        await cluster.start(1, 2, 3)
        for broker_id in (-1, -(1 << 31), (1 << 31) - 1):
            request = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=-1, current_metadata_offset=-1)
            assert (await cluster[1].handle(request, 1)).error_code
        await all_go_on(cluster, 1, 2, 3)

    run(scenario)
