"""`shortened` bounds the length of a text that quotes input: a message can carry it and a person can read it."""

__all__ = ["LENGTH_MAX", "shortened"]

LENGTH_MAX = 1000
_KEPT = 450
"""The characters that are kept at either end, where the text says what is wrong with the quoted input."""


def shortened(text: str) -> str:
    """The text without its middle if it is longer than `LENGTH_MAX`, and with `?` for lone surrogates, which cannot be
    encoded."""
    if len(text) > LENGTH_MAX:
        text = f"{text[:_KEPT]} … ({len(text) - 2 * _KEPT} letters left out) … {text[-_KEPT:]}"
    return text if text.isascii() else text.encode(errors="replace").decode()
