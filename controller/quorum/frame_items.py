"""Bounds what a msgpack frame may take in memory, before it is decoded. Pure.

The items of a frame are counted over its bytes, which takes no memory. An item of one byte may take 64 bytes in memory,
and a letter of one or two bytes four; only byte strings take what they have in the frame. So the other bytes are what
is bounded. Source: the msgpack specification.
"""

__all__ = ["check_items"]

_LENGTHS = {
    **{0xC4: 1, 0xC5: 2, 0xC6: 4},  # byte strings
    **{0xD9: 1, 0xDA: 2, 0xDB: 4},  # strings
    **{0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4},  # arrays and maps
}
"""The bytes of the length or count that follows the first byte of an item."""
LONG_ITEM_COST = 4
"""The bytes that an item with a length counts as in addition to its own, since it takes so much longer to count."""
_BINARY, _STRINGS = range(0xC4, 0xC7), range(0xD9, 0xDC)
_FIXED = {
    **dict.fromkeys((*range(0xA0), 0xC0, 0xC2, 0xC3, *range(0xE0, 0x100)), 1),
    **{0xA0 + size: 1 + size for size in range(0x20)},  # short strings
    **{0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9},  # numbers
}
_SIZES = [_FIXED.get(first, 0) for first in range(0x100)]
"""The size of an item by its first byte; 0 if a length follows, or if the item is of no kind that frames have."""


def check_items(data: bytes | bytearray, size_max: int) -> None:
    """Check that everything but the byte strings in a frame is small. Takes up to 0.15 µs for each byte of `size_max`.

    Args:
        data: the frame, which may be malformed.
        size_max: the most bytes, and the most entries that arrays and maps may announce together.

    Raises:
        ValueError: there is more, or an item is of no kind that frames have.
    """
    position, size, left, announced = 0, len(data), size_max, 0
    while position < size:
        first = data[position]
        if item := _SIZES[first]:
            position += item
            left -= item
        else:
            item, binary, entries = _long_item(data, position)
            position += item + binary
            left -= item + LONG_ITEM_COST
            announced += entries
        if left < 0 or announced > size_max:
            raise ValueError(f"more than {size_max} bytes that are not byte strings")


def _long_item(data: bytes | bytearray, position: int) -> tuple[int, int, int]:
    """The size of an item without the content of a byte string, the size of that content, and how many entries of an
    array or map follow."""
    first = data[position]
    width = _LENGTHS.get(first)
    if width is None:
        raise ValueError(f"an item that begins with {first:#x}")
    length = int.from_bytes(data[position + 1 : position + 1 + width], "big")
    if first in _BINARY:
        return 1 + width, length, 0
    return (1 + width + length, 0, 0) if first in _STRINGS else (1 + width, 0, length)
