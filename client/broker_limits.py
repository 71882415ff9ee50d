"""Options whose values brokers limit, and the error message for a value that a broker has refused. Pure.

The error code alone, such as "invalid session timeout", names neither the value nor the limits.
"""

from __future__ import annotations

from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import error_for

LIMITED = {
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        "session_timeout_ms",
        "must be between the brokers' group.min.session.timeout.ms and group.max.session.timeout.ms",
    ),
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
        "transaction_timeout_ms",
        "must be above 0 and at most the brokers' transaction.max.timeout.ms",
    ),
}
"""By error code: the option, and what a broker demands of it."""


def explained(code: int, options: object) -> str:
    """The message of an error code; it names the refused option and its value if `options` has that option."""
    message = str(error_for(code))
    for limited, (name, demand) in LIMITED.items():
        if code == limited and hasattr(options, name):
            return f"{message}: {name}={getattr(options, name)} {demand}"
    return message
