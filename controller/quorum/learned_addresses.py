"""`LearnedAddresses`: addresses of nodes of a dynamic quorum that handshakes have told. Trio: an event."""

import trio

from minikafka.controller.quorum.handshake import Address, Hello

__all__ = ["LearnedAddresses"]

LEARNED_MAX = 100


class LearnedAddresses:
    """Addresses beside those of the voters in force, which this node may not know yet.

    Attributes:
        firsthand: what a controller said of itself; it goes before its address as a voter, which may be an earlier one.
        told: what other nodes said.
        last_failed: where a node was not found at the last attempt, unless it has said since that it is there.
        missing: set when an address was needed and not known, or has failed.
        is_dynamic: whether a node of a dynamic quorum has been met.
    """

    def __init__(self) -> None:
        self.firsthand: dict[int, Address] = {}
        self.told: dict[int, Address] = {}
        self.last_failed: dict[int, Address] = {}
        self.missing = trio.Event()
        self.is_dynamic = False

    def learn(self, hello: Hello) -> None:
        """Take over what a handshake tells. That of a static quorum tells nothing new."""
        if not hello.is_dynamic:
            return
        self.is_dynamic = True
        if hello.address is not None and self.last_failed.get(hello.node_id) == hello.address:
            del self.last_failed[hello.node_id]  # it is there now
        if hello.address is not None and (len(self.firsthand) < LEARNED_MAX or hello.node_id in self.firsthand):
            self.firsthand[hello.node_id] = hello.address
        for node_id, address in hello.voters.items():
            if len(self.told) < LEARNED_MAX or node_id in self.told:
                self.told[node_id] = address

    def of(self, node_id: int, as_voter: Address | None) -> Address | None:
        """Where to look for a node next; None if no address is known.

        What another node told goes before an address that has just failed: the voters in this node's log may be out of
        date, while it needs that very node to learn the newer ones. In Apache Kafka the response that names a leader
        has its endpoints (KIP-853).

        Args:
            as_voter: its address among the voters that this node knows.
        """
        known = [self.firsthand.get(node_id), as_voter, self.told.get(node_id)]
        found = [address for address in known if address is not None]
        return next((one for one in found if one != self.last_failed.get(node_id)), found[0] if found else None)

    def failed(self, node_id: int, address: Address) -> None:
        """Nothing, or another node, is at this address of a node."""
        self.last_failed[node_id] = address
        for learned in (self.firsthand, self.told):
            if learned.get(node_id) == address:
                del learned[node_id]
        self.missing.set()

    def all(self) -> dict[int, Address]:
        """By node id."""
        return self.told | self.firsthand
