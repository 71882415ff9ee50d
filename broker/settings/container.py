"""Defaults of a node in a container: those of our image, which follows Apache Kafka's own. Pure.

A container that is given nothing is a cluster of one node, which listens on all addresses and tells clients to use
localhost: `docker run -p 9092:9092` serves the host. What is given replaces these defaults, listener by listener:

- `listeners`, where only `advertised.listeners` is given, has the same names and ports on all addresses;
- an empty `advertised.listeners` of a node that is only a controller counts as not given.

Source: `docker/resources/common-scripts/configure` in Apache Kafka. There a container that is given a single setting
has no defaults at all, and data are in /tmp unless `log.dirs` is given.
"""

import re
from collections.abc import Mapping

__all__ = ["DATA_DIRECTORY", "MOUNTED_CONFIG", "container_defaults"]

DATA_DIRECTORY = "/var/lib/kafka/data"
"""A volume of our image, and of Kafka's."""
MOUNTED_CONFIG = "/mnt/shared/config/server.properties"
"""A file that is read if it is there, at the path of Kafka's image."""

_HOST = re.compile("://(\\[[^]]*]|[^:]*):")


def container_defaults(given: Mapping[str, str]) -> dict[str, str]:
    """The given settings, and the defaults of a container for what is not given."""
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
