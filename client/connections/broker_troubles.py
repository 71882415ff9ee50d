"""`BrokerTroubles`: the brokers that a client cannot reach or that do not answer, for log lines and error messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import anyio

from minikafka.client.connections.waits import essential
from minikafka.client.security.token_source import LATE, TokenSource
from minikafka.protocol.errors import KafkaError, NetworkError
from minikafka.protocol.shortened import shortened

_SILENT_S = 1
"""An address that has not answered for this long counts as silent; other addresses are tried meanwhile."""
_NAMED_MAX = 3
"""The maximum number of unreachable brokers, and of silent ones, that one message names."""


class BrokerTroubles:
    """The last connection error of each address ("host:port"), kept until a connection to the address is open.

    Args:
        tokens: the tokens that logins wait for, or None.
    """

    def __init__(self, tokens: TokenSource | None) -> None:
        self._tokens = tokens
        self._connecting: Counter[str] = Counter()
        self._errors: dict[str, KafkaError] = {}

    @contextmanager
    def connecting(self, address: str) -> Iterator[None]:
        """Record the outcome of the block, which connects to the address, raises KafkaError, or is cancelled."""
        began = anyio.current_time()
        if self._tokens is not None:
            self._tokens.is_awaited = False
        self._connecting[address] += 1
        try:
            yield
        except KafkaError as error:
            self._errors[address] = error
            raise
        except BaseException:
            if anyio.current_time() - began >= _SILENT_S:
                self._errors.setdefault(address, NetworkError(self._silence(address)))
            raise
        else:
            self._errors.pop(address, None)
        finally:
            self._connecting -= Counter((address,))

    def keep(self, addresses: Iterable[str]) -> None:
        """Forget the errors of all addresses but these: other addresses are not needed to reach the cluster."""
        kept = set(addresses)
        self._errors = {address: error for address, error in self._errors.items() if address in kept}

    def explain(self, last: KafkaError | str | None, silent: Iterable[str]) -> str:
        """One line that names the last error, the addresses that cannot be reached, and the silent addresses.

        Returns "" if there are none.

        Args:
            last: the last error of the operation that waits, or None.
            silent: the addresses with an open connection whose broker does not answer.
        """
        waiting = [one for one in dict.fromkeys((*silent, *self._connecting)) if one not in self._errors]
        reasons = [] if last is None else [str(last)]
        reasons += [str(error) for error in list(self._errors.values())[:_NAMED_MAX]]
        reasons += [self._silence(shortened(address)) for address in waiting[:_NAMED_MAX]]
        return "; ".join(essential(reasons))

    def _silence(self, address: str) -> str:
        """Why nothing comes from an address."""
        late = self._tokens is not None and self._tokens.is_awaited
        return LATE if late else f"{address} does not answer"
