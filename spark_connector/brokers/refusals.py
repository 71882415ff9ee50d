"""Names what a broker refused and the right that was missing, in the errors of the source and the sink."""

from __future__ import annotations

from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError, error_for

_NEEDED = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED: " (it needs READ on the group)",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: " (it needs WRITE on the transactional id)",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: " (it needs WRITE on a topic, or IDEMPOTENT_WRITE on the cluster)",
}
"""What the requests of the source and the sink need, where the error code leaves no doubt."""


def refusal(error_code: int, action: str, message: str | None = None) -> KafkaError:
    """The error of a response: the action that failed, the reason, and the missing right if that is the reason.

    Args:
        error_code: the code in the response, not 0.
        action: such as `InitProducerId of 'a'`.
        message: the message in the response; by default the words of the code.
    """
    error = error_for(error_code)
    return error_for(error_code, f"{action}: {message or error}{_NEEDED.get(error.code, '')}")
