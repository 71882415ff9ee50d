"""Settings of a client metrics subscription (KIP-714)."""

from minikafka.protocol.settings.bounds import ANY_DISTINCT, between
from minikafka.protocol.settings.declaration import MEDIUM, Setting
from minikafka.protocol.settings.value_types import INT, LIST

SETTINGS: tuple[Setting, ...] = (
    Setting("interval.ms", INT, 300_000, between(100, 3_600_000), MEDIUM, "",
            "Interval at which clients push their metrics.",
            supported=True),
    Setting("match", LIST, (), None, MEDIUM, "",
            "Patterns that select the clients, as attribute=regular expression; all must match.",
            supported=True),
    Setting("metrics", LIST, (), ANY_DISTINCT, MEDIUM, "",
            "Prefixes of the names of the metrics that clients push; `*` selects all.",
            supported=True),
)
