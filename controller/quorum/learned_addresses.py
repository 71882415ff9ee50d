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
        missing: set when an address was needed and not known, or has failed.
        is_dynamic: whether a node of a dynamic quorum has been met.
    """

    def __init__(self) -> None:
        self.firsthand: dict[int, Address] = {}
        self.told: dict[int, Address] = {}
        self.missing = trio.Event()
        self.is_dynamic = False

    def learn(self, hello: Hello) -> None:
        """Take over what a handshake tells. That of a static quorum tells nothing new."""
        if not hello.is_dynamic:
            return
        self.is_dynamic = True
        if hello.address is not None and (len(self.firsthand) < LEARNED_MAX or hello.node_id in self.firsthand):
            self.firsthand[hello.node_id] = hello.address
        for node_id, address in hello.voters.items():
            if len(self.told) < LEARNED_MAX or node_id in self.told:
                self.told[node_id] = address

    def failed(self, node_id: int) -> None:
        """Nothing, or another node, is at the address of a node."""
        self.firsthand.pop(node_id, None)
        self.told.pop(node_id, None)
        self.missing.set()

    def all(self) -> dict[int, Address]:
        """By node id."""
        return self.told | self.firsthand
