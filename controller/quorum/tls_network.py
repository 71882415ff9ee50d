"""`TlsNetwork`: the connections between nodes with TLS, over another network. Trio: its streams with TLS.

A node that accepts a connection shakes hands when it first receives, within the time for the first bytes.
"""

import errno
import ssl
from collections.abc import Callable, Sequence

import trio

from minikafka.controller.quorum.peer_frames import PushedBackStream
from minikafka.controller.quorum.peer_network import Network
from minikafka.controller.tls_records import RECORD_SIZE_BYTES_MAX, ReceivedRecords, RefusedRecord

__all__ = ["TlsNetwork", "TlsPeerStream"]


class TlsPeerStream(trio.abc.Stream):
    """A stream with TLS, whose errors say what is wrong.

    Attributes:
        stream: the stream that carries the encrypted bytes.
        certificate: the certificate of the other end in DER; None if it has shown none, or the handshake is not done.
    """

    def __init__(self, stream: trio.abc.Stream, context: ssl.SSLContext, host: str | None = None) -> None:
        self.stream = stream
        self.certificate: bytes | None = None
        self._failure = ""
        self._records = ReceivedRecords()
        self._encrypted = _OfRecords(PushedBackStream(stream), self._records)
        is_server = host is None
        self._tls = trio.SSLStream(
            self._encrypted, context, server_hostname=host, server_side=is_server, https_compatible=True
        )

    async def shake_hands(self) -> None:
        """Shake hands now. Raises trio.BrokenResourceError."""
        try:
            await self._establish()
        except trio.BrokenResourceError as error:
            raise self._broken(error) from error

    async def _establish(self) -> None:
        if not self._records.is_established:
            await self._tls.do_handshake()
            self._records.is_established = True
            found = self._tls.getpeercert(binary_form=True)
            assert isinstance(found, bytes | None)
            self.certificate = found

    async def hear(self) -> None:
        """Wait until encrypted bytes can be received, or the end. Raises trio's errors of a broken stream."""
        await self._encrypted.peek()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        try:
            await self._establish()
            data = await self._tls.receive_some(max_bytes)
        except trio.BrokenResourceError as error:
            if isinstance(error.__cause__, ssl.SSLEOFError):
                return b""
            raise self._broken(error) from error
        self._records.brought_data()
        return data

    def _broken(self, error: trio.BrokenResourceError) -> trio.BrokenResourceError:
        """The error with the first reason: once broken, trio's stream tells none."""
        self._failure = self._failure or _in_words(error)
        return trio.BrokenResourceError(self._failure)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._tls.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._tls.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close the connection, and free OpenSSL's memory at once: the collector does not count it."""
        try:
            await self._tls.aclose()
        finally:
            vars(self._tls).pop("_handshook", None)  # it keeps the stream until a collection


class _OfRecords(trio.abc.Stream):
    """A stream that receives one record of TLS at a time, so that what OpenSSL does with it takes little time."""

    def __init__(self, stream: PushedBackStream, records: ReceivedRecords) -> None:
        self._stream = stream
        self._records = records

    async def peek(self) -> None:
        """Wait until there is something to receive, or the end. Raises trio's errors of a broken stream."""
        if not self._records.has_whole:
            await self._stream.peek()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        try:
            while (record := self._records.take()) is None:
                data = await self._stream.receive_some(RECORD_SIZE_BYTES_MAX)
                if not data:
                    return b""
                self._records.add(bytes(data))
        except RefusedRecord as error:
            raise trio.BrokenResourceError(f"TLS: {error}") from None
        return bytes(record)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._records.answered()
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


def _in_words(error: trio.BrokenResourceError) -> str:
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"TLS: the certificate of the other node is refused: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError) and cause.reason == "WRONG_VERSION_NUMBER":
        return "TLS: the other end speaks none (listener.security.protocol.map must be the same on all nodes)"
    if isinstance(cause, ssl.SSLError) and cause.reason:
        return f"TLS: {cause.reason.lower().replace('_', ' ')}"
    return str(error) or "the connection was lost"


class TlsNetwork:
    """A network (a `Network`) whose connections have TLS.

    Args:
        inner: opens the connections.
        server: returns the present context of the listeners; None if this node has none.

    Attributes:
        client: the context of connections to other nodes; None before it is set, as it is again with new certificates.
    """

    def __init__(self, inner: Network, server: Callable[[], ssl.SSLContext] | None) -> None:
        self._inner = inner
        self._server = server
        self.client: ssl.SSLContext | None = None

    def use(self, client: ssl.SSLContext) -> None:
        """Use this context for connections from now on."""
        self.client = client

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        assert self.client is not None, "the context is set first"
        inner = await self._inner.connect(host, port)
        stream = TlsPeerStream(inner, self.client, host)
        try:
            await stream.shake_hands()
        except trio.BrokenResourceError as error:
            await trio.aclose_forcefully(stream)
            raise OSError(errno.EPROTO, str(error)) from None
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return stream

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        assert self._server is not None, "only controllers listen"
        return [_TlsListener(listener, self._server) for listener in await self._inner.listen(host, port)]


class _TlsListener(trio.abc.Listener[trio.abc.Stream]):
    def __init__(self, inner: trio.abc.Listener[trio.abc.Stream], context: Callable[[], ssl.SSLContext]) -> None:
        self._inner = inner
        self._context = context

    async def accept(self) -> trio.abc.Stream:
        return TlsPeerStream(await self._inner.accept(), self._context())

    async def aclose(self) -> None:
        await self._inner.aclose()
