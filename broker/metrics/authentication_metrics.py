"""`authentication_metrics`: counts the logins by SASL at each listener: succeeded, refused, renewed, expired."""

from collections.abc import Iterator, Mapping
from operator import attrgetter

from minikafka.broker.metrics.family import Collector, Family
from minikafka.broker.security.authentication_record import AuthenticationRecord

__all__ = ["authentication_metrics"]

_SERVER = "kafka_server_socket_server_metrics"
_COUNTS = {
    "successful_authentication": ("succeeded", "Logins of new connections."),
    "failed_authentication": ("failed", "Logins of new connections that were refused, also those of refused tokens."),
    "successful_reauthentication": ("reauthenticated", "Logins that renewed the session of a connection."),
    "failed_reauthentication": ("reauthentication_failed", "Logins to renew a session that were refused."),
}


def authentication_metrics(records: Mapping[str, AuthenticationRecord]) -> Collector:
    """Make the collector.

    Args:
        records: By the name of the listener.
    """

    def collect() -> Iterator[Family]:
        for name, (attribute, documentation) in _COUNTS.items():
            count = attrgetter(attribute)
            samples = [((listener,), float(count(record))) for listener, record in records.items()]
            yield Family(f"{_SERVER}_{name}", "counter", documentation, samples, ("listener",))
        expired = [((listener,), float(record.expired)) for listener, record in records.items()]
        described = "Connections that were closed since their session was over."
        yield Family(f"{_SERVER}_expired_connections_killed_count", "gauge", described, expired, ("listener",))

    return collect
