"""Counts the elements of a message: what it costs to handle it depends on them rather than on its bytes."""

from typing import Any

__all__ = ["count_elements"]


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
