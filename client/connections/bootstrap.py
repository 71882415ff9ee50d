"""`Bootstrap`: the addresses at which a client finds its cluster, at first and again later (KIP-899, KIP-1102).

With `metadata_recovery_strategy="rebootstrap"` the bootstrap addresses are tried whenever no broker of the metadata can
be reached. A client whose brokers accept connections but give no metadata for
`metadata_recovery_rebootstrap_trigger_ms`, or answer REBOOTSTRAP_REQUIRED, drops all connections and cached brokers:
the brokers may belong to another cluster. With "none" the bootstrap addresses are used only until the first metadata
arrive.

Source: Kafka's `NetworkClient.DefaultMetadataUpdater`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from itertools import count

import anyio

from minikafka.client.connections.cluster_metadata import Broker
from minikafka.client.connections.connection import Connection
from minikafka.client.connections.endpoints import bootstrap_addresses
from minikafka.client.connections.exception_groups import task_group
from minikafka.client.options import ClientOptions
from minikafka.protocol.errors import AuthenticationError, KafkaError, NetworkError

_CONNECT_STAGGER_S = 0.05
"""How long one address is tried before the next one is tried in parallel: the delay that a dead first address causes.

The value is a few round trips in a data centre. If brokers are farther away, two are tried, and one connection is kept.
"""

Address = tuple[str, int]


class Bootstrap:
    """The bootstrap addresses of a client, and the time since which it has tried to get metadata.

    Attributes:
        begins_again: whether the client may bootstrap again (`metadata_recovery_strategy="rebootstrap"`).
        rounds: how often the client has bootstrapped again. Connection attempts of an earlier round are discarded.
    """

    def __init__(self, options: ClientOptions) -> None:
        self.begins_again = options.metadata_recovery_strategy == "rebootstrap"
        self._trigger_s = options.metadata_recovery_rebootstrap_trigger_ms / 1000
        self._addresses = bootstrap_addresses(options)
        self._tried_since: float | None = None
        self.rounds = 0

    def addresses(self, brokers: Iterable[Broker], silent: Container[str]) -> list[Address]:
        """The addresses to try, in order: those of `brokers`, then the bootstrap addresses; silent ones come last."""
        known = [(one.host, one.port) for one in brokers]
        if not known or self.begins_again:
            known += self._addresses
        return sorted(dict.fromkeys(known), key=lambda one: f"{one[0]}:{one[1]}" in silent)

    def attempt(self, now: float) -> bool:
        """Note an attempt to get metadata at `now`, in seconds; return whether it is time to bootstrap again."""
        if self._tried_since is None:
            self._tried_since = now
        if not self.begins_again or now - self._tried_since <= self._trigger_s:
            return False
        self._tried_since = now
        return True

    def succeeded(self) -> None:
        """There are new metadata."""
        self._tried_since = None


async def connect_to_first(
    addresses: Sequence[Address],
    connect: Callable[[str, int], Awaitable[Connection]],
    pause_s: Callable[[int], float],
) -> Connection:
    """Connect to the first address that accepts; attempts start `_CONNECT_STAGGER_S` apart, in order.

    While an address neither accepts nor refuses, such as that of a frozen broker, the addresses that refused are tried
    again, because a broker that is being restarted may come back meanwhile.

    Args:
        connect: opens a connection to a host and port; raises KafkaError.
        pause_s: returns the pause in seconds after the given number of failed attempts at an address.

    Raises NetworkError that names all addresses once an attempt at each has failed, and the first AuthenticationError.
    Cancellation closes connections.
    """
    found: list[Connection] = []
    failures: dict[Address, KafkaError] = {}

    async def attempts(address: Address, failed: anyio.Event) -> None:
        for number in count():
            try:
                found.append(await connect(*address))
            except KafkaError as error:
                failures[address] = error
            is_refused = isinstance(failures.get(address), AuthenticationError)
            if found or is_refused or len(failures) == len(addresses):
                tasks.cancel_scope.cancel()
                return
            failed.set()
            await anyio.sleep(pause_s(number))

    try:
        async with task_group() as tasks:
            for address in addresses:
                failed = anyio.Event()
                tasks.start_soon(attempts, address, failed)
                with anyio.move_on_after(_CONNECT_STAGGER_S):
                    await failed.wait()
    except BaseException:
        for connection in found:
            connection.close()
        raise
    for late in found[1:]:
        late.close()
    if found:
        return found[0]
    raise _failure(list(failures.values()))


def _failure(failures: Sequence[KafkaError]) -> KafkaError:
    """The error if no address can be reached: the first that is no NetworkError, or one that names all addresses."""
    for error in failures:
        if not isinstance(error, NetworkError):
            return error
    reasons = "; ".join(error.message for error in failures)
    return NetworkError(f"{reasons}; check the address, and that a broker is running there")
