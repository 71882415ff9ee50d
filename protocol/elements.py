"""Counts the elements of a message: their number, and the sizes of long values, determine the cost of handling it."""

from typing import Any

__all__ = ["BYTES_PER_ELEMENT", "count_elements", "weight"]

BYTES_PER_ELEMENT = 256
"""The bytes of a long name or value that cost about as much as one element."""


def weight(name: str) -> int:
    """The number of items that an item with this name or value counts as in work that is done in steps."""
    return 1 + len(name) // BYTES_PER_ELEMENT


def count_elements(message: Any) -> int:
    """The number of elements in the arrays of a message, and in the arrays of the structs in it."""
    count = 0
    for name in message.__slots__:
        part = getattr(message, name)
        if isinstance(part, list):
            count += len(part)
            if part and hasattr(part[0], "__slots__"):
                count += sum(map(count_elements, part))
        elif hasattr(part, "__slots__"):
            count += count_elements(part)
    return count
