"""Sets the C library's allocator so that the memory of large buffers is returned to the system when they are freed.

By default glibc raises the size from which a buffer has a mapping of its own, up to 32 MiB, whenever a larger buffer is
freed. Later buffers below that size come from the heaps of the threads, which do not return their memory: a node that
had once validated a batch of a million records kept 60 MiB for good. With fixed thresholds the memory is returned.
Buffers of the usual requests, up to 4 MiB, still come from the heap, since each new mapping costs page faults.
"""

import ctypes

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Parameters of `mallopt`, from malloc.h."""
MAPPED_BYTES_MIN = 4 << 20
"""The size in bytes from which a buffer has a mapping of its own."""


def return_large_buffers() -> bool:
    """Fix the thresholds for this process; returns False if the C library has no `mallopt`, or refuses the values."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl, macOS, Windows
        return False
    return bool(mallopt(MMAP_THRESHOLD, MAPPED_BYTES_MIN)) and bool(mallopt(TRIM_THRESHOLD, 2 * MAPPED_BYTES_MIN))
