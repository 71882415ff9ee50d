"""`file_of_url`: the path of a file that a setting of tokens names by a URL."""

from urllib.parse import unquote

__all__ = ["file_of_url"]

_SCHEME = "file:"


def file_of_url(url: str) -> str | None:
    """The path in a URL such as `file:///etc/kafka/token`; None for any other URL, and for one without a path."""
    path = url.removeprefix(_SCHEME)
    if path == url or not path.startswith("/") or not path.strip("/"):
        return None
    return unquote("/" + path.lstrip("/"))
