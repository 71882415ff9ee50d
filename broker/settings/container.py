"""The default settings of a node in a container of minikafka's image, which follow those of Apache Kafka's image. Pure.

A container without any setting is a cluster of one node. The node listens on all addresses and tells clients to use
localhost, so that `docker run -p 9092:9092` serves the host. Each given setting replaces its default:

- if only `advertised.listeners` is given, `listeners` has the same names and ports, on all addresses;
- an empty `advertised.listeners` of a node that is only a controller counts as not given.

Source: `docker/resources/common-scripts/configure` in Apache Kafka. There a container with a single given setting has
no defaults at all, and the data is in /tmp unless `log.dirs` is given.
"""

import re
from collections.abc import Mapping

__all__ = ["DATA_DIRECTORY", "MOUNTED_CONFIG", "container_defaults"]

DATA_DIRECTORY = "/var/lib/kafka/data"
"""The data volume of minikafka's image, and of Kafka's image."""
MOUNTED_CONFIG = "/mnt/shared/config/server.properties"
"""The path of a settings file that is read if it exists; the same as in Kafka's image."""

_HOST = re.compile("://(\\[[^]]*]|[^:]*):")


def container_defaults(given: Mapping[str, str]) -> dict[str, str]:
    """The given settings, with the defaults of a container for settings that are not given."""
    complete = dict(given)
    if "log.dirs" not in given and "log.dir" not in given:
        complete["log.dirs"] = DATA_DIRECTORY
    if given.get("process.roles", "").strip() == "controller":
        if not given.get("advertised.listeners", "").strip():
            complete.pop("advertised.listeners", None)
        return complete
    if not given.get("listeners", "").strip():
        advertised = given.get("advertised.listeners", "").strip() or "PLAINTEXT://localhost:9092"
        complete["advertised.listeners"] = advertised
        complete["listeners"] = _HOST.sub("://0.0.0.0:", advertised)
    return complete
