"""`counted` formats a number with its noun in the singular or plural, for messages: `1 record`, `2,000 records`."""

__all__ = ["counted"]


def counted(count: int, noun: str, plural: str = "") -> str:
    """The number and its noun: `1 record`, `2,000 records`.

    Args:
        count: the number.
        noun: the noun in the singular.
        plural: the noun in the plural; by default the singular with an s.
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
