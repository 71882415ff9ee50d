"""Where the nodes of a dynamic quorum are: what this node's log says, what others tell, and who is right."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
import trio.testing
from support.memory_network import MemoryNetwork

from minikafka.controller.quorum.handshake import Address, Hello
from minikafka.controller.quorum.membership import QuorumMembership
from minikafka.controller.quorum.peers import Peers, Unreachable
from minikafka.controller.quorum.quorum_settings import QuorumSettings
from minikafka.controller.raft.raft_settings import RaftSettings
from minikafka.controller.raft.voter_history import Membership
from minikafka.controller.raft.voter_set import NO_DIRECTORY, ReplicaKey, Voter, VoterEndpoint, VoterSet

EARLIER, NOW = ("node-9", 9093), ("node-1", 9093)
"""Of node 1. Nothing is at the first one."""
TWO, THREE = ("node-2", 9093), ("node-3", 9093)
RAFT = RaftSettings(election_timeout=1.0, fetch_timeout=2.0, retry_backoff=0.02, request_timeout=1.0, fetch_wait=0.5)


def peers_of(network: MemoryNetwork, node_id: int, where: Address) -> Peers:
    """A node that believes node 1 to be there."""
    return Peers(
        node_id,
        network=network.of(node_id),
        voters={1: where, 2: TWO, 3: THREE},
        cluster_id=lambda: "a",
        on_cluster_id=lambda cluster_id: None,
        on_request=lambda sender, kind, body, reply: reply(body),
        on_connection_lost=lambda node_id, is_dead: None,
    )


async def serve(network: MemoryNetwork, node_id: int, where: Address, task_status: trio.TaskStatus[None]) -> None:
    """A controller of a dynamic quorum."""
    peers = peers_of(network, node_id, where)

    def introduce(hello: Hello) -> Hello:
        return replace(hello, is_dynamic=True, address=(f"node-{node_id}", 9093))

    peers.introduce = introduce
    await peers.run(await network.of(node_id).listen("", 0), task_status=task_status)


def observer(peers: Peers) -> QuorumMembership:
    """Its log has the earlier address."""
    places = {1: EARLIER, 2: TWO, 3: THREE}
    voters = [Voter(ReplicaKey(one, bytes([one] * 16)), (VoterEndpoint("C", *at),)) for one, at in places.items()]
    settings = QuorumSettings({}, [TWO, THREE], (), is_controller=False, raft=RAFT)
    return QuorumMembership(5, settings, peers, Membership(1, VoterSet(voters)), lambda: NO_DIRECTORY)


def test_a_moved_controller_is_found_although_the_last_node_asked_tells_its_earlier_address() -> None:
    """What node 2 tells is looked at before node 3, whose log is as old as the observer's, tells otherwise."""

    async def main() -> None:
        network = MemoryNetwork()
        async with trio.open_nursery() as nursery:
            for node_id, where in ((1, NOW), (2, NOW), (3, EARLIER)):
                await nursery.start(serve, network, node_id, where)
            peers = peers_of(network, 5, EARLIER)
            await nursery.start(peers.run)
            nursery.start_soon(observer(peers).find_addresses)
            with pytest.raises(Unreachable):
                await peers.request(1, "echo", {})
            await trio.sleep(1)
            assert await peers.request(1, "echo", {"number": 1}) == {"number": 1}
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize(
    ("node_id", "is_dynamic", "voters", "believed"),
    [
        (2, True, {1: EARLIER, 2: TWO}, True),
        (2, False, {1: EARLIER, 2: TWO}, False),
        (9, True, {1: EARLIER, 2: TWO}, False),
        (9, True, {1: EARLIER}, False),
        (9, True, {}, True),
    ],
    ids=["a voter", "a voter that says nothing", "a stranger", "a stranger to a lone node", "no voters are known"],
)
def test_only_a_voter_tells_a_static_quorum_that_it_is_dynamic(
    node_id: int, *, is_dynamic: bool, voters: dict[int, Address], believed: bool
) -> None:
    """Any client can send a handshake: its flag would make Raft believe any leader, its addresses be tried."""
    peers = peers_of(MemoryNetwork(), 1, EARLIER)
    peers.voters = voters
    settings = QuorumSettings(voters, [], (), is_controller=True, raft=RAFT)
    QuorumMembership(1, settings, peers, Membership(0, None), lambda: NO_DIRECTORY)
    peers.on_hello(Hello(node_id, 1, None, {2: EARLIER}, is_dynamic=is_dynamic, address=THREE))
    assert peers.addresses.is_dynamic == believed
    assert bool(peers.addresses.all()) == believed
