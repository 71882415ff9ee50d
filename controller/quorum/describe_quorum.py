"""`QuorumDescriber`: describes the leader's view of the quorum, on any node. Trio: asks the leader."""

from collections.abc import Callable

import trio

from minikafka.controller.quorum.handshake import ConnectionLost
from minikafka.controller.quorum.peer_frames import MalformedFrame
from minikafka.controller.quorum.peers import Peers, Unreachable
from minikafka.controller.quorum.quorum_description import QuorumDescription, described
from minikafka.controller.quorum.raft_driver import RaftDriver
from minikafka.protocol.errors import RequestTimedOutError
from minikafka.storage.waits import in_task

__all__ = ["QuorumDescriber", "description"]

RETRY_S = 0.05


class QuorumDescriber:
    """Describes the quorum.

    Args:
        raft: the driver of this node.
        peers: the connections of this node.
        now_ms: returns the time of the wall clock in milliseconds.
        timeout_s: how long to wait for the leader's answer.
    """

    def __init__(self, raft: RaftDriver, peers: Peers, now_ms: Callable[[], int], timeout_s: float) -> None:
        self._raft = raft
        self._peers = peers
        self._now_ms = now_ms
        self._timeout_s = timeout_s

    def as_leader(self) -> QuorumDescription:
        """The view of this node, which must be the leader."""
        raft, now, now_ms = self._raft, trio.current_time(), self._now_ms()
        replicas = tuple(described(one, now=now, now_ms=now_ms) for one in raft.replicas())
        return QuorumDescription(
            raft.leader_id, raft.epoch, raft.high_watermark, replicas, raft.voter_set, raft.kraft_version
        )

    async def attempt(self) -> QuorumDescription | None:
        """The leader's view; None if the leader cannot be reached or does not answer in time."""
        if self._raft.is_leader:
            return self.as_leader()
        try:
            with trio.move_on_after(self._timeout_s):
                return QuorumDescription.from_map(await self._peers.request(self._raft.leader_id, "describe", {}))
        except (Unreachable, ConnectionLost, MalformedFrame):
            pass
        return None


async def description(describer: Callable[[], QuorumDescriber | None], timeout_s: float) -> QuorumDescription:
    """The leader's view, as soon as there is a leader that answers.

    Args:
        describer: returns the describer of this node; None before it is started.
        timeout_s: how long to try, in seconds.

    Raises:
        RequestTimedOutError: no leader responded in time.
    """
    await in_task()
    with trio.move_on_after(timeout_s):
        while True:
            current = describer()
            if current is not None and (found := await current.attempt()) is not None:
                return found
            await trio.sleep(RETRY_S)
    raise RequestTimedOutError("no leader of the quorum responded in time")
