"""`LocalControl`: a cluster for tests in this process, with the methods of `ControlClient`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from minikafka.broker.settings.node_config import ConfigError
from minikafka.testing.control.http_client import TestingError
from minikafka.testing.control.routing import answer
from minikafka.testing.control.verbs import Verbs
from minikafka.testing.host.node_thread import NodeFailed
from minikafka.testing.host.nodes import Nodes

__all__ = ["LocalControl"]


class LocalControl:
    """Starts the nodes in threads of this process.

    Their log goes where the program has structlog write to. If it has configured none, the lines of `log_level` and
    above are printed, until `close`.

    Raises ValueError, TestingError: The cluster has not started.
    """

    def __init__(self, brokers: int, settings: Mapping[str, str], log_level: str) -> None:
        self._configured = not structlog.is_configured()
        if self._configured:
            structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(log_level))
        self._nodes = Nodes(brokers, settings)
        self._verbs = Verbs(self._nodes)
        try:
            self._nodes.start()
        except (NodeFailed, OSError, ConfigError) as error:
            self.close()
            raise TestingError(f"the cluster has not started:\n{error}") from error

    @property
    def bootstrap_servers(self) -> str:
        return self._nodes.bootstrap_servers

    def get(self, path: str, **query: Any) -> Any:
        """Ask. Raises ValueError for arguments, TestingError for all else."""
        return self._ask("GET", path, query)

    def post(self, path: str, **body: Any) -> Any:
        """Ask with a body. Raises as `get`."""
        return self._ask("POST", path, body)

    def delete(self, path: str) -> Any:
        """Raises as `get`."""
        return self._ask("DELETE", path, {})

    def _ask(self, method: str, path: str, given: Mapping[str, Any]) -> Any:
        try:
            return answer(self._verbs, method, path, {name: one for name, one in given.items() if one is not None})
        except ConfigError as error:
            raise ValueError(str(error)) from error
        except LookupError as error:
            raise TestingError(str(error.args[0])) from error
        except (NodeFailed, OSError) as error:
            raise TestingError(str(error)) from error

    def close(self) -> None:
        """End all nodes."""
        self._nodes.close()
        if self._configured:
            structlog.reset_defaults()
