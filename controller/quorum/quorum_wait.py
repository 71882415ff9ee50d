"""Logs that a node waits for a leader of its quorum, after two seconds and then every ten seconds."""

from collections.abc import Callable, Sequence

import structlog
import trio

from minikafka.controller.quorum.handshake import Address
from minikafka.controller.quorum.peers import Peers

__all__ = ["tell_of_waiting"]

log = structlog.get_logger("minikafka.quorum")

TELL_AFTER_S = 2.0
TELL_AGAIN_AFTER = 5
"""The time between two lines, in multiples of `TELL_AFTER_S`."""
NONE_KNOWN = "none known"


async def tell_of_waiting(node_id: int, peers: Peers, bootstrap: Sequence[Address], leader: Callable[[], int]) -> None:
    """Log what the quorum waits for, as long as `leader` returns -1; run until cancelled."""
    waiting, since = 1, trio.current_time()
    while True:
        await trio.sleep(TELL_AFTER_S)
        if leader() >= 0:
            waiting = 0
            continue
        since = trio.current_time() - TELL_AFTER_S if not waiting else since
        waiting += 1
        if waiting % TELL_AGAIN_AFTER == 2:
            log.warning(
                "waiting for the controller quorum",
                node=node_id,
                voters=len(peers.voters) or None,
                unreachable=_unreachable(node_id, peers, bootstrap) or NONE_KNOWN,
                seconds=round(trio.current_time() - since),
            )


def _unreachable(node_id: int, peers: Peers, bootstrap: Sequence[Address]) -> list[str]:
    """The controllers that this node cannot reach, each with the reason of the last failed attempt."""
    named = {address: f"node {voter} at " for voter, address in peers.voters.items() if voter != node_id}
    known = {address: named.get(address, "") for address in (*named, *bootstrap)}
    return [
        f"{name}{address[0]}:{address[1]}: {peers.troubles[address]}"
        for address, name in known.items()
        if address in peers.troubles
    ]
