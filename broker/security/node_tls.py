"""`NodeTls`: the TLS of all listeners of a node; hands each its new certificates while the node runs.

A changed file alone changes nothing, as in Kafka: setting its location again by IncrementalAlterConfigs reads it.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import structlog

from minikafka.broker.connections.listening import Listening
from minikafka.broker.connections.tls_transport import Handshakes, TlsListening
from minikafka.broker.settings.listeners import Listener, listener_prefix
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.client.security.tls_settings import InvalidTlsSetting
from minikafka.controller.metadata.records import ConfigRecord, Record
from minikafka.controller.settings.effective_settings import ResourceType
from minikafka.protocol.settings.registry import STORE_SETTINGS, listener_base_name
from minikafka.storage.disks.disk import Disk

if TYPE_CHECKING:
    from minikafka.broker.security.tls_listener import TlsListener

__all__ = ["NodeTls", "has_tls", "tls_of", "with_tls"]

T = TypeVar("T")
log = structlog.get_logger("minikafka.server")


def with_tls(listeners: tuple[Listener, ...]) -> tuple[Listener, ...]:
    """Those of the listeners that have TLS."""
    return tuple(filter(has_tls, listeners))


def has_tls(listener: Listener) -> bool:
    """Whether the protocol of a listener has TLS."""
    return listener.protocol in ("SSL", "SASL_SSL", "HTTPS")


def tls_of(config: NodeConfig) -> NodeTls:
    """The TLS of a node, without certificates yet."""
    delay_ms = config.number("connection.failed.authentication.delay.ms")
    of_brokers = config.listeners.inter_broker if config.is_broker else ""
    return NodeTls(config.node_id, delay_ms, of_brokers, config.static.given)


class NodeTls:
    """The TLS of a node: of its listeners, and of its connections to the listeners of other nodes.

    Args:
        node_id: The id of the node.
        failure_delay_ms: `connection.failed.authentication.delay.ms`.
        of_brokers: The name of the listener by which brokers reach each other.
        given: The settings that the node was started with.
    """

    def __init__(self, node_id: int, failure_delay_ms: int, of_brokers: str, given: Mapping[str, str]) -> None:
        self._node_id = node_id
        self._failure_delay_ms = failure_delay_ms
        self._of_brokers = of_brokers
        self._given = self._texts = given
        self._read_with: dict[str, dict[str, str | None]] = {}
        self._listeners: dict[str, TlsListener] = {}
        self._connections: dict[str, tuple[Listener, Callable[[ssl.SSLContext], None]]] = {}

    def begin_with(self, texts: Mapping[str, str]) -> None:
        """Read certificates with these settings from now on: those that this node had before it was restarted.

        Where they do not work any more, those that the node was started with hold, as in Kafka.
        """
        self._texts = texts

    def load(self, listeners: tuple[Listener, ...]) -> None:
        """Read the certificates of listeners that have TLS. Files are read and keys decrypted: run it in a thread.

        Raises:
            InvalidTlsSetting: A setting of a listener does not work.
        """
        from minikafka.broker.security.tls_listener import TlsListener

        for listener in listeners:
            read = partial(TlsListener, listener, is_of_brokers=listener.name == self._of_brokers)
            self._listeners[listener.name] = self._first(listener, read)

    def _first(self, listener: Listener, read: Callable[[Mapping[str, str]], T]) -> T:
        """What `read` returns for the settings that the node had before it was restarted, or else was started with."""
        from minikafka.broker.security.tls_listener import settings_of_listener

        wanted = self._read_with[listener.name] = settings_of_listener(listener, self._texts)
        try:
            return read(self._texts)
        except InvalidTlsSetting as error:
            if wanted == settings_of_listener(listener, self._given):
                raise
            log.error("changed stores not used", listener=listener.name, reason=str(error))
            return read(self._given)

    def context_of(self, name: str) -> ssl.SSLContext:
        """The context of a listener that was loaded, with its present certificates."""
        return self._listeners[name].context

    def connect_to(self, listener: Listener, use: Callable[[ssl.SSLContext], None]) -> None:
        """Call `use` with the context of connections to a listener of other nodes, now and when its stores are renewed.

        Raises:
            InvalidTlsSetting: A setting does not work.
        """
        use(self._first(listener, partial(self._client_context, listener)))
        self._connections[listener.name] = listener, use

    def named_by(self, records: Iterable[Record]) -> list[str]:
        """The listeners whose stores are set or removed by `records`, which are committed metadata."""
        names = [record.name for record in records if isinstance(record, ConfigRecord) and self._is_own(record)]
        return [
            listener
            for listener in self._names()
            if any(name.startswith(("ssl.", listener_prefix(listener))) for name in names)
        ]

    def _is_own(self, record: ConfigRecord) -> bool:
        base = listener_base_name(record.name) or record.name
        is_of_node = record.resource_type == ResourceType.BROKER and record.resource_name in ("", str(self._node_id))
        return is_of_node and base in STORE_SETTINGS

    def _names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._listeners, *self._connections)))

    async def catch_up(self, disk: Disk, texts_of_now: Callable[[], Mapping[str, str]]) -> None:
        """Read the certificates again whose settings are others than at the start, until there are none.

        Nothing runs between the last look at `texts_of_now` and the return, so that no change is missed.
        """
        texts: Mapping[str, str] = {}
        while (now := texts_of_now()) != texts:
            texts = now
            await disk.run(self._catch_up, texts)

    def _catch_up(self, texts: Mapping[str, str]) -> None:
        wanted = {name: self._settings(name, texts) for name in self._names()}
        outdated = [name for name in wanted if wanted[name] != self._read_with[name]]
        self._read_with |= wanted
        self.renew(outdated, texts, is_start=True)

    def renew(self, names: Iterable[str], texts: Mapping[str, str], *, is_start: bool = False) -> None:
        """Read the certificates of these listeners again, and log how that went. Files are read: run it in a thread.

        Args:
            names: The names of the listeners.
            texts: All settings of the node that are given.
            is_start: Whether the node starts: then a new certificate may be of any name.
        """
        for name in names:
            try:
                listener, context = self._read(name, texts, is_start=is_start)
            except InvalidTlsSetting as error:
                log.error("certificates not renewed", listener=name, reason=str(error))
                continue
            if listener is not None:
                self._listeners[name].take(listener)
            if context is not None:
                self._connections[name][1](context)
            log.info("certificates renewed", listener=name)

    def why_refused(self, before: Mapping[str, str], after: Mapping[str, str]) -> str:
        """Why the settings may not change so: a store that they name does not work; "" if they may.

        Only listeners for which they name other stores are looked at, as in Kafka. Files are read: run it in a thread.

        Args:
            before: All settings of the node that are given, as they are now.
            after: As they would be.
        """
        for name in self._names():
            try:
                if self._stores(name, before) != self._stores(name, after):
                    self._read(name, after)
            except InvalidTlsSetting as error:
                return f"the stores of the listener {name} cannot be used: {error}"
        return ""

    def _stores(self, name: str, texts: Mapping[str, str]) -> list[str | None]:
        settings = self._settings(name, texts)
        return [settings[store] for store in sorted(STORE_SETTINGS)]

    def _settings(self, name: str, texts: Mapping[str, str]) -> dict[str, str | None]:
        from minikafka.broker.security.tls_listener import settings_of_listener

        listener = self._connections[name][0] if name in self._connections else self._listeners[name].listener
        return settings_of_listener(listener, texts)

    def _read(
        self, name: str, texts: Mapping[str, str], *, is_start: bool = False
    ) -> tuple[TlsListener | None, ssl.SSLContext | None]:
        own = self._listeners.get(name)
        listener = None if own is None else own.renewed(texts, is_start=is_start)
        connection = self._connections.get(name)
        return listener, None if connection is None else self._client_context(connection[0], texts)

    def _client_context(self, listener: Listener, texts: Mapping[str, str]) -> ssl.SSLContext:
        from minikafka.broker.security.tls_listener import client_context_of

        return client_context_of(listener, texts)

    def secured(self, name: str, listening: Listening) -> Listening:
        """The bound listener with TLS, if it has any; `load` has been called."""
        tls = self._listeners.get(name)
        return listening if tls is None else TlsListening(listening, Handshakes(tls, self._failure_delay_ms))
