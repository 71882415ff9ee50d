"""`ControlClient`: asks the control server of a cluster for tests; `KafkaCluster` has one."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from typing import Any, Protocol
from urllib.parse import urlencode

__all__ = ["Control", "ControlClient", "TestingError"]

TIMEOUT_S = 120.0


class TestingError(Exception):
    """A cluster for tests cannot do what it was asked for. The text says why."""

    __test__ = False  # pytest collects classes whose names begin with Test


class Control(Protocol):
    """Asks a cluster for tests, here or in another process. All raise ValueError for arguments, TestingError else."""

    def get(self, path: str, **query: Any) -> Any: ...

    def post(self, path: str, **body: Any) -> Any:
        """Arguments that are None are left out."""

    def delete(self, path: str) -> Any: ...

    def close(self) -> None: ...


class ControlClient:
    """One connection to a control server. Several threads may use it; their requests take turns.

    Args:
        address: `HOST:PORT`.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)
        self._lock = threading.Lock()
        self._address = address

    def get(self, path: str, **query: Any) -> Any:
        """Ask. Raises ValueError for arguments, TestingError for all else."""
        given = {name: value for name, value in query.items() if value is not None}
        return self._ask("GET", f"{path}?{urlencode(given)}" if given else path, None)

    def post(self, path: str, **body: Any) -> Any:
        """Ask with a body; arguments that are None are left out. Raises as `get`."""
        return self._ask("POST", path, {name: value for name, value in body.items() if value is not None})

    def delete(self, path: str) -> Any:
        """Raises as `get`."""
        return self._ask("DELETE", path, None)

    def _ask(self, method: str, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body)
        with self._lock:
            try:
                if self._connection.sock is None:
                    self._connection.connect()
                    connected: socket.socket | None = self._connection.sock
                    assert connected is not None
                    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._connection.request(method, path, data)
                response = self._connection.getresponse()
                answer = json.loads(response.read())
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                raise TestingError(f"the control server at {self._address} does not answer: {error!r}") from error
        if response.status == http.client.BAD_REQUEST:
            raise ValueError(answer["error"])
        if response.status != http.client.OK:
            raise TestingError(answer["error"])
        return answer

    def close(self) -> None:
        self._connection.close()
