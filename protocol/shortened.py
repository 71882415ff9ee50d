"""`shortened`: a text that quotes input in a length that every message can carry and a human can read."""

__all__ = ["LENGTH_MAX", "shortened"]

LENGTH_MAX = 1000
_KEPT = 450
"""Letters at either end: what is wrong stands before or after what is quoted."""


def shortened(text: str) -> str:
    """The text without its middle if it is longer than `LENGTH_MAX`, and with `?` for lone surrogates, which cannot be
    encoded."""
    if len(text) > LENGTH_MAX:
        text = f"{text[:_KEPT]} … ({len(text) - 2 * _KEPT} letters left out) … {text[-_KEPT:]}"
    return text if text.isascii() else text.encode(errors="replace").decode()
