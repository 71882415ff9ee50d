"""`BrokerOffer`: the API versions and features that a broker offers, and the version for a request."""

from __future__ import annotations

from typing import Any

from minikafka.protocol.apis import APIS, api_of
from minikafka.protocol.errors import UnsupportedVersionError
from minikafka.protocol.messages.api_versions import ApiVersionsResponse

API_VERSIONS_KEY = 18
_API_VERSIONS_MAX = 4
"""Apache Kafka 4.3 implements version 5 but does not advertise it."""
_METADATA_KEY, _BROKER_REGISTRATION_KEY = 3, 62
"""API keys that tell controllers from brokers: only brokers offer Metadata, only controllers BrokerRegistration."""


class BrokerOffer:
    """What a broker offers; before it has answered ApiVersions, that request alone.

    Attributes:
        versions: (lowest, highest) version that the broker supports, by API key.
        features: the level of each finalized feature, such as transaction.version.
        features_epoch: increases when features change; -1: not known.
    """

    def __init__(self, address: str) -> None:
        self.versions: dict[int, tuple[int, int]] = {API_VERSIONS_KEY: (0, _API_VERSIONS_MAX)}
        self.features: dict[str, int] = {}
        self.features_epoch = -1
        self._address = address
        self._chosen: dict[Any, tuple[Any, int]] = {}

    def apply(self, response: ApiVersionsResponse) -> None:
        """Take over a successful response."""
        self._chosen.clear()
        self.versions = {
            one.api_key: (one.min_version, one.max_version)
            for one in response.api_keys
            if one.api_key in APIS
        }
        self.features = {one.name: one.max_version_level for one in response.finalized_features}
        self.features_epoch = response.finalized_features_epoch

    def chosen(self, request: Any, highest: int | None) -> tuple[Any, int]:
        """The response class of a request class, and `version_for` the request. Raises UnsupportedVersionError."""
        chosen = self._chosen.get(request) if highest is None else None
        if chosen is None:
            chosen = (api_of(request).response, self.version_for(request, highest))
            if highest is None:
                self._chosen[request] = chosen
        return chosen

    def version_for(self, request: Any, highest: int | None = None) -> int:
        """The newest version of a request class that both sides support, at most `highest`.

        Raises UnsupportedVersionError.
        """
        api = api_of(request)
        low, high = self.versions.get(api.key, (0, -1))
        newest = min(high, api.versions.last, high if highest is None else highest)
        if newest < max(low, api.versions.first):
            if api.key == _METADATA_KEY and high < 0 and _BROKER_REGISTRATION_KEY in self.versions:
                raise UnsupportedVersionError(
                    f"{self._address} is a controller's address, which is for brokers: clients need that of a broker"
                )
            offer = f"offers versions {low} to {high}" if high >= 0 else "does not offer it"
            raise UnsupportedVersionError(
                f"{api.name}: this client supports versions {api.versions.first} to {api.versions.last},"
                f" the broker at {self._address} {offer}"
            )
        return newest
