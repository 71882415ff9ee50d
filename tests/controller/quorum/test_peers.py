"""Connections between nodes: requests and responses, refused nodes, lost connections."""

import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from support.memory_network import MemoryNetwork

from minikafka.controller.quorum import handshake_log, peers
from minikafka.controller.quorum.handshake import ConnectionLost, HandshakeRefused, Hello, hello_map
from minikafka.controller.quorum.node_logins import PeerSecurity
from minikafka.controller.quorum.peer_connection import Reply
from minikafka.controller.quorum.peer_frames import encode_frame
from minikafka.controller.quorum.peers import Peers, Unreachable
from minikafka.controller.security.access import Principal
from minikafka.protocol.shortened import LENGTH_MAX

LARGE = 10 << 20
VOTERS = {1: ("node-1", 9093), 2: ("node-2", 9093), 3: ("node-3", 9093)}


class Node:
    """Peers that respond to `double` with twice the number, and never to `silence`."""

    def __init__(self, network: MemoryNetwork, node_id: int, cluster_id: str | None = None) -> None:
        self.cluster_id = cluster_id
        self.lost: list[tuple[int, bool]] = []
        self.refused: list[str] = []
        self._network = network.of(node_id)
        self.peers = Peers(
            node_id,
            network=self._network,
            voters=VOTERS,
            cluster_id=lambda: self.cluster_id,
            on_cluster_id=self._learn,
            on_request=self._on_request,
            on_connection_lost=self._lost,
            on_refused=lambda node, reason: self.refused.append(reason),
        )

    def _lost(self, node_id: int, is_dead: bool) -> None:
        self.lost.append((node_id, is_dead))

    def _learn(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id

    def _on_request(self, sender: int, kind: str, body: dict[str, Any], reply: Reply) -> None:
        if kind == "double":
            reply({"number": 2 * body["number"]})

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        await self.peers.run(await self._network.listen("", 0), task_status=task_status)


def with_nodes(
    scenario: Callable[[MemoryNetwork, trio.Nursery, Node, Node], Awaitable[None]], *clusters: str | None
) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one, two = (Node(network, node_id, cluster_id) for node_id, cluster_id in zip((1, 2), clusters, strict=True))
        async with trio.open_nursery() as nursery:
            await nursery.start(one.run)
            await scenario(network, nursery, one, two)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_many_concurrent_requests_get_their_responses() -> None:
    async def scenario(network: MemoryNetwork, nursery: trio.Nursery, one: Node, two: Node) -> None:
        await nursery.start(two.run)
        answers: list[int] = []

        async def ask(number: int) -> None:
            answers.append((await one.peers.request(2, "double", {"number": number}))["number"])

        async with trio.open_nursery() as asking:
            for number in range(100):
                asking.start_soon(ask, number)
        assert sorted(answers) == list(range(0, 200, 2))
        assert two.cluster_id == "a"  # learned in the handshake

    with_nodes(scenario, "a", None)


def test_a_node_is_unreachable_until_it_starts() -> None:
    async def scenario(network: MemoryNetwork, nursery: trio.Nursery, one: Node, two: Node) -> None:
        for _ in range(20):
            with pytest.raises(Unreachable):
                await one.peers.request(2, "double", {"number": 1})
            await trio.sleep(0.05)
        assert (2, True) in one.lost
        await nursery.start(two.run)
        await trio.sleep(0.25)
        assert await one.peers.request(2, "double", {"number": 1}) == {"number": 2}

    with_nodes(scenario, None, None)


def test_a_node_that_is_not_where_the_log_says_is_found_where_another_says() -> None:
    """The voters in the log of an observer that has no leader do not change: what it was told was never tried."""

    async def scenario(network: MemoryNetwork, nursery: trio.Nursery, one: Node, two: Node) -> None:
        await nursery.start(two.run)
        one.peers.voters[2] = ("node-9", 9093)
        one.peers.addresses.learn(Hello(3, None, None, {2: ("node-2", 9093)}, is_dynamic=True))
        with pytest.raises(Unreachable):
            await one.peers.request(2, "double", {"number": 1})
        await trio.sleep(0.25)
        assert await one.peers.request(2, "double", {"number": 1}) == {"number": 2}

    with_nodes(scenario, None, None)


def test_a_lost_connection_is_reported_and_fails_pending_requests() -> None:
    async def scenario(network: MemoryNetwork, nursery: trio.Nursery, one: Node, two: Node) -> None:
        life, failed = trio.CancelScope(), trio.Event()

        async def live(task_status: trio.TaskStatus[None]) -> None:
            with life:
                await two.run(task_status)

        async def ask() -> None:
            with pytest.raises(ConnectionLost):
                await one.peers.request(2, "silence", {})
            failed.set()

        await nursery.start(live)
        nursery.start_soon(ask)
        await trio.sleep(1)
        life.cancel()
        await failed.wait()
        await trio.sleep(0.01)
        assert one.lost == [(2, True)]

    with_nodes(scenario, None, None)


def test_a_node_that_only_does_not_answer_is_not_taken_for_dead() -> None:
    """The connection is closed here, so that a new one may reach the node again."""

    async def scenario(network: MemoryNetwork, nursery: trio.Nursery, one: Node, two: Node) -> None:
        await nursery.start(two.run)
        with trio.move_on_after(1):
            await one.peers.request(2, "silence", {})
        await trio.sleep(0.01)
        assert (one.lost, two.lost) == ([(2, False)], [(1, True)])

    with_nodes(scenario, None, None)


def test_a_node_of_another_cluster_is_refused_with_the_reason_on_both_sides() -> None:
    async def scenario(network: MemoryNetwork, nursery: trio.Nursery, one: Node, two: Node) -> None:
        await nursery.start(two.run)
        with pytest.raises(Unreachable, match="node 1 belongs to cluster a, node 2 to b"):
            await one.peers.request(2, "double", {"number": 1})
        assert len(one.refused) == 1
        assert two.refused == []  # it sent no request, and only logs the refusal

    with_nodes(scenario, "a", "b")


def test_who_is_not_admitted_as_a_node_is_refused_before_anything_is_said_and_logged() -> None:
    async def scenario(network: MemoryNetwork, nursery: trio.Nursery, one: Node, two: Node) -> None:
        await nursery.start(two.run)
        one.peers.security = PeerSecurity(admission=lambda stream, principal: lambda: False)
        with capture_logs() as lines, pytest.raises(Unreachable):
            await two.peers.request(1, "double", {"number": 1})
        (line,) = [line for line in lines if line["event"] == "peer handshake refused"]
        assert "is not allowed CLUSTER_ACTION" in line["reason"]
        assert one.cluster_id is None
        stream = await network.of(2).connect(*VOTERS[1])
        await stream.send_all(encode_frame(hello_map(Hello(2, 1, "a", {}))))
        assert await stream.receive_some() == b""
        one.peers.security = PeerSecurity()
        await trio.sleep(1)
        assert await two.peers.request(1, "double", {"number": 1}) == {"number": 2}

    with_nodes(scenario, None, "a")


def test_a_node_that_loses_its_right_is_disconnected_at_its_next_request() -> None:
    async def scenario(network: MemoryNetwork, nursery: trio.Nursery, one: Node, two: Node) -> None:
        rights, asked = {"CLUSTER_ACTION"}, list[object]()

        def admission(stream: trio.abc.Stream, principal: Principal | None) -> Callable[[], bool]:
            asked.append(principal)
            return lambda: bool(rights)

        one.peers.security = PeerSecurity(admission=admission)
        await nursery.start(two.run)
        assert await two.peers.request(1, "double", {"number": 1}) == {"number": 2}
        rights.clear()
        with capture_logs() as lines, pytest.raises(ConnectionLost):
            await two.peers.request(1, "double", {"number": 2})
        assert "not allowed CLUSTER_ACTION" in next(line["error"] for line in lines if "error" in line)
        assert len(asked) == 1, "what a certificate says is read once for a connection"
        await trio.sleep(1)
        with pytest.raises(Unreachable):
            await two.peers.request(1, "double", {"number": 3})
        rights.add("CLUSTER_ACTION")
        await trio.sleep(1)
        assert await two.peers.request(1, "double", {"number": 4}) == {"number": 8}

    with_nodes(scenario, "a", "a")


@pytest.mark.slow
def test_what_is_kept_of_refused_strangers_is_bounded() -> None:
    """Each comes from a cluster of another name, or says why it refuses."""

    async def scenario(network: MemoryNetwork, nursery: trio.Nursery, one: Node, two: Node) -> None:
        for number in range(300):
            await trio.sleep(0.1)  # More lines in a second would not be written.
            hello = hello_map(Hello(77, None, f"{number}" + "x" * 10_000, {}))
            refusal = {"kind": "refused", "reason": f"{number}" + "y" * 10_000}
            for greeting in (hello, refusal):
                stream = await network.of(2).connect(*VOTERS[1])
                await stream.send_all(encode_frame(greeting))
                while await stream.receive_some():
                    pass
        kept = one.peers._handshakes._logged_refusals  # pyright: ignore[reportPrivateUsage]
        assert 0 < len(kept) <= handshake_log.LOGGED_REFUSALS_MAX
        assert max(map(len, kept)) <= 2 * LENGTH_MAX

    with_nodes(scenario, "a", None)


def test_lines_about_what_strangers_send_are_bounded() -> None:
    """Handshakes of other clusters, and frames that are none behind a right handshake."""

    async def send(stream: trio.abc.Stream, data: bytes) -> None:
        await stream.send_all(data)
        while await stream.receive_some():
            pass

    async def scenario(network: MemoryNetwork, nursery: trio.Nursery, one: Node, two: Node) -> None:
        with capture_logs() as lines:
            for second in range(2):
                for number in range(30):
                    other = hello_map(Hello(77, None, f"{second}-{number}", {}))
                    await send(await network.of(2).connect(*VOTERS[1]), encode_frame(other))
                    right = encode_frame(hello_map(Hello(77, None, "a", {})))
                    await send(await network.of(2).connect(*VOTERS[1]), right + encode_frame({"kind": str(number)}))
                await trio.sleep(1.5)
        count = Counter(line["event"] for line in lines)
        assert count["peer handshake refused"] == count["peer disconnected"] == 2 * handshake_log.LINES_OF_KIND_MAX
        (refused,) = [line["count"] for line in lines if line["event"] == "more peer handshakes refused"]
        (malformed,) = [line["count"] for line in lines if line["event"] == "more peers disconnected"]
        assert refused == malformed == 30 - handshake_log.LINES_OF_KIND_MAX

    with_nodes(scenario, "a", None)


def test_requests_succeed_again_after_a_network_partition() -> None:
    async def scenario(network: MemoryNetwork, nursery: trio.Nursery, one: Node, two: Node) -> None:
        await nursery.start(two.run)
        await one.peers.request(2, "double", {"number": 1})
        network.cut((1, 2))
        with trio.move_on_after(1):
            await one.peers.request(2, "double", {"number": 1})
            raise AssertionError("the network is partitioned")
        network.heal()
        await trio.sleep(0.25)
        assert await one.peers.request(2, "double", {"number": 3}) == {"number": 6}

    with_nodes(scenario, None, None)


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", encode_frame({"kind": "ask", "id": 1})])
def test_a_connection_without_handshake_is_closed(garbage: bytes) -> None:
    async def scenario(network: MemoryNetwork, nursery: trio.Nursery, one: Node, two: Node) -> None:
        stream = await network.of(3).connect("node-1", 9093)
        await stream.send_all(garbage)
        with trio.fail_after(2):
            assert await stream.receive_some() == b""

    with_nodes(scenario, None, None)


def test_a_connection_of_kafkas_protocol_is_handed_on_with_its_first_bytes() -> None:
    frame = bytes.fromhex("0000000a") + b"\x00\x12\x00\x00rest.."

    async def scenario(network: MemoryNetwork, nursery: trio.Nursery, one: Node, two: Node) -> None:
        received: list[bytes] = []
        ended = trio.Event()

        async def serve(stream: trio.abc.Stream) -> None:
            while data := await stream.receive_some(3):
                received.append(bytes(data))
            ended.set()

        one.peers.serve_client = serve
        stream = await network.of(9).connect("node-1", 9093)
        for byte in frame:
            await stream.send_all(bytes([byte]))
            await trio.testing.wait_all_tasks_blocked()
        await stream.aclose()
        await ended.wait()
        assert b"".join(received) == frame

    with_nodes(scenario, "a", "a")


def test_a_silent_connection_is_closed() -> None:
    async def scenario(network: MemoryNetwork, nursery: trio.Nursery, one: Node, two: Node) -> None:
        stream = await network.of(9).connect("node-1", 9093)
        await stream.send_all(b"\x00\x00")
        assert await stream.receive_some() == b""

    with_nodes(scenario, "a", "a")


def test_many_silent_connections_keep_no_node_out() -> None:
    """The oldest of them are closed."""

    async def scenario(network: MemoryNetwork, nursery: trio.Nursery, one: Node, two: Node) -> None:
        one.peers.security = PeerSecurity(strangers_max=3)
        streams = [await network.of(9).connect("node-1", 9093) for _ in range(50)]
        with trio.fail_after(2):
            for stream in streams[:-3]:
                assert await stream.receive_some() == b""
            assert (await two.peers.probe(("node-1", 9093))).node_id == 1
            assert await streams[-3].receive_some() == b""
        with trio.move_on_after(1) as waiting:
            await streams[-2].receive_some()
        assert waiting.cancelled_caught

    with_nodes(scenario, "a", "a")


@pytest.mark.parametrize("has_tls", [False, True])
def test_a_node_with_tls_waits_longer_behind_strangers(*, has_tls: bool) -> None:
    async def scenario(network: MemoryNetwork, nursery: trio.Nursery, one: Node, two: Node) -> None:
        one.peers.security = PeerSecurity(has_tls=has_tls)
        listeners = await network.of(2).listen("", 0)

        async def accept_late() -> None:
            await trio.sleep(9)
            await two.peers.run(listeners)

        nursery.start_soon(accept_late)
        if has_tls:
            assert await one.peers.request(2, "double", {"number": 1}) == {"number": 2}
        else:
            with pytest.raises(Unreachable, match="timed out"):
                await one.peers.request(2, "double", {"number": 1})

    with_nodes(scenario, "a", "a")


def test_nodes_that_connected_during_a_stall_are_all_served() -> None:
    """They are accepted at the same time; none is silent."""
    hello = encode_frame(hello_map(Hello(77, None, "a", {})))

    async def scenario(network: MemoryNetwork, nursery: trio.Nursery, one: Node, two: Node) -> None:
        one.peers.security = PeerSecurity(strangers_max=3)
        streams = [await network.of(9).connect("node-1", 9093) for _ in range(50)]
        for stream in streams:
            await stream.send_all(hello)
        for stream in streams:
            assert await stream.receive_some() != b""

    with_nodes(scenario, "a", "a")


def test_clients_leave_room_for_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "CLIENTS_MAX", 2)
    request = bytes.fromhex("00000008") + b"\x00\x12\x00\x00...."

    async def scenario(network: MemoryNetwork, nursery: trio.Nursery, one: Node, two: Node) -> None:
        async def serve(stream: trio.abc.Stream) -> None:
            await stream.receive_some()
            await stream.send_all(b"served")
            while await stream.receive_some():
                pass

        one.peers.serve_client = serve
        streams = [await network.of(9).connect("node-1", 9093) for _ in range(3)]
        answers: list[bytes] = []
        for stream in streams:
            await stream.send_all(request)
            answers.append(bytes(await stream.receive_some()))
        assert answers == [b"served", b"served", b""]
        await streams[0].aclose()
        await trio.testing.wait_all_tasks_blocked()
        stream = await network.of(9).connect("node-1", 9093)
        await stream.send_all(request)
        assert await stream.receive_some() == b"served"

    with_nodes(scenario, "a", "a")


