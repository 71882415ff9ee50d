"""`QuorumMembership`: finds the addresses of the quorum's voters, and keeps this node's own entry current (KIP-853).

In a dynamic quorum the set of voters in the log has the address of each voter. A node that misses addresses asks the
bootstrap servers and each controller that it knows: their handshakes contain addresses. If the address of this
controller changes, the node asks the leader to write the new address; if the settings say so, it asks the leader to add
this controller as a voter. Trio: tasks.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog
import trio

from minikafka.controller.quorum.handshake import Address, ConnectionLost, HandshakeRefused, Hello
from minikafka.controller.quorum.peers import Peers, Unreachable
from minikafka.controller.quorum.quorum_settings import QuorumSettings
from minikafka.controller.quorum.raft_driver import RaftDriver
from minikafka.controller.raft.voter_history import Membership
from minikafka.controller.raft.voter_set import (
    KRAFT_VERSION_MAX,
    NO_DIRECTORY,
    ReplicaKey,
    Voter,
    VoterEndpoint,
    VoterSet,
)
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages import add_raft_voter, update_raft_voter
from minikafka.protocol.messages.add_raft_voter import AddRaftVoterRequest
from minikafka.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from minikafka.protocol.messages.update_raft_voter import KRaftVersionFeature, UpdateRaftVoterRequest
from minikafka.storage.directories.directory_identity import WrongDirectory

__all__ = ["QuorumMembership", "SendToLeader"]

log = structlog.get_logger("minikafka.quorum")

SEARCH_PAUSE_S = 0.5
SEARCHED_MAX = 300
"""The most addresses that are asked before the next pause."""
SendToLeader = Callable[[Any, int], Awaitable[tuple[Any, int]]]
"""Sends a request, given its version, to the active controller; returns the response and an offset."""


class QuorumMembership:
    """The membership of this node in the quorum, and the addresses of the other nodes.

    Args:
        node_id: the id of this node.
        settings: the settings of the quorum.
        peers: the connections of this node, which get the addresses.
        named: the voters that the log names at the start.
        directory_id: returns the id of the metadata directory; `NO_DIRECTORY` as long as it has no id.
    """

    def __init__(
        self,
        node_id: int,
        settings: QuorumSettings,
        peers: Peers,
        named: Membership,
        directory_id: Callable[[], bytes],
    ) -> None:
        self.node_id = node_id
        self._settings = settings
        self._peers = peers
        self._find_directory_id = directory_id
        self._directory_id = NO_DIRECTORY
        self._incarnation = b""
        self._raft: RaftDriver | None = None
        self._starts_dynamic = bool(named.kraft_version)
        if named.voters is not None and named.kraft_version:
            peers.voters = self._addresses(named.voters)
        peers.introduce = self._introduce
        peers.on_hello = self._met

    @property
    def must_discover(self) -> bool:
        """Whether neither the settings nor the log name voters."""
        return not self._peers.voters and not self._starts_dynamic

    @property
    def static_voters(self) -> list[int]:
        """The ids of the voters that count as long as the log names no voters; empty for a node that joins a dynamic
        quorum."""
        if self._settings.voters or self._starts_dynamic:
            return list(self._settings.voters)
        return [] if self._peers.addresses.is_dynamic else list(self._peers.voters)

    @property
    def own(self) -> Voter:
        """This node as a voter."""
        if self._directory_id == NO_DIRECTORY:
            self._directory_id = self._find_directory_id()
        key = ReplicaKey(self.node_id, self._directory_id)
        return Voter(key, tuple(self._settings.advertised), 0, self.kraft_version_max)

    @property
    def kraft_version(self) -> int:
        """The kraft.version: 0 if the settings name the voters, 1 if the log does."""
        return int(self._starts_dynamic) if self._raft is None else self._raft.kraft_version

    @property
    def kraft_version_max(self) -> int:
        """The highest kraft.version that the quorum can have."""
        return 0 if self._settings.is_alone else KRAFT_VERSION_MAX

    @property
    def voter_set(self) -> VoterSet:
        """The current voters. Voters from the settings have no directory ids."""
        if self._raft is not None and self._raft.kraft_version:
            return self._raft.voter_set
        name = self._settings.advertised[0].name if self._settings.advertised else "CONTROLLER"
        found = sorted(self._peers.voters.items())
        return VoterSet(Voter(ReplicaKey(node), (VoterEndpoint(name, *where),)) for node, where in found)

    def controllers(self) -> dict[int, Address]:
        """The voters, and in a dynamic quorum the other controllers that have told this node their addresses."""
        return {**self._peers.addresses.firsthand, **self._peers.voters}

    def start(self, raft: RaftDriver) -> None:
        """Set the Raft driver of this node, once it exists."""
        self._raft = raft
        if self._peers.addresses.is_dynamic:
            self._meet_dynamic()

    def voters_changed(self, voters: VoterSet) -> None:
        """Take over the current voters: connect to them at their addresses."""
        found = self._addresses(voters) if self.kraft_version else dict(self._settings.voters)
        for node_id, address in found.items():
            if self._peers.voters.get(node_id) != address:
                self._peers.addresses.firsthand.pop(node_id, None)
        self._peers.voters = found

    def _addresses(self, voters: VoterSet) -> dict[int, Address]:
        """The address of each voter: at a listener whose name this node has too, otherwise at its first listener."""
        own = {endpoint.name for endpoint in self._settings.advertised}
        found: dict[int, Address] = {}
        for voter in voters:
            named = [one for one in voter.endpoints if one.name in own] or list(voter.endpoints)
            if named:
                found[voter.key.id] = (named[0].host, named[0].port)
        return found

    # -- handshakes ----------------------------------------------------------------------------------------------

    def _introduce(self, hello: Hello) -> Hello:
        own = self.own
        if self._raft is not None:
            self._raft.learn_own(own)
        address = (own.endpoints[0].host, own.endpoints[0].port) if own.endpoints else None
        return Hello(
            hello.node_id,
            hello.to,
            hello.cluster_id,
            hello.voters,
            directory_id=own.key.directory_id,
            kraft_version_max=self.kraft_version_max,
            is_dynamic=bool(self.kraft_version),
            address=address,
            is_probe=hello.is_probe,
            incarnation=self._incarnation,
        )

    def _met(self, hello: Hello) -> None:
        if hello.is_dynamic and self._is_believed(hello.node_id):
            self._peers.addresses.learn(hello)
            self._meet_dynamic()

    def _is_believed(self, node_id: int) -> bool:
        """Whether a node can tell this one that the quorum is dynamic, and addresses: any client can send a handshake,
        so that only a voter is believed as long as the voters are known and static."""
        peers = self._peers
        return bool(self.kraft_version) or peers.addresses.is_dynamic or node_id in (peers.voters or {node_id})

    def _meet_dynamic(self) -> None:
        if self._raft is not None:
            self._raft.quorum_is_dynamic([*self._peers.addresses.all(), *self._peers.voters])

    # -- the start of the node -----------------------------------------------------------------------------------

    async def discover(self, incarnation: bytes) -> None:
        """Find the voters at the bootstrap servers.

        Args:
            incarnation: random bytes, by which this node knows itself if one of the servers is its own address.

        Raises:
            WrongDirectory: the servers refuse this node, or its node id is that of a voter and it is no controller.
        """
        settings, self._incarnation = self._settings, incarnation
        try:
            found = await self._peers.discover(settings.bootstrap, wait_for_all=settings.is_controller)
        except HandshakeRefused as error:
            raise WrongDirectory(str(error)) from error
        log.info("quorum voters discovered", voters=sorted(found))
        if self.node_id in found and not settings.is_controller:
            raise WrongDirectory(
                f"the quorum at controller.quorum.bootstrap.servers has a voter with node.id={self.node_id}, and "
                "process.roles of this node is broker: each node needs a different node.id"
            )
        self._peers.voters = found

    # -- tasks ---------------------------------------------------------------------------------------------------

    async def find_addresses(self) -> None:
        """Look for nodes whose address is not known, or is wrong, until cancelled. Idle in a static quorum."""
        addresses = self._peers.addresses
        while True:
            await addresses.missing.wait()
            addresses.missing = trio.Event()
            if self.kraft_version or addresses.is_dynamic:
                await self._look_around()
            await trio.sleep(SEARCH_PAUSE_S)

    async def _look_around(self) -> None:
        """Ask the node at each known address, and at each address that a node tells. A node with an older log may tell
        an old address of a controller, but the address that a controller gives of itself is right."""
        known = [*self._settings.bootstrap, *self._peers.voters.values(), *self._peers.addresses.all().values()]
        looked_at: set[Address] = set()
        while known and len(looked_at) < SEARCHED_MAX:
            address = known.pop(0)
            if address not in looked_at:
                looked_at.add(address)
                known += await self._look_at(address)

    async def _look_at(self, address: Address) -> list[Address]:
        """The addresses of controllers that the node at `address` knows; empty if it cannot be reached."""
        try:
            hello = await self._peers.probe(address)
        except Unreachable as error:
            log.debug("controller cannot be reached", error=str(error))
            return []
        return list(hello.voters.values()) if hello.is_dynamic else []

    async def keep_current(self, send: SendToLeader) -> None:
        """Ask the leader to write this controller's new address, or to add this controller if it joins by itself
        (`controller.quorum.auto.join.enable`), until cancelled."""
        if not self._settings.is_controller:
            return
        while True:
            await trio.sleep(self._settings.raft.fetch_timeout)
            request = self.wish()
            if request is None:
                continue
            try:
                response, _ = await send(request, 1 if isinstance(request, AddRaftVoterRequest) else 0)
            except (KafkaError, Unreachable, ConnectionLost) as error:
                log.info("voter change failed", error=str(error) or repr(error))
                continue
            if response.error_code:
                reason = getattr(response, "error_message", None) or f"error {response.error_code}"
                log.info("voter change failed", error=reason)

    def wish(self) -> Any:
        """The request that makes this controller's entry in the set of voters current; None if nothing is to change."""
        raft, own = self._raft, self.own
        is_known = own.key.directory_id != NO_DIRECTORY and bool(own.endpoints)
        if raft is None or not raft.kraft_version or raft.is_leader or raft.leader_id < 0 or not is_known:
            return None
        listed = raft.voter_set.get(self.node_id)
        if listed is not None and listed.key == own.key:
            return None if listed == own else self._update(own, raft.epoch)
        if not self._settings.joins:
            return None
        if listed is not None:
            return RemoveRaftVoterRequest(
                cluster_id=None, voter_id=listed.key.id, voter_directory_id=listed.key.directory_id
            )
        listeners = [add_raft_voter.Listener(**endpoint._asdict()) for endpoint in own.endpoints]
        return AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=int(self._settings.raft.fetch_timeout * 1000),
            voter_id=own.key.id,
            voter_directory_id=own.key.directory_id,
            listeners=listeners,
            ack_when_committed=False,
        )

    def _update(self, own: Voter, epoch: int) -> UpdateRaftVoterRequest:
        return UpdateRaftVoterRequest(
            cluster_id=None,
            current_leader_epoch=epoch,
            voter_id=own.key.id,
            voter_directory_id=own.key.directory_id,
            listeners=[update_raft_voter.Listener(**endpoint._asdict()) for endpoint in own.endpoints],
            k_raft_version_feature=KRaftVersionFeature(
                min_supported_version=own.min_version, max_supported_version=own.max_version
            ),
        )

    # -- for the leader ------------------------------------------------------------------------------------------

    async def look_for(self, endpoints: Mapping[str, Address] | None, node_id: int) -> Hello:
        """The handshake of a controller, at one of `endpoints` (addresses by listener name), or at its known address if
        `endpoints` is None. Raises Unreachable."""
        if node_id == self.node_id:
            return self._introduce(Hello(node_id, None, None, {}))
        own = [endpoint.name for endpoint in self._settings.advertised]
        if endpoints is None:
            address = self._peers.addresses.firsthand.get(node_id) or self._peers.voters.get(node_id)
        else:
            address = next((endpoints[name] for name in (*own, *endpoints) if name in endpoints), None)
        if address is None:
            raise Unreachable(f"node {node_id} has no known address")
        hello = await self._peers.probe(address)
        if hello.node_id != node_id:
            raise Unreachable(f"node {hello.node_id} is at the address of node {node_id}")
        return hello
