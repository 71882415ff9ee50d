"""What a handler knows of the request besides its fields."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minikafka.broker.node.node import Node


@dataclass(slots=True)
class RequestContext:
    """One request's surroundings.

    Attributes:
        node: The node that serves it; everything else is reached from there.
        version: The API version of the request and of its answer.
        client_id: The client's own name for itself, "" if it gave none.
        client_host: Its address.
        listener: The name of the listener it came in by, as in `listeners`.
        local_host: The address of this node that the client reached, for advertising.
        local_port: Likewise the port.
    """

    node: "Node"
    version: int
    client_id: str
    client_host: str
    listener: str
    local_host: str = ""
    local_port: int = 0

    @property
    def now_ms(self) -> Callable[[], int]:
        """The node's wall clock, milliseconds since 1970."""
        return self.node.now_ms


class Disconnect(Exception):
    """There is no answer to this request but to hang up; the text goes to the log."""
