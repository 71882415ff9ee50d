"""The keyword arguments of Producer, Consumer and Admin for type checkers (`**options: Unpack[ProducerArguments]`).

Made by `make pages` from the dataclasses in `options.py` and `security/security_options.py`, where an option's default,
bounds and meaning are declared; a test holds them equal. `bootstrap_servers` is missing: the constructors declare
it themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from minikafka.client.assignor import Assignor
from minikafka.client.interceptors import ConsumerInterceptor, ProducerInterceptor
from minikafka.client.option_checks import Deserializer, SecurityProtocol, Serializer, TokenProvider
from minikafka.client.options import (
    Acks,
    AssignorName,
    BootstrapServers,
    CompressionType,
    GroupProtocol,
    IsolationLevel,
    OffsetReset,
    Partitioner,
    RecoveryStrategy,
    Start,
    StopAt,
)
from minikafka.client.security.sasl_login import SaslMechanism
from minikafka.client.security.security_options import EndpointIdentification, StoreType, TlsVersion


class ClientArguments(TypedDict, total=False):
    """Options of every client."""

    security_protocol: SecurityProtocol
    """How brokers are spoken to: in plain text or over TLS (SSL), without a login or with one by SASL. Default:
    "PLAINTEXT"; Kafka's `security.protocol`.
    """

    ssl_truststore_location: str | None
    """The file with the certificates of the authorities that are trusted; None: those of the system. Default: None;
    Kafka's `ssl.truststore.location`.
    """

    ssl_truststore_type: StoreType
    """The format of `ssl_truststore_location`; JKS and PKCS12 are told apart by themselves. Default: "JKS"; Kafka's
    `ssl.truststore.type`.
    """

    ssl_truststore_password: str | None
    """The password of `ssl_truststore_location`. Default: None; Kafka's `ssl.truststore.password`."""

    ssl_truststore_certificates: str | None
    """Trusted certificates as PEM text, instead of a file; needs the type PEM. Default: None; Kafka's
    `ssl.truststore.certificates`.
    """

    ssl_ca_location: str | None
    """A PEM file with trusted certificates: librdkafka's name for a trust store of type PEM. Default: None; not an
    option of Kafka.
    """

    ssl_keystore_location: str | None
    """The file with the client's key and certificates, for brokers that ask for them (mutual TLS). Default: None;
    Kafka's `ssl.keystore.location`.
    """

    ssl_keystore_type: StoreType
    """The format of `ssl_keystore_location`; JKS and PKCS12 are told apart by themselves. Default: "JKS"; Kafka's
    `ssl.keystore.type`.
    """

    ssl_keystore_password: str | None
    """The password of `ssl_keystore_location`. Default: None; Kafka's `ssl.keystore.password`."""

    ssl_keystore_certificate_chain: str | None
    """The client's certificates as PEM text, instead of a file; needs the type PEM. Default: None; Kafka's
    `ssl.keystore.certificate.chain`.
    """

    ssl_keystore_key: str | None
    """The client's private key as PEM text (PKCS#8), with `ssl_keystore_certificate_chain`. Default: None; Kafka's
    `ssl.keystore.key`.
    """

    ssl_key_password: str | None
    """The password of the client's private key, if the key is encrypted. Default: None; Kafka's `ssl.key.password`."""

    ssl_certificate_location: str | None
    """A PEM file with the client's certificates: librdkafka's name, with `ssl_key_location`. Default: None; not an
    option of Kafka.
    """

    ssl_key_location: str | None
    """A PEM file with the client's private key: librdkafka's name, with `ssl_certificate_location`. Default: None;
    not an option of Kafka.
    """

    ssl_endpoint_identification_algorithm: EndpointIdentification
    """Whether the name of a broker must be in its certificate ("https"), or not ("", "none"). Default: "https";
    Kafka's `ssl.endpoint.identification.algorithm`.
    """

    ssl_enabled_protocols: Sequence[TlsVersion]
    """The versions of TLS that are allowed. Default: ("TLSv1.2", "TLSv1.3"); Kafka's `ssl.enabled.protocols`."""

    ssl_cipher_suites: Sequence[str]
    """The cipher suites that are allowed, by Java's or OpenSSL's names; if empty, those of OpenSSL. Default: ();
    Kafka's `ssl.cipher.suites`.
    """

    sasl_mechanism: SaslMechanism | None
    """How the client logs in, if `security_protocol` begins with SASL_; None: as `sasl_jaas_config` says. Default:
    None; Kafka's `sasl.mechanism`.
    """

    sasl_mechanisms: SaslMechanism | None
    """The same as `sasl_mechanism`: librdkafka's name, which takes one mechanism too. Default: None; not an option
    of Kafka.
    """

    sasl_username: str | None
    """The user, for PLAIN and SCRAM: librdkafka's name for what Java's client has in `sasl.jaas.config`. Default:
    None; not an option of Kafka.
    """

    sasl_password: str | None
    """The password of `sasl_username`. Default: None; not an option of Kafka."""

    sasl_jaas_config: str | None
    """User and password, or the claims of an unsecured token, as Java's client takes them: a login module and its
    options. Default: None; Kafka's `sasl.jaas.config`.
    """

    sasl_oauth_token_provider: TokenProvider | None
    """Returns a token, for OAUTHBEARER: a function without arguments, async or blocking (then it runs in a thread).
    Default: None; Kafka's `sasl.login.callback.handler.class`.
    """

    sasl_oauthbearer_token_endpoint_url: str | None
    """A URL such as file:///etc/kafka/token: the file with the token, for OAUTHBEARER. It is read for each login.
    Default: None; Kafka's `sasl.oauthbearer.token.endpoint.url`.
    """

    client_id: str
    """The name under which brokers log and limit this client. Default: "minikafka"; Kafka's `client.id`."""

    request_timeout_ms: int
    """How long a request waits for its response, in ms, before its connection is closed and it is repeated.
    Default: 30_000; Kafka's `request.timeout.ms`.
    """

    default_api_timeout_ms: int
    """How long a method repeats its requests after retriable errors, in ms. Default: 60_000; Kafka's
    `default.api.timeout.ms`.
    """

    retry_backoff_ms: int
    """The pause before the first repetition, in ms; it doubles with each. Default: 100; Kafka's `retry.backoff.ms`."""

    retry_backoff_max_ms: int
    """The longest pause before a repetition, in ms. Default: 1000; Kafka's `retry.backoff.max.ms`."""

    reconnect_backoff_ms: int
    """The pause before an address is tried again, in ms; it doubles with each attempt. Default: 50; Kafka's
    `reconnect.backoff.ms`.
    """

    reconnect_backoff_max_ms: int
    """The longest pause before an address is tried again, in ms. Default: 1000; Kafka's `reconnect.backoff.max.ms`."""

    socket_connection_setup_timeout_ms: int
    """How long an attempt to connect may take, in ms. Default: 10_000; Kafka's
    `socket.connection.setup.timeout.ms`.
    """

    metadata_max_age_ms: int
    """How old metadata may be before they are requested again, in ms. Default: 300_000; Kafka's
    `metadata.max.age.ms`.
    """

    metadata_recovery_strategy: RecoveryStrategy
    """What to do when no known broker can be reached: begin again with `bootstrap_servers`, or not. Default:
    "rebootstrap"; Kafka's `metadata.recovery.strategy`.
    """

    metadata_recovery_rebootstrap_trigger_ms: int
    """How long brokers may give no metadata before the client begins again, in ms. Default: 300_000; Kafka's
    `metadata.recovery.rebootstrap.trigger.ms`.
    """

    allow_auto_create_topics: bool
    """Whether brokers may create a topic that is asked for and does not exist. Default: True; Kafka's
    `allow.auto.create.topics`.
    """


