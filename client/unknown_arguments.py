"""What to write in place of a keyword argument that a constructor or a method does not have.

Methods that check their arguments find such an argument then. Those that check nothing take `**unknown`, which is empty
if the call is right, and refuse what is in it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

_SYNONYMS = {
    "timeout": "timeout_ms",
    "timeout_s": "timeout_ms",
    "callback": "on_delivery",
    "cb": "on_delivery",
    "on_success": "on_delivery",
    "timestamp": "timestamp_ms",
    "message": "value",
    "msg": "value",
    "data": "value",
    "body": "value",
    "num_messages": "max_records",
    "count": "max_records",
    "on_assign": "listener",
    "on_revoke": "listener",
    "on_lost": "listener",
    "partitions_count": "partitions",
    "num_partitions": "partitions",
    "config": "configs",
}
"""Names in other clients, of arguments that have another name here."""
_OF_METHODS = {
    "timeout": "the options default_api_timeout_ms and delivery_timeout_ms limit how long calls wait",
    "callback": "a call has succeeded when it returns, and raises its errors",
    "on_delivery": "a call has succeeded when it returns, and raises its errors",
    "async": "a call has succeeded when it returns",
    "update_offsets": "positions change with the records that are returned",
}
"""Arguments of methods of other clients that have no counterpart, by how their names begin, and what to know here."""


def unknown_argument(owner: str, name: str, known: Sequence[str], elsewhere: Mapping[str, str]) -> str:
    """The text of an error.

    Args:
        owner: the class or the method.
        elsewhere: of arguments that other clients have, by how their names begin, what to do here.
    """
    plain_name = name.replace(".", "_").replace("-", "_")
    hint = next((hint for start, hint in elsewhere.items() if plain_name.startswith(start)), None)
    if hint is not None:
        return f"{owner} has no argument {name!r}: {hint}"
    near = difflib.get_close_matches(plain_name, known, n=1)
    if near:
        return f"{owner} has no argument {name!r}; did you mean {near[0]}?"
    return f"{owner} has no argument {name!r}; it takes {', '.join(sorted(known)) or 'none'}"


def refuse(method: str, unknown: Iterable[str], known: Sequence[str]) -> None:
    """Raise TypeError for the first of the arguments of a call that its method does not have."""
    for name in unknown:
        ours = _SYNONYMS.get(name, "")
        elsewhere: Mapping[str, str] = {}
        if ours in known:
            unit = ", in milliseconds" if ours.endswith("_ms") else ""
            elsewhere = {name: f"did you mean {ours}{unit}?"}
        elif not difflib.get_close_matches(name, known, n=1):
            elsewhere = _OF_METHODS
        raise TypeError(unknown_argument(f"{method}()", name, known, elsewhere))
