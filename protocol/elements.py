"""Counts the elements of a message: what it costs to handle it depends on them, and on long values."""

from typing import Any

__all__ = ["BYTES_PER_ELEMENT", "count_elements", "weight"]

BYTES_PER_ELEMENT = 256
"""So many bytes of a long name or value cost about as much as an element."""


def weight(name: str) -> int:
    """How many elements an element with such a name or value counts as, where work on elements is done in steps."""
    return 1 + len(name) // BYTES_PER_ELEMENT


def count_elements(message: Any) -> int:
    """How many elements the arrays of a message have, and those of the messages in it."""
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