class AdminArguments(ClientArguments, total=False):
    """Options of an Admin."""

    bootstrap_controllers: BootstrapServers | None
    """Controllers to ask instead of brokers (KIP-919), without `bootstrap_servers`: for the quorum, ACLs, features,
    and settings of controllers. They serve few other methods. Default: None; Kafka's `bootstrap.controllers`.
    """


class ProducerArguments(ClientArguments, total=False):
    """Options of a Producer."""

    acks: Acks
    """Which replicas must have a record before it counts as delivered: all in-sync ones (-1), the leader (1), or
    none (0). Default: "all"; Kafka's `acks`.
    """

    linger_ms: int
    """How long a batch waits for more records before it is sent, in ms. Default: 5; Kafka's `linger.ms`."""

    batch_size: int
    """The size of a batch in bytes, not compressed, at which it is sent; a larger record has a batch of its own.
    Default: 262_144; Kafka's `batch.size`.
    """

    compression_type: CompressionType
    """The codec of batches. Default: "none"; Kafka's `compression.type`."""

    compression_level: int | None
    """The level of the codec, in the range of Kafka's option: 1 to 9 or -1 for gzip, 1 to 17 for lz4, -131072 to 22
    for zstd, none for snappy; None is its default, which is also Kafka's. Default: None; Kafka's
    `compression.gzip.level, compression.lz4.level, compression.zstd.level`.
    """

    max_request_size: int
    """The largest record, and the largest request of several batches, in bytes. Default: 1_048_576; Kafka's
    `max.request.size`.
    """

    buffer_memory: int
    """How many bytes of records wait for delivery before `send` waits; a larger record is refused. Default:
    33_554_432; Kafka's `buffer.memory`.
    """

    max_block_ms: int
    """How long `send` waits for a topic or for memory, in ms; `commit` and `abort` wait as long. Default: 60_000;
    Kafka's `max.block.ms`.
    """

    metadata_max_idle_ms: int
    """How long a topic that no record is sent to stays among those whose metadata are requested, in ms. Default:
    300_000; Kafka's `metadata.max.idle.ms`.
    """

    delivery_timeout_ms: int
    """How long the delivery of a record may take, in ms, from `send` on. Default: 120_000; Kafka's
    `delivery.timeout.ms`.
    """

    retries: int
    """The most times that a batch is sent again, as long as `delivery_timeout_ms` allows. Default: 2_147_483_647;
    Kafka's `retries`.
    """

    enable_idempotence: bool
    """Whether brokers recognize batches that were sent twice; other `acks` than all, no `retries` or more than 5
    requests in flight turn it off. Default: True; Kafka's `enable.idempotence`.
    """

    max_in_flight_requests_per_connection: int
    """How many Produce requests to a broker may wait for their responses. Default: 5; Kafka's
    `max.in.flight.requests.per.connection`.
    """

    transactional_id: str | None
    """The name under which the producer writes in transactions; of two producers with it, the older one is fenced.
    Default: None; Kafka's `transactional.id`.
    """

    transaction_timeout_ms: int
    """How long a transaction may be open, in ms, before its coordinator aborts it. Default: 60_000; Kafka's
    `transaction.timeout.ms`.
    """

    partitioner: Partitioner | None
    """A function `(topic, key, value, partition count) -> partition`; None is that of the JVM client. Default:
    None; Kafka's `partitioner.class`.
    """

    key_serializer: Serializer | None
    """Makes bytes of a key: a function of it, or an object with `serialize(topic, headers, data)`. Default: None;
    Kafka's `key.serializer`.
    """

    value_serializer: Serializer | None
    """Makes bytes of a value: a function of it, or an object with `serialize(topic, headers, data)`. Default: None;
    Kafka's `value.serializer`.
    """

    interceptors: Sequence[ProducerInterceptor]
    """Objects that see each record before it is sent and when it is acknowledged, in order. Default: (); Kafka's
    `interceptor.classes`.
    """

    start: Start
    """Whether entering the block waits for a broker; with "lazy" the first `send` or `begin` does, for
    `max_block_ms`. Default: "eager"; not an option of Kafka.
    """


