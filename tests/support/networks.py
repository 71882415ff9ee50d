"""`Network`: an address for each node, and links that can be cut one by one, with the network namespaces of Linux.

    with Network([1, 2, 3]) as network:
        subprocess.Popen([*network.inside(1), "a-server", "--listen", network.address(1)])
        connect(network.address(1))         # from this process, which is outside
        network.cut(1, 2)                   # no packet passes between nodes 1 and 2
        network.cut(1, CLIENTS)             # nor between node 1 and the processes outside
        network.mend()

Each node has a namespace with one interface. All interfaces, and one for the processes outside, are plugged into a
bridge, which has a namespace of its own: firewall rules of the machine do not apply there. A link is cut by a permanent
neighbour entry with a hardware address that nobody has: packets vanish, nothing is refused, as with a broken switch.
Only iproute2 and root are needed. Nothing is left behind when the block is left.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Self

CLIENTS = 254
"""The host number of the processes outside."""
NOBODY = "02:00:00:00:00:00"
SUBNETS = range(1, 255)


@cache
def why_no_network() -> str | None:
    """Why there can be no namespaces; None if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the command ip (iproute2)"
    name = f"mk-{uuid.uuid4().hex[:8]}"
    try:
        _ip("netns", "add", name)
        _ip("-n", name, "link", "add", "bridge", "type", "bridge")
        _ip("-n", name, "link", "add", "one", "type", "veth", "peer", "name", "two")
        _ip("netns", "exec", name, "true")
    except OSError as error:
        return f"no network namespaces here: {error}"
    finally:
        with suppress(OSError):
            _ip("netns", "del", name)
    return None


class Network:
    """A network of nodes, by numbers from 1 to 253. Raises OSError if it cannot be made.

    Attributes:
        interface: The name of the interface of the processes outside.
    """

    def __init__(self, nodes: Sequence[int]) -> None:
        self.nodes = list(nodes)
        self._cut: set[tuple[int, int]] = set()
        self.interface, self._subnet = _outer_interface()
        self._switch = f"{self.interface}-switch"
        try:
            self._make()
        except OSError:
            self.close()
            raise

    def address(self, node: int) -> str:
        """The IPv4 address of a node, or of CLIENTS."""
        return f"10.213.{self._subnet}.{node}"

    def inside(self, node: int) -> list[str]:
        """The words before a command that is to run in the namespace of a node; the process id stays the same."""
        return ["ip", "netns", "exec", self._namespace(node)]

    def cut(self, one: int, other: int) -> None:
        """Drop all packets between two nodes, or a node and CLIENTS."""
        for sender, receiver in ((one, other), (other, one)):
            place = self._place(sender)
            _ip(*place[0], "neigh", "replace", self.address(receiver), "lladdr", NOBODY, "dev", place[1], *PERMANENT)
            self._cut.add((sender, receiver))

    def mend(self, *links: tuple[int, int]) -> None:
        """Undo `cut` for these links, or for all."""
        chosen = {*links, *((other, one) for one, other in links)} & self._cut if links else set(self._cut)
        for sender, receiver in chosen:
            place = self._place(sender)
            _ip(*place[0], "neigh", "del", self.address(receiver), "dev", place[1])
            self._cut.discard((sender, receiver))

    def close(self) -> None:
        """Remove all namespaces and interfaces. Processes inside keep theirs until they end."""
        for name in (*map(self._namespace, self.nodes), self._switch):
            with suppress(OSError):
                _ip("netns", "del", name)
        with suppress(OSError):
            _ip("link", "del", self.interface)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _namespace(self, node: int) -> str:
        return f"{self.interface}-{node}"

    def _place(self, node: int) -> tuple[list[str], str]:
        """The options of ip, and the interface."""
        return ([], self.interface) if node == CLIENTS else (["-n", self._namespace(node)], "eth0")

    def _make(self) -> None:
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "bridge", "up")
        for node in self.nodes:
            _ip("netns", "add", self._namespace(node))
            plug, namespace = f"plug{node}", self._namespace(node)
            _ip("-n", self._switch, "link", "add", plug, "type", "veth", "peer", "name", "eth0", "netns", namespace)
            self._plug_in(plug, node)
            _ip("-n", namespace, "link", "set", "lo", "up")
        _ip("link", "set", f"{self.interface}p", "netns", self._switch)
        self._plug_in(f"{self.interface}p", CLIENTS)

    def _plug_in(self, plug: str, node: int) -> None:
        _ip("-n", self._switch, "link", "set", plug, "master", "bridge")
        _ip("-n", self._switch, "link", "set", plug, "up")
        options, interface = self._place(node)
        _ip(*options, "address", "add", f"{self.address(node)}/24", "dev", interface)
        _ip(*options, "link", "set", interface, "up")


PERMANENT = ("nud", "permanent")


def _outer_interface() -> tuple[str, int]:
    """Makes the interface of the processes outside, for a subnet that no other network has."""
    for subnet in SUBNETS:
        name = f"mk{subnet}"
        with suppress(OSError):
            _ip("link", "add", name, "type", "veth", "peer", "name", f"{name}p")
            return name, subnet
    raise OSError("no subnet is left")


def _ip(*words: str) -> None:
    """Raises OSError with what the command says."""
    ran = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise OSError(f"ip {' '.join(words)}: {ran.stderr.strip()}")
