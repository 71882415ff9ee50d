"""Checks whether a repeated task has the same records as before, by number and a fingerprint of their content. Pure.

A task of a repeated micro-batch skips the rows that it has committed before. This is right only if it has the same rows
again: if rows move between tasks, for example after a shuffle by a random number, they would be doubled or lost. The
fingerprint does not depend on the order of rows, which a shuffle does not keep.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from minikafka.client.producer.arrow_encoding import blob_sizes
from minikafka.protocol.counted import counted
from minikafka.protocol.records.numpy_varints import Array
from minikafka.spark_connector.sink.sink_columns import blob_buffers

_WORDS = 8
"""The number of eight-byte words of a key or value that are hashed; they overlap or leave gaps, evenly spaced."""
_WORD = 8
_MIX, _MIX_VALUES, _MIX_SUM = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), 0x165667B19E3779F9
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], np.uint64)


class NotRepeated(Exception):
    """A write is refused, as rows might be doubled or lost: rows, tasks, topics or run are not those of before."""


@dataclass
class Content:
    """A summary of the records of a task: their number, and the sum of the fingerprints of their keys and values."""

    rows: int = 0
    fingerprint: int = 0

    def add(self, keys: Any, values: Any) -> None:
        """Adds records, given by their columns of type `large_binary`; `keys` may be None."""
        hashes = _hashes(values)
        if keys is not None:
            hashes = (hashes ^ (_hashes(keys) * _MIX_VALUES)) * _MIX
        total = int(hashes.sum(dtype=np.uint64))
        for blobs in (keys, values):
            if blobs is not None:
                buffer, bounds = blob_buffers(blobs)
                total += _sum(buffer[bounds[0] : bounds[-1]]) * _MIX_SUM
        self.rows += len(values)
        self.fingerprint = (self.fingerprint + total) & 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True)
class Marker:
    """The record of a task's last commit, which is stored as a committed offset of a consumer group.

    Attributes:
        version: the number of the micro-batch.
        content: the summary of the micro-batch's records.
        attempt: the run of the query that has committed the micro-batch.
        topics: the topics of the records.
    """

    version: int
    content: Content
    attempt: str = ""
    topics: frozenset[str] = frozenset()

    def metadata(self) -> str:
        """The marker as JSON text, which is stored as the metadata of a consumer group's offset."""
        content = {"rows": self.content.rows, "fp": f"{self.content.fingerprint:x}"}
        return json.dumps({"batch": self.version, **content, "by": self.attempt})

    @classmethod
    def parse(cls, offset: int, metadata: str, topics: frozenset[str] = frozenset()) -> Marker:
        """Parses a marker; the offset is the number of the micro-batch plus one. Raises ValueError."""
        try:
            fields = json.loads(metadata)
            content, attempt = Content(int(fields["rows"]), int(fields["fp"], 16)), str(fields.get("by", ""))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"the marker {metadata!r} was not written by this sink: {error}") from None
        return cls(offset - 1, content, attempt, topics)


def check_repeated(marker: Marker, new_content: Content, topics: Collection[str], check: str, task: str) -> None:
    """Raises NotRepeated if a task has other records than before, or would write them to other topics.

    Args:
        new_content: the summary of the records that the task would write.
        topics: the topics to which the task would write.
        check: the option replayCheck: "content", "rows" or "none".
        task: names the task in the error message.
    """
    check_topics(marker, topics, check, task)
    committed = marker.content
    if check == "none" or (committed.rows == new_content.rows and (check == "rows" or committed == new_content)):
        return
    rows = f"{new_content.rows:,} instead of {counted(committed.rows, 'row')}"
    difference = rows if new_content.rows != committed.rows else "other content"
    raise NotRepeated(
        f"{task} has committed micro-batch {marker.version} before, and has {difference} now that it is repeated: the"
        " query's plan does not repeat itself (random numbers, the current time, a user-defined function that is not"
        " deterministic, or another number of tasks), so that records may be doubled or lost. Make it deterministic,"
        " or accept that by the option replayCheck: 'rows' compares their number only, 'none' nothing"
    )


def check_topics(marker: Marker, topics: Collection[str], check: str, task: str) -> None:
    """Raises NotRepeated if records would be written to other topics than before; arguments as of `check_repeated`."""
    if check != "none" and topics and marker.topics and marker.topics != set(topics):
        raise NotRepeated(
            f"{task} has committed micro-batch {marker.version} before, to {_listed(marker.topics)}, and is to write it"
            f" to {_listed(topics)} now: the option 'topic' was changed in the middle of a micro-batch, or two queries"
            " use copies of one checkpoint. Complete it with the topic that it had; give a copy of a checkpoint a"
            " transactionalIdPrefix of its own; or accept that it is not written there by the option replayCheck 'none'"
        )


def _listed(topics: Collection[str]) -> str:
    found = sorted(topics)
    return f"topic {found[0]}" + (f" and {len(found) - 1} more" if len(found) > 1 else "")


def _sum(data: Array) -> int:
    """The sum of bytes, computed with Arrow, which takes half the time of numpy."""
    column = pa.Array.from_buffers(pa.uint8(), len(data), [None, pa.py_buffer(data)])
    return int(pc.sum(column, min_count=0).as_py())


def _hashes(blobs: Any) -> Array:
    """A hash of each value, uint64, from its size and up to `_WORDS` of its words."""
    sizes = blob_sizes(blobs)
    buffer, bounds = blob_buffers(blobs)
    first = int(bounds[0])
    padded = np.concatenate((buffer[first : int(bounds[-1])], np.zeros(_WORD, np.uint8)))
    words = np.ndarray(len(padded) - _WORD + 1, "<u8", padded, strides=(1,))
    starts, spare = bounds[:-1] - first, np.maximum(sizes - _WORD, 0)
    masks = None if sizes.min(initial=_WORD) >= _WORD else _MASKS[np.clip(sizes, 0, _WORD)]
    hashes = (sizes + 2).astype(np.uint64) * _MIX
    for step in range(_WORDS if spare.any() else 1):
        word = words[starts + spare * step // (_WORDS - 1)]
        hashes = (hashes ^ (word if masks is None else word & masks)) * _MIX
        hashes ^= hashes >> np.uint64(29)
    return hashes