class ConsumerArguments(ClientArguments, total=False):
    """Options of a Consumer."""

    group_id: str | None
    """The group whose members share the partitions, and for which offsets are committed. Default: None; Kafka's
    `group.id`.
    """

    group_instance_id: str | None
    """The name of a static member, which keeps its partitions while it restarts. Default: None; Kafka's
    `group.instance.id`.
    """

    group_protocol: GroupProtocol
    """The protocol of the group: classic, or the consumer protocol of KIP-848. Default: "classic"; Kafka's
    `group.protocol`.
    """

    group_remote_assignor: str | None
    """The assignor of the coordinator, under the consumer protocol; None leaves the choice to it. Default: None;
    Kafka's `group.remote.assignor`.
    """

    client_rack: str | None
    """Where the client is: it reads from a replica in the same rack, if brokers have a replica selector. Default:
    None; Kafka's `client.rack`.
    """

    auto_offset_reset: OffsetReset
    """Where to begin without a committed offset, or where it no longer exists; "none" raises an error. Default:
    "latest"; Kafka's `auto.offset.reset`.
    """

    enable_auto_commit: bool
    """Whether the consumer commits the positions after processed records by itself. Default: True; Kafka's
    `enable.auto.commit`.
    """

    auto_commit_interval_ms: int
    """The interval between two automatic commits, in ms. Default: 5000; Kafka's `auto.commit.interval.ms`."""

    isolation_level: IsolationLevel
    """Whether records of open and aborted transactions are returned. Default: "read_uncommitted"; Kafka's
    `isolation.level`.
    """

    fetch_min_bytes: int
    """How many bytes a broker waits for, before it answers a request for records. Default: 1; Kafka's
    `fetch.min.bytes`.
    """

    fetch_max_bytes: int
    """The largest response with records, in bytes; a first batch that is larger is returned all the same. Default:
    52_428_800; Kafka's `fetch.max.bytes`.
    """

    fetch_max_wait_ms: int
    """How long a broker waits for `fetch_min_bytes`, in ms. Default: 500; Kafka's `fetch.max.wait.ms`."""

    max_partition_fetch_bytes: int
    """The largest part of a response for one partition, in bytes. Default: 1_048_576; Kafka's
    `max.partition.fetch.bytes`.
    """

    max_poll_records: int
    """The largest number of records that one `poll` returns. Default: 500; Kafka's `max.poll.records`."""

    max_poll_interval_ms: int
    """How long an application may process records before its partitions are given to others, in ms. Default:
    300_000; Kafka's `max.poll.interval.ms`.
    """

    session_timeout_ms: int
    """How long the coordinator waits for a heartbeat, in ms, before it removes the member. Default: 45_000; Kafka's
    `session.timeout.ms`.
    """

    heartbeat_interval_ms: int
    """How often the member sends a heartbeat, in ms. Default: 3000; Kafka's `heartbeat.interval.ms`."""

    partition_assignment_strategy: Sequence[AssignorName | Assignor]
    """The assignors that the member supports, the preferred one first: names, or objects of `Assignor`. Default:
    ("range", "cooperative-sticky"); Kafka's `partition.assignment.strategy`.
    """

    check_crcs: bool
    """Whether the checksums of batches are checked. Default: True; Kafka's `check.crcs`."""

    exclude_internal_topics: bool
    """Whether a pattern matches no internal topics. Default: True; Kafka's `exclude.internal.topics`."""

    stop_at: StopAt | None
    """"end": iterations end where the partitions ended when they were assigned; None: they never end. Default:
    None; not an option of Kafka.
    """

    key_deserializer: Deserializer | None
    """Makes an object of a key: a function of its bytes, or an object with `deserialize(topic, headers, data)`.
    Default: None; Kafka's `key.deserializer`.
    """

    value_deserializer: Deserializer | None
    """Makes an object of a value: a function of its bytes, or an object with `deserialize(topic, headers, data)`.
    Default: None; Kafka's `value.deserializer`.
    """

    interceptors: Sequence[ConsumerInterceptor]
    """Objects that see records before the application does, and commits, in order. Default: (); Kafka's
    `interceptor.classes`.
    """
