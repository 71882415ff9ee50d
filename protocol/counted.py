"""`counted`: how many of something there are, in a text for people."""

__all__ = ["counted"]


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 record`, `2,000 records`.

    Args:
        plural: by default the noun with an s.
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
