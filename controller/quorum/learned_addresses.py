"""`LearnedAddresses`: addresses of the nodes of a dynamic quorum, learned from handshakes. Trio: an event."""

import trio

from minikafka.controller.quorum.handshake import Address, Hello

__all__ = ["LearnedAddresses"]

LEARNED_MAX = 100


class LearnedAddresses:
    """Addresses of nodes from handshakes. The addresses in the set of voters are not enough: this node may not know the
    current voters yet.

    Attributes:
        firsthand: the address that each controller gave of itself. It is tried before the controller's address in the
            set of voters, which may be out of date.
        told: the address that other nodes gave of each node.
        last_failed: the address at which a node was not found at the last attempt, unless the node has since given this
            address itself.
        missing: set when an address was needed and not known, or has failed.
        is_dynamic: whether this node has had a handshake with a node of a dynamic quorum.
    """

    def __init__(self) -> None:
        self.firsthand: dict[int, Address] = {}
        self.told: dict[int, Address] = {}
        self.last_failed: dict[int, Address] = {}
        self.missing = trio.Event()
        self.is_dynamic = False

    def learn(self, hello: Hello) -> None:
        """Take over the addresses in a handshake of a node of a dynamic quorum."""
        self.is_dynamic = True
        if hello.address is not None and self.last_failed.get(hello.node_id) == hello.address:
            del self.last_failed[hello.node_id]  # it is there now
        if hello.address is not None and (len(self.firsthand) < LEARNED_MAX or hello.node_id in self.firsthand):
            self.firsthand[hello.node_id] = hello.address
        for node_id, address in hello.voters.items():
            if len(self.told) < LEARNED_MAX or node_id in self.told:
                self.told[node_id] = address

    def of(self, node_id: int, as_voter: Address | None) -> Address | None:
        """The address at which to look for a node next; None if no address is known.

        An address told by another node is tried before an address that has just failed: the set of voters in this
        node's log may be out of date, and this node may need the other node to learn the newer set. In Apache Kafka the
        response that names a leader has its endpoints (KIP-853).

        Args:
            node_id: the node to look for.
            as_voter: the address of the node in the set of voters that this node knows; None if it has none.
        """
        known = [self.firsthand.get(node_id), as_voter, self.told.get(node_id)]
        found = [address for address in known if address is not None]
        return next((one for one in found if one != self.last_failed.get(node_id)), found[0] if found else None)

    def failed(self, node_id: int, address: Address) -> None:
        """Note that a node was not found at an address: no node, or another node, is there."""
        self.last_failed[node_id] = address
        for learned in (self.firsthand, self.told):
            if learned.get(node_id) == address:
                del learned[node_id]
        self.missing.set()

    def all(self) -> dict[int, Address]:
        """All learned addresses by node id."""
        return self.told | self.firsthand
