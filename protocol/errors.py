"""Kafka's errors as exceptions: a class for each code, as in ``except NotLeaderOrFollowerError``.

Handlers raise them if the whole request fails; if only a partition or topic fails, they put the `ErrorCode` into the
response. Clients get them from `error_for`. All are subclasses of `KafkaError`.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.shortened import shortened

E = TypeVar("E", bound=BaseException)


class KafkaError(Exception):
    """An error of the Kafka protocol.

    Attributes:
        code: the `ErrorCode` in the response.
        message: the error message, shortened, since it may quote what a client sent; by default the name of the code
            in words.
        detail: the message, or None if it only repeats the code. Responses carry the detail: a client has its own
            words for each code.
    """

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init__(self, message: str = "") -> None:
        self.message = shortened(message) or self.code.text
        self.detail = None if self.message == self.code.text else self.message
        super().__init__(self.message)

    def __reduce__(self) -> tuple[Any, ...]:
        """Support `pickle` and `copy`: the constructors of subclasses take other arguments than the message."""
        return _restored, (type(self), self.args), self.__dict__

    @property
    def retriable(self) -> bool:
        """Whether the request may succeed when repeated."""
        return self.code.retriable


def _restored(kind: type[KafkaError], args: tuple[Any, ...]) -> KafkaError:
    return kind.__new__(kind, *args)


def again(error: E) -> E:
    """A copy of an exception, to be raised in its place if the exception is kept and may be raised several times.

    Each `raise` of the kept exception would add frames to its traceback, which keeps all their variables alive.
    """
    copied = type(error).__new__(type(error), *error.args)
    copied.__dict__.update(error.__dict__)
    copied.__cause__ = error.__cause__
    return copied


def without_frames(error: E) -> E:
    """Remove the traceback of an exception and those of its causes, and return it, to be kept as a value.

    If a frame of the traceback refers to the exception, the two are a cycle, which keeps all variables of the frames
    alive, such as a request of 10 MiB.
    """
    left: BaseException | None = error
    while left is not None and left.__traceback__ is not None:
        left.__traceback__ = None
        left = left.__cause__ or left.__context__
    return error


def error_for(code: int, message: str = "") -> KafkaError:
    """The exception for an error code; for an unknown code, an `UnknownServerError` that names it.

    Raises:
        ValueError: the code is 0, which is not an error.
    """
    if code == 0:
        raise ValueError("error code 0 means success: there is no exception for it")
    kind = _CLASSES.get(code)
    if kind is None:
        return UnknownServerError(message or f"unknown error code {code}")
    return kind(message)


class AuthenticationError(KafkaError):
    """The base class of the errors of SASL and TLS, none of which is retriable."""

class SslAuthenticationError(AuthenticationError):
    """A TLS handshake failed: a certificate is not trusted, or one side speaks no TLS. It has no code of its own."""

class UnknownServerError(KafkaError):
    code = ErrorCode.UNKNOWN_SERVER_ERROR

class OffsetOutOfRangeError(KafkaError):
    code = ErrorCode.OFFSET_OUT_OF_RANGE

class CorruptMessageError(KafkaError):
    code = ErrorCode.CORRUPT_MESSAGE

class UnknownTopicOrPartitionError(KafkaError):
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

class InvalidFetchSizeError(KafkaError):
    code = ErrorCode.INVALID_FETCH_SIZE

class LeaderNotAvailableError(KafkaError):
    code = ErrorCode.LEADER_NOT_AVAILABLE

class NotLeaderOrFollowerError(KafkaError):
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER

class RequestTimedOutError(KafkaError):
    code = ErrorCode.REQUEST_TIMED_OUT

class BrokerNotAvailableError(KafkaError):
    code = ErrorCode.BROKER_NOT_AVAILABLE

class ReplicaNotAvailableError(KafkaError):
    code = ErrorCode.REPLICA_NOT_AVAILABLE

class MessageTooLargeError(KafkaError):
    code = ErrorCode.MESSAGE_TOO_LARGE

class StaleControllerEpochError(KafkaError):
    code = ErrorCode.STALE_CONTROLLER_EPOCH

class OffsetMetadataTooLargeError(KafkaError):
    code = ErrorCode.OFFSET_METADATA_TOO_LARGE

class NetworkError(KafkaError):
    code = ErrorCode.NETWORK_EXCEPTION

class CoordinatorLoadInProgressError(KafkaError):
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

class CoordinatorNotAvailableError(KafkaError):
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE

class NotCoordinatorError(KafkaError):
    code = ErrorCode.NOT_COORDINATOR

class InvalidTopicError(KafkaError):
    code = ErrorCode.INVALID_TOPIC_EXCEPTION

class RecordListTooLargeError(KafkaError):
    code = ErrorCode.RECORD_LIST_TOO_LARGE

class NotEnoughReplicasError(KafkaError):
    code = ErrorCode.NOT_ENOUGH_REPLICAS

class NotEnoughReplicasAfterAppendError(KafkaError):
    code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

class InvalidRequiredAcksError(KafkaError):
    code = ErrorCode.INVALID_REQUIRED_ACKS

class IllegalGenerationError(KafkaError):
    code = ErrorCode.ILLEGAL_GENERATION

class InconsistentGroupProtocolError(KafkaError):
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL

class InvalidGroupIdError(KafkaError):
    code = ErrorCode.INVALID_GROUP_ID

class UnknownMemberIdError(KafkaError):
    code = ErrorCode.UNKNOWN_MEMBER_ID

class InvalidSessionTimeoutError(KafkaError):
    code = ErrorCode.INVALID_SESSION_TIMEOUT

class RebalanceInProgressError(KafkaError):
    code = ErrorCode.REBALANCE_IN_PROGRESS

class InvalidCommitOffsetSizeError(KafkaError):
    code = ErrorCode.INVALID_COMMIT_OFFSET_SIZE

class TopicAuthorizationFailedError(KafkaError):
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED

class GroupAuthorizationFailedError(KafkaError):
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED

class ClusterAuthorizationFailedError(KafkaError):
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

class InvalidTimestampError(KafkaError):
    code = ErrorCode.INVALID_TIMESTAMP

class UnsupportedSaslMechanismError(AuthenticationError):
    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM

class IllegalSaslStateError(AuthenticationError):
    code = ErrorCode.ILLEGAL_SASL_STATE

class UnsupportedVersionError(KafkaError):
    code = ErrorCode.UNSUPPORTED_VERSION

class TopicAlreadyExistsError(KafkaError):
    code = ErrorCode.TOPIC_ALREADY_EXISTS

class InvalidPartitionsError(KafkaError):
    code = ErrorCode.INVALID_PARTITIONS

class InvalidReplicationFactorError(KafkaError):
    code = ErrorCode.INVALID_REPLICATION_FACTOR

class InvalidReplicaAssignmentError(KafkaError):
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT

class InvalidConfigError(KafkaError):
    code = ErrorCode.INVALID_CONFIG

class NotControllerError(KafkaError):
    code = ErrorCode.NOT_CONTROLLER

class InvalidRequestError(KafkaError):
    code = ErrorCode.INVALID_REQUEST

class UnsupportedForMessageFormatError(KafkaError):
    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT

class PolicyViolationError(KafkaError):
    code = ErrorCode.POLICY_VIOLATION

class OutOfOrderSequenceNumberError(KafkaError):
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

class DuplicateSequenceNumberError(KafkaError):
    code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER

class InvalidProducerEpochError(KafkaError):
    code = ErrorCode.INVALID_PRODUCER_EPOCH

class InvalidTxnStateError(KafkaError):
    code = ErrorCode.INVALID_TXN_STATE

class InvalidProducerIdMappingError(KafkaError):
    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING

class InvalidTransactionTimeoutError(KafkaError):
    code = ErrorCode.INVALID_TRANSACTION_TIMEOUT

class ConcurrentTransactionsError(KafkaError):
    code = ErrorCode.CONCURRENT_TRANSACTIONS

class TransactionCoordinatorFencedError(KafkaError):
    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED

class TransactionalIdAuthorizationFailedError(KafkaError):
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

class SecurityDisabledError(KafkaError):
    code = ErrorCode.SECURITY_DISABLED

class OperationNotAttemptedError(KafkaError):
    code = ErrorCode.OPERATION_NOT_ATTEMPTED

class KafkaStorageError(KafkaError):
    code = ErrorCode.KAFKA_STORAGE_ERROR

class LogDirNotFoundError(KafkaError):
    code = ErrorCode.LOG_DIR_NOT_FOUND

class SaslAuthenticationFailedError(AuthenticationError):
    code = ErrorCode.SASL_AUTHENTICATION_FAILED

class UnknownProducerIdError(KafkaError):
    code = ErrorCode.UNKNOWN_PRODUCER_ID

class ReassignmentInProgressError(KafkaError):
    code = ErrorCode.REASSIGNMENT_IN_PROGRESS

class DelegationTokenAuthDisabledError(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED

class DelegationTokenNotFoundError(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_NOT_FOUND

class DelegationTokenOwnerMismatchError(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH

class DelegationTokenRequestNotAllowedError(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED

class DelegationTokenAuthorizationFailedError(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED

class DelegationTokenExpiredError(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_EXPIRED

class InvalidPrincipalTypeError(KafkaError):
    code = ErrorCode.INVALID_PRINCIPAL_TYPE

class NonEmptyGroupError(KafkaError):
    code = ErrorCode.NON_EMPTY_GROUP

class GroupIdNotFoundError(KafkaError):
    code = ErrorCode.GROUP_ID_NOT_FOUND

class FetchSessionIdNotFoundError(KafkaError):
    code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND

class InvalidFetchSessionEpochError(KafkaError):
    code = ErrorCode.INVALID_FETCH_SESSION_EPOCH

class ListenerNotFoundError(KafkaError):
    code = ErrorCode.LISTENER_NOT_FOUND

class TopicDeletionDisabledError(KafkaError):
    code = ErrorCode.TOPIC_DELETION_DISABLED

class FencedLeaderEpochError(KafkaError):
    code = ErrorCode.FENCED_LEADER_EPOCH

class UnknownLeaderEpochError(KafkaError):
    code = ErrorCode.UNKNOWN_LEADER_EPOCH

class UnsupportedCompressionTypeError(KafkaError):
    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE

class StaleBrokerEpochError(KafkaError):
    code = ErrorCode.STALE_BROKER_EPOCH

class OffsetNotAvailableError(KafkaError):
    code = ErrorCode.OFFSET_NOT_AVAILABLE

class MemberIdRequiredError(KafkaError):
    code = ErrorCode.MEMBER_ID_REQUIRED

class PreferredLeaderNotAvailableError(KafkaError):
    code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE

class GroupMaxSizeReachedError(KafkaError):
    code = ErrorCode.GROUP_MAX_SIZE_REACHED

class FencedInstanceIdError(KafkaError):
    code = ErrorCode.FENCED_INSTANCE_ID

class EligibleLeadersNotAvailableError(KafkaError):
    code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE

class ElectionNotNeededError(KafkaError):
    code = ErrorCode.ELECTION_NOT_NEEDED

class NoReassignmentInProgressError(KafkaError):
    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS

class GroupSubscribedToTopicError(KafkaError):
    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC

class InvalidRecordError(KafkaError):
    code = ErrorCode.INVALID_RECORD

class UnstableOffsetCommitError(KafkaError):
    code = ErrorCode.UNSTABLE_OFFSET_COMMIT

class ThrottlingQuotaExceededError(KafkaError):
    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED

class ProducerFencedError(KafkaError):
    code = ErrorCode.PRODUCER_FENCED

class ResourceNotFoundError(KafkaError):
    code = ErrorCode.RESOURCE_NOT_FOUND

class DuplicateResourceError(KafkaError):
    code = ErrorCode.DUPLICATE_RESOURCE

class UnacceptableCredentialError(KafkaError):
    code = ErrorCode.UNACCEPTABLE_CREDENTIAL

class InconsistentVoterSetError(KafkaError):
    code = ErrorCode.INCONSISTENT_VOTER_SET

class InvalidUpdateVersionError(KafkaError):
    code = ErrorCode.INVALID_UPDATE_VERSION

class FeatureUpdateFailedError(KafkaError):
    code = ErrorCode.FEATURE_UPDATE_FAILED

class PrincipalDeserializationFailureError(KafkaError):
    code = ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE

class SnapshotNotFoundError(KafkaError):
    code = ErrorCode.SNAPSHOT_NOT_FOUND

class PositionOutOfRangeError(KafkaError):
    code = ErrorCode.POSITION_OUT_OF_RANGE

class UnknownTopicIdError(KafkaError):
    code = ErrorCode.UNKNOWN_TOPIC_ID

class DuplicateBrokerRegistrationError(KafkaError):
    code = ErrorCode.DUPLICATE_BROKER_REGISTRATION

class BrokerIdNotRegisteredError(KafkaError):
    code = ErrorCode.BROKER_ID_NOT_REGISTERED

class InconsistentTopicIdError(KafkaError):
    code = ErrorCode.INCONSISTENT_TOPIC_ID

class InconsistentClusterIdError(KafkaError):
    code = ErrorCode.INCONSISTENT_CLUSTER_ID

class TransactionalIdNotFoundError(KafkaError):
    code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

class FetchSessionTopicIdError(KafkaError):
    code = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR

class IneligibleReplicaError(KafkaError):
    code = ErrorCode.INELIGIBLE_REPLICA

class NewLeaderElectedError(KafkaError):
    code = ErrorCode.NEW_LEADER_ELECTED

class OffsetMovedToTieredStorageError(KafkaError):
    code = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE

class FencedMemberEpochError(KafkaError):
    code = ErrorCode.FENCED_MEMBER_EPOCH

class UnreleasedInstanceIdError(KafkaError):
    code = ErrorCode.UNRELEASED_INSTANCE_ID

class UnsupportedAssignorError(KafkaError):
    code = ErrorCode.UNSUPPORTED_ASSIGNOR

class StaleMemberEpochError(KafkaError):
    code = ErrorCode.STALE_MEMBER_EPOCH

class MismatchedEndpointTypeError(KafkaError):
    code = ErrorCode.MISMATCHED_ENDPOINT_TYPE

class UnsupportedEndpointTypeError(KafkaError):
    code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE

class UnknownControllerIdError(KafkaError):
    code = ErrorCode.UNKNOWN_CONTROLLER_ID

class UnknownSubscriptionIdError(KafkaError):
    code = ErrorCode.UNKNOWN_SUBSCRIPTION_ID

class TelemetryTooLargeError(KafkaError):
    code = ErrorCode.TELEMETRY_TOO_LARGE

class InvalidRegistrationError(KafkaError):
    code = ErrorCode.INVALID_REGISTRATION

class TransactionAbortableError(KafkaError):
    code = ErrorCode.TRANSACTION_ABORTABLE

class InvalidRecordStateError(KafkaError):
    code = ErrorCode.INVALID_RECORD_STATE

class ShareSessionNotFoundError(KafkaError):
    code = ErrorCode.SHARE_SESSION_NOT_FOUND

class InvalidShareSessionEpochError(KafkaError):
    code = ErrorCode.INVALID_SHARE_SESSION_EPOCH

class FencedStateEpochError(KafkaError):
    code = ErrorCode.FENCED_STATE_EPOCH

class InvalidVoterKeyError(KafkaError):
    code = ErrorCode.INVALID_VOTER_KEY

class DuplicateVoterError(KafkaError):
    code = ErrorCode.DUPLICATE_VOTER

class VoterNotFoundError(KafkaError):
    code = ErrorCode.VOTER_NOT_FOUND

class InvalidRegularExpressionError(KafkaError):
    code = ErrorCode.INVALID_REGULAR_EXPRESSION

class RebootstrapRequiredError(KafkaError):
    code = ErrorCode.REBOOTSTRAP_REQUIRED

class StreamsInvalidTopologyError(KafkaError):
    code = ErrorCode.STREAMS_INVALID_TOPOLOGY

class StreamsInvalidTopologyEpochError(KafkaError):
    code = ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH

class StreamsTopologyFencedError(KafkaError):
    code = ErrorCode.STREAMS_TOPOLOGY_FENCED

class ShareSessionLimitReachedError(KafkaError):
    code = ErrorCode.SHARE_SESSION_LIMIT_REACHED


_KINDS = (*KafkaError.__subclasses__(), *AuthenticationError.__subclasses__())
_CLASSES: dict[int, type[KafkaError]] = {kind.code: kind for kind in _KINDS if "code" in vars(kind)}
