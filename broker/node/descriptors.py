"""The descriptors of a node's process (RLIMIT_NOFILE): raised at the start, and shared between files and connections.

A quarter is for files, which close when there are too many; some are for other nodes, listeners, locks and the reserve
of the disk; a sixteenth is for tools on the controller listener; the others are for clients. A client beyond is
refused, before a file cannot be opened for its sake.
"""

import resource

UNLIMITED = 1 << 20
FILES_MAX = 4096
OTHERS = 64
CLIENTS_MIN = 16
TOOLS_MIN = 4


def raise_descriptor_limit() -> int:
    """Raise the soft limit of this process to the hard one, as the JVM does; returns it."""
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
    """How many files to keep open."""
    return min(FILES_MAX, limit // 4)


def connections_max(limit: int) -> int:
    """How many clients to serve at a time."""
    return max(CLIENTS_MIN, limit - open_files_max(limit) - OTHERS - tools_max(limit))


def tools_max(limit: int) -> int:
    """How many clients to serve at a time on the controller listener."""
    return max(TOOLS_MIN, limit // 16)
