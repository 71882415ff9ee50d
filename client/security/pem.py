"""Splits PEM texts into blocks as Kafka does: whitespace of any kind separates lines, texts between blocks are skipped.

A text in a properties file often is one line. Source: `DefaultSslEngineFactory.PemParser`.
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

__all__ = ["certificate_blocks", "content_of", "private_key_block"]

_MARK = re.compile(r"-----(BEGIN|END) ([A-Z0-9 ]+)(?=-----)")
_DASHES = len("-----")
_BASE64 = re.compile(r"[A-Za-z0-9/+=\s]*")
_LINE_LENGTH = 64


def certificate_blocks(text: str) -> bytes:
    """The certificates of a text, one after the other, as PEM; b"" if there are none."""
    return b"".join(block for label, block in _blocks(text) if label in ("CERTIFICATE", "X509 CERTIFICATE"))


def private_key_block(text: str) -> bytes:
    """The first private key of a text, as PEM; b"" if there is none."""
    return next((block for label, block in _blocks(text) if label.endswith("PRIVATE KEY")), b"")


def content_of(block: bytes) -> bytes:
    """The bytes in a block without headers. Raises ValueError for any other block."""
    return base64.b64decode(b"".join(block.splitlines()[1:-1]), validate=True)


def _blocks(text: str) -> Iterator[tuple[str, bytes]]:
    """The label of each block, and the block with lines of usual length."""
    for label, start, end in _bodies(text):
        body = text[start:end]
        if _BASE64.fullmatch(body):
            joined = "".join(body.split())
            lines = [joined[at : at + _LINE_LENGTH] for at in range(0, len(joined), _LINE_LENGTH)]
            yield label, "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""]).encode()
        else:
            # with headers, which say how an old format is encrypted
            yield label, f"-----BEGIN {label}-----{body}-----END {label}-----\n".encode()


def _bodies(text: str) -> Iterator[tuple[str, int, int]]:
    """The label of each block, and where its body is: up to the next end with its label, whatever is between.

    Takes time in proportion to the text, also if many blocks have no end.
    """
    marks = list(_MARK.finditer(text))
    ends: defaultdict[str, list[int]] = defaultdict(list)
    for mark in marks:
        if mark[1] == "END":
            ends[mark[2]].append(mark.start())
    position = 0
    for mark in marks:
        if mark[1] == "END" or mark.start() < position:
            continue
        label, start = mark[2], mark.end() + _DASHES
        of_label = ends[label]
        following = bisect_left(of_label, start)
        if following < len(of_label):
            end = of_label[following]
            position = end + len(f"-----END {label}-----")
            yield label, start, end
