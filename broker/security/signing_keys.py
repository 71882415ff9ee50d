"""`SigningKeys`: the keys of a key set that a file or a provider has, read again in time.

A login that finds the keys too old waits until they are read again in a worker thread; logins beside it go on with the
old keys. Source: Kafka's `RefreshingHttpsJwks`, which reads them in a thread of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from minikafka.broker.security.key_sets import InvalidKeys, Key, check_size, read_keys
from minikafka.broker.security.keys_missing import KeysMissing
from minikafka.broker.settings.token_settings import TokenSettings
from minikafka.protocol.sasl.file_urls import file_of_url
from minikafka.storage.disks.disk import Disk

__all__ = ["PAUSE_S_MIN", "UNKNOWN_KEY_S", "KeyReading", "SigningKeys"]

log = structlog.get_logger("minikafka.authentication")

PAUSE_S_MIN = 0.1
"""The shortest time between two readings, whatever the settings say: logins wait for a reading that is due."""
UNKNOWN_KEY_S = 10.0
"""A token of an unknown key has the keys read again, since the provider may have new ones, but not more often."""


@dataclass(frozen=True, slots=True)
class KeyReading:
    """How key sets are read.

    Attributes:
        disk: Has the files, and the worker threads.
        download: Reads a URL of http or https; it blocks.
        clock: Seconds that only grow.
    """

    disk: Disk
    download: Callable[[str], bytes]
    clock: Callable[[], float]

    def read(self, url: str) -> bytes:
        """Read a key set. Raises OSError, or InvalidKeys if it is too large."""
        path = file_of_url(url)
        if path is None:
            return self.download(url)
        check_size(self.disk.file_size(path))
        return self.disk.read_bytes(path)


class SigningKeys:
    """The keys of a key set. What is withdrawn from it is not valid any more, also if no key is left then.

    Raises:
        InvalidKeys, OSError: The key set cannot be read at the start, or has no key for tokens. Later that is logged;
            the old keys stay only if it cannot be read or is no key set.
    """

    def __init__(self, settings: TokenSettings, reading: KeyReading) -> None:
        self._settings = settings
        self._reading = reading
        self._clock = reading.clock
        self._keys = self._read_keys()
        if not self._keys:
            raise InvalidKeys("has no key for RS256 or ES256")
        self._read_s = self._clock()
        self._failed = 0
        self._next_s = self._read_s + self._pause_s()
        self._is_reading = False

    def current(self) -> tuple[Key, ...]:
        """The keys now. Raises KeysMissing if they have to be read again first."""
        if self._clock() >= self._next_s and not self._is_reading:
            raise KeysMissing(self._refresh)
        return self._keys

    def missed(self) -> None:
        """A token is of none of the keys. Raises KeysMissing if the provider may have new keys."""
        if self._clock() - self._read_s >= UNKNOWN_KEY_S and not self._is_reading:
            raise KeysMissing(self._refresh)

    async def _refresh(self) -> None:
        if self._is_reading:
            return
        self._is_reading = True
        try:
            self._keys = await self._reading.disk.run(self._read_keys)
        except (InvalidKeys, OSError) as error:
            self._failed += 1
            log.error("keys of tokens cannot be read", reason=str(error))
        else:
            self._failed = 0
            if not self._keys:
                log.error("no keys of tokens")
        finally:
            self._is_reading = False
            self._read_s = self._clock()
            self._next_s = self._read_s + self._pause_s()

    def _pause_s(self) -> float:
        settings = self._settings
        if not self._failed:
            return max(PAUSE_S_MIN, settings.refresh_ms / 1000)
        longest = max(settings.backoff_ms, settings.backoff_ms_max)
        doubled = settings.backoff_ms << min(self._failed - 1, 20)
        return max(PAUSE_S_MIN, min(doubled, longest, max(settings.refresh_ms, settings.backoff_ms)) / 1000)

    def _read_keys(self) -> tuple[Key, ...]:
        read = read_keys(self._reading.read(self._settings.keys_url))
        if read.left_out:
            log.warning("keys of tokens left out", reason=", ".join(read.left_out))
        return read.keys
