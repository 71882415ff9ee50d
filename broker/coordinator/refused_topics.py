"""`RefusedTopics`: the topics that the controller did not create on demand, so that each reason is logged once. Pure.

Clients ask again several times a second for a topic that does not exist, and each time the broker asks the controller.
"""

from collections.abc import Sequence

from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.create_topics import CreatableTopicResult

__all__ = ["TOPICS_MAX", "RefusedTopics"]

TOPICS_MAX = 1000
"""The most topics that are remembered: clients choose the names."""


class RefusedTopics:
    """Remembers for which reason each topic was refused last."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def news(self, results: Sequence[CreatableTopicResult]) -> dict[str, str]:
        """The reasons, by topic, for which topics were refused now and not the last time.

        Args:
            results: the controller's answer about each topic.
        """
        found: dict[str, str] = {}
        for result in results:
            reason = result.error_message or ErrorCode(result.error_code).name
            if result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self._reasons.pop(result.name, None)
            elif self._reasons.get(result.name) != reason:
                found[result.name] = reason
        if len(self._reasons) + len(found) > TOPICS_MAX:
            self._reasons.clear()
        if len(found) <= TOPICS_MAX:
            self._reasons |= found
        return found