@pytest.mark.parametrize(("servers", "ends"), [([2], True), ([2, 3], True), ([2, 3, 4], False)])
def test_a_node_that_half_of_the_bootstrap_servers_refuse_does_not_wait_for_ever(
    servers: list[int], *, ends: bool
) -> None:
    """As one with the id of another node does, or one of another cluster: nobody else can say what is right."""

    async def scenario(network: MemoryNetwork, nursery: trio.Nursery, one: Node, two: Node) -> None:
        await nursery.start(two.run)
        addresses = [(f"node-{node_id}", 9093) for node_id in servers]
        with trio.move_on_after(2) as patience:
            with pytest.raises(HandshakeRefused, match="belongs to cluster"):
                await one.peers.discover(addresses, wait_for_all=True)
        assert patience.cancelled_caught is not ends

    with_nodes(scenario, "a", "b")


def test_a_request_is_freed_while_the_connection_waits_for_the_next() -> None:
    async def scenario(network: MemoryNetwork, nursery: trio.Nursery, one: Node, two: Node) -> None:
        stream = await network.of(2).connect("node-1", 9093)
        await stream.send_all(encode_frame(hello_map(Hello(2, 1, "a", {}))))
        assert await stream.receive_some(1000)
        large = encode_frame({"kind": "ask", "id": 1, "what": "silence", "body": {"data": bytes(LARGE)}})
        tracemalloc.start()
        try:
            await stream.send_all(large)
            await trio.testing.wait_all_tasks_blocked()
            held, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak > LARGE > 10 * held

    with_nodes(scenario, "a", "a")
