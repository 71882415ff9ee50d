"""`TlsSocket`: a socket with TLS that never waits, and whose calls take little time whatever the peer sends.

OpenSSL gets few records at a time, in memory (`ReceivedRecords`): from the socket itself it would read as long as
records without data arrive. What is encrypted is sent before more is encrypted, so little is kept.
"""

import socket
import ssl
from contextlib import suppress

from minikafka.broker.connections.transport import Bytes
from minikafka.controller.tls_records import RECORD_SIZE_BYTES_MAX, ReceivedRecords, RefusedRecord

__all__ = ["RECORDS_AT_ONCE", "TlsSocket", "in_words"]

RECEIVED_SIZE_BYTES = 2 * RECORD_SIZE_BYTES_MAX
"""Bytes for one call of the kernel: a whole record, whatever part of one has arrived before. A connection that waits
keeps at most so much, and a record, that is not decrypted."""

RECEIVED_SIZE_BYTES_MAX = 8 * RECORD_SIZE_BYTES_MAX
"""Bytes for one call of the kernel if the rest of a request is larger."""

ENCRYPTED_SIZE_BYTES = 4 * RECORD_SIZE_BYTES_MAX
"""Bytes for one call of OpenSSL. A MiB takes a tenth longer with one record in each. OpenSSL's memory for a connection
stays as large as it ever was: 87 KB with four."""

RECORDS_AT_ONCE = 16
"""Records with data that one call decrypts at most. librdkafka sends a request in many of few bytes, some of 16 KiB."""


class TlsSocket:
    """The server's end of a connection with TLS.

    Attributes:
        raw: The socket, which does not block.
        certificate: The certificate of the client in DER; None if it has shown none.
        records: How many records were decrypted since the handshake.
    """

    def __init__(self, raw: socket.socket, context: ssl.SSLContext) -> None:
        self.raw = raw
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._records = ReceivedRecords()
        self._unsent: list[Bytes] = []
        self._has_ended = False
        self.records = 0

    @property
    def certificate(self) -> bytes | None:
        return self._tls.getpeercert(binary_form=True)

    @property
    def has_unsent(self) -> bool:
        """Whether encrypted bytes wait until the kernel takes them."""
        return bool(self._unsent)

    @property
    def has_received(self) -> bool:
        """Whether there are bytes to be read that the kernel does not have any more."""
        return self._has_ended or self._records.has_whole or bool(self._tls.pending())

    def do_handshake(self) -> None:
        """Go on with the handshake.

        Raises:
            BlockingIOError: It is not done. The client has to take what is unsent, or else to send something.
            ConnectionResetError: The client has disconnected.
            ssl.SSLError, RefusedRecord: It has failed.
        """
        is_done = False
        while not is_done:
            self.flush()
            if not self._feed():
                raise ConnectionResetError("the client disconnected during the TLS handshake")
            try:
                self._tls.do_handshake()
                is_done = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                self._keep_output()
                with suppress(OSError):
                    self.flush()
                raise
            self._keep_output()
        self._records.is_established = True
        self.flush()

    def receive(self, size_bytes: int = 0) -> bool:
        """Receive encrypted bytes; returns False at the end of the stream. Raises BlockingIOError.

        Args:
            size_bytes: the data that is awaited; of much of it, more is received at once.
        """
        data = self.raw.recv(min(max(size_bytes, RECEIVED_SIZE_BYTES), RECEIVED_SIZE_BYTES_MAX))
        self._records.add(data)
        return bool(data)

    def _feed(self) -> bool:
        """Give OpenSSL the next record; returns False at the end of the stream. Raises BlockingIOError."""
        while (record := self._records.take()) is None:
            if not self.receive():
                return False
        self._incoming.write(record)
        return True

    def read_into(self, target: memoryview) -> int:
        """Decrypt the next records that have arrived, as far as there is room; returns the size of their data, 0 at the
        end of the stream.

        Raises:
            BlockingIOError: None with data has wholly arrived.
            ConnectionResetError: The client violates the protocol.
        """
        size, until = 0, self.records + RECORDS_AT_ONCE
        try:
            if self._tls.pending():
                size = self._read(target)
            while size < len(target) and not self._has_ended and (not size or self.records < until):
                some, count = self._records.take_data(len(target) - size, max(until - self.records, 1))
                if not count:
                    if (record := self._records.take()) is None:
                        break
                    some, count = record, 1
                size += self._decrypt(some, count, target[size:])
        except (ssl.SSLError, RefusedRecord) as error:
            raise ConnectionResetError(in_words(error)) from None
        if not size and not self._has_ended:
            raise BlockingIOError
        return size

    def _decrypt(self, records: memoryview, count: int, target: memoryview) -> int:
        """Decrypt records, of the last one as much as there is room for; returns the size of their data."""
        self._incoming.write(records)
        self.records += count
        size, with_data = 0, 0
        try:
            while with_data < count and (read := self._read(target[size:])):
                size += read
                with_data += 1
        except ssl.SSLWantReadError:
            self._answer()
        self._records.brought_data(with_data)
        return size

    def _read(self, target: memoryview) -> int:
        """Read the data of one record."""
        count: object = self._tls.read(len(target), target)
        assert isinstance(count, int), "there is a buffer"
        self._has_ended = not count
        return count

    def _answer(self) -> None:
        """Send what TLS itself answers, as to a new key."""
        self._keep_output()
        try:
            self.flush()
        except BlockingIOError:
            raise ConnectionResetError("the client does not read, and TLS has to answer it first") from None

    def send(self, data: Bytes) -> int:
        """Encrypt and send data; returns its size. What the kernel does not take at once is sent by the next call.

        Raises:
            BlockingIOError: The kernel has not taken all of the last call.
            ConnectionResetError: TLS can send no more.
        """
        self.flush()
        view = memoryview(data)
        try:
            for start in range(0, len(view), ENCRYPTED_SIZE_BYTES):
                self._tls.write(view[start : start + ENCRYPTED_SIZE_BYTES])
                self._unsent.append(self._outgoing.read())
        except ssl.SSLError as error:
            raise ConnectionResetError(in_words(error)) from None
        with suppress(BlockingIOError):
            self.flush()
        return len(view)

    def _keep_output(self) -> None:
        if self._outgoing.pending:
            self._unsent.append(self._outgoing.read())
            self._records.answered()

    def flush(self) -> None:
        """Send what is encrypted. Raises BlockingIOError if the kernel does not take all of it."""
        if self._unsent:
            sent = self.raw.sendmsg(self._unsent)
            if sent < sum(map(len, self._unsent)):
                self._unsent = [memoryview(b"".join(self._unsent))[sent:]]
                raise BlockingIOError
            self._unsent = []

    def say_goodbye(self) -> None:
        """Tell the client that nothing follows, if the kernel takes it, and await no answer."""
        with suppress(OSError, ValueError):
            self._tls.unwrap()
        self._keep_output()
        with suppress(OSError):
            self.flush()


_IN_WORDS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has no certificate, and ssl.client.auth=required",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client refuses the certificate of this node",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client refuses the certificate of this node",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not know the authority of this node's certificate",
    "UNSUPPORTED_PROTOCOL": "the client has no version of TLS of ssl.enabled.protocols",
    "NO_SHARED_CIPHER": "the client has none of the cipher suites of this node",
}
"""By OpenSSL's reason, what is wrong."""


def in_words(error: Exception) -> str:
    """What went wrong, without the line of OpenSSL's source."""
    if not isinstance(error, ssl.SSLError) or not error.reason:
        return str(error)
    return _IN_WORDS.get(error.reason, error.reason.lower().replace("_", " "))
