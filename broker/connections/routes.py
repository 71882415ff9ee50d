"""The routing table: the handler of each API key, and the versions that ApiVersions advertises.

ApiVersions lists an API if, and only if, the table has a handler for it, with the versions that the handler declares.
"""

from collections.abc import Callable, Collection, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from minikafka.broker.connections.large_messages import ELEMENTS_MAX
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.apis import api_of

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)

Handler = Callable[[Any, RequestContext[S]], Coroutine[Any, Any, Any]]
"""A coroutine function, which waits only as `storage/waits.py` says: it begins without a task."""


class ApiModule(Protocol[S_contra]):
    """A handler: a module of `broker/apis/`, or an `ApiHandler`.

    Optional besides: `ADVERTISED_MIN_VERSION`, `ADVERTISED` and `ELEMENTS_MAX`, see `Route`.
    """

    @property
    def REQUEST(self) -> type:  # noqa: N802
        """The class of the request."""
        ...

    @property
    def VERSIONS(self) -> str:  # noqa: N802
        """The supported versions, `"0-4"` or `"0"`."""
        ...

    @property
    def handle(self) -> Callable[[Any, RequestContext[S_contra]], Coroutine[Any, Any, Any]]:
        """Returns the response, or None for a request without a response; raises `KafkaError` if the request fails."""
        ...


@dataclass(slots=True, frozen=True)
class ApiHandler(Generic[S]):
    """A handler that is an object and not a module of `broker/apis/`; see `ApiModule`."""

    REQUEST: type
    VERSIONS: str
    handle: Handler[S]


@dataclass(slots=True, frozen=True)
class Route(Generic[S]):
    """One API as this node serves it.

    Attributes:
        name: The API's name in Kafka, for logs and metrics.
        advertised_min: The first version in ApiVersions; it differs from `min_version` for Produce (KAFKA-18659).
        advertised: Whether ApiVersions lists the API.
        elements_max: How many elements the arrays of a request may have together.
    """

    key: int
    name: str
    request: type
    response: type
    min_version: int
    max_version: int
    advertised_min: int
    advertised: bool
    handle: Handler[S]
    elements_max: int = ELEMENTS_MAX


def routes_of(
    modules: Iterable[ApiModule[S]], *, unstable_versions: bool = False, advertised: Collection[int] = ()
) -> dict[int, Route[S]]:
    """Build the routing table of these handlers, by API key.

    Args:
        advertised: Keys of APIs that ApiVersions lists though their modules say otherwise.
        unstable_versions: Whether to serve the versions that are not stable in Kafka 4.3 too (`UNSTABLE_VERSION`).
    """
    routes: dict[int, Route[S]] = {}
    for module in modules:
        api = api_of(module.REQUEST)
        low, _, high = module.VERSIONS.partition("-")
        minimum, maximum = int(low), int(high or low)
        if unstable_versions:
            maximum = int(getattr(module, "UNSTABLE_VERSION", maximum))
        assert api.key not in routes, f"two handlers for {api.name}"
        routes[api.key] = Route(
            api.key,
            api.name,
            module.REQUEST,
            api.response,
            minimum,
            maximum,
            advertised_min=int(getattr(module, "ADVERTISED_MIN_VERSION", minimum)),
            advertised=bool(getattr(module, "ADVERTISED", True)) or api.key in advertised,
            handle=module.handle,
            elements_max=int(getattr(module, "ELEMENTS_MAX", ELEMENTS_MAX)),
        )
    return dict(sorted(routes.items()))
