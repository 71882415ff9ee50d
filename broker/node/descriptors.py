"""Raises the limit of file descriptors of a node's process, and divides the descriptors between files and connections.

The limit is RLIMIT_NOFILE. A quarter of the descriptors is for log files, which are closed when too many are open; 64
are for other nodes, listeners, locks and the reserve of the disk; a sixteenth is for tools on the controller listener,
and as many, 256 at most, for connections there that have not logged in; the others are for clients. A client beyond
that number is refused, so that it cannot make the opening of a file fail.
"""

import resource

from minikafka.controller.quorum.strangers import STRANGERS_MIN

UNLIMITED = 1 << 20
"""The soft limit to set if the hard limit is infinite."""
FILES_MAX = 4096
OTHERS = 64
"""Descriptors for other nodes, listeners, locks and the reserve of the disk."""
CLIENTS_MIN = 16
TOOLS_MIN = 4
STRANGERS_MAX = 256
"""Those over TLS take some 100 KiB of memory each."""


def raise_descriptor_limit() -> int:
    """Raise the soft limit of this process to its hard limit, as the JVM does; returns the soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = UNLIMITED if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return soft  # The kernel allows less than the hard limit says.
        return wanted
    return wanted if soft == resource.RLIM_INFINITY else soft


def open_files_max(limit: int) -> int:
    """The number of log files to keep open, given the limit of descriptors."""
    return min(FILES_MAX, limit // 4)


def connections_max(limit: int) -> int:
    """The number of clients to serve at a time, given the limit of descriptors."""
    more_strangers = strangers_max(tools_max(limit)) - STRANGERS_MIN  # `STRANGERS_MIN` of them are among the others.
    return max(CLIENTS_MIN, limit - open_files_max(limit) - OTHERS - more_strangers - tools_max(limit))


def tools_max(limit: int) -> int:
    """The number of clients to serve at a time on the controller listener, given the limit of descriptors."""
    return max(TOOLS_MIN, limit // 16)


def strangers_max(tools: int) -> int:
    """The number of connections to the controller listener that have not logged in, given that of tools there."""
    return max(STRANGERS_MIN, min(STRANGERS_MAX, tools))
