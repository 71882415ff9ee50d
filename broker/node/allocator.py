"""Sets the C library's allocator so that the memory of large buffers is returned to the system when they are freed.

glibc raises the size from which a buffer has a mapping of its own, up to 32 MiB, whenever a larger one is freed. What
is allocated from the heaps of its threads afterwards stays there: a node that has once validated a batch of a million
records kept 60 MiB for good. With fixed thresholds it does not. Buffers of the usual requests, up to 4 MiB, still come
from the heap, since each new mapping costs page faults.
"""

import ctypes

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Parameters of `mallopt`, from malloc.h."""
MAPPED_BYTES_MIN = 4 << 20


def return_large_buffers() -> bool:
    """Fix the thresholds for this process; returns whether its C library has them."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl, macOS, Windows
        return False
    return bool(mallopt(MMAP_THRESHOLD, MAPPED_BYTES_MIN)) and bool(mallopt(TRIM_THRESHOLD, 2 * MAPPED_BYTES_MIN))
