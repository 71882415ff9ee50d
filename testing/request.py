"""`Request`: a request that a client has sent to a cluster for tests."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Request"]


class Request(NamedTuple):
    """One request.

    Attributes:
        number: Counts the requests of all clients since the last reset, from 1.
        time_ms: When it was received, on the clock of the nodes, in milliseconds since 1970.
        node: The id of the node that received it.
        api, version: Kafka's name of the API, and the version of the request.
        client_id: The client id in its header; "" for null.
        client: The client's address and port.
        request: Its fields by name. In place of records there is a dict for each batch, with its number of records and
            its producer; bytes are text, or hexadecimal. Texts of more than 1,024 letters and arrays of more than 200
            elements are cut.
    """

    number: int
    time_ms: int
    node: int
    api: str
    version: int
    client_id: str
    client: str
    request: dict[str, Any]
