"""The Kafka wire protocol: messages, record batches, errors and settings. No sockets, files or clocks.

A message is a class, and its annotations are its schema:

    @message(key=12, versions="0-4", flexible="4+")
    class HeartbeatRequest:
        group_id: string = ""
        generation_id: int32 = 0
        member_id: string = ""
        group_instance_id: string | None = field(default=None, versions="3+")

One class serves every version. A field that the version lacks has its default after decoding, so handlers rarely
look at the version. `decode(HeartbeatRequest, 4, data)` and `encode(request, 4)` are compiled to straight-line Python
for that class and version on first use.

The path of a request: the client's `headers.encode_request` writes the size, API key, version, correlation id and
client id in front of the message. The node cuts the stream into frames (`frame`), reads the header
(`headers.parse_request_header`), looks up the classes of the API (`apis.APIS`) and decodes the rest of the frame;
record batches remain a `memoryview` of it. The response is encoded by `headers.response_parts` as bytes and, between
them, the slices of log files that the message contains. The client matches it by its correlation id
(`headers.decode_response`).

    elements.py          how many elements the arrays of a message have
    message.py           `@message`, `@struct`, `field`, `encode`, `decode`
    types.py             the primitive types: `int32`, `string`, `uuid`, `records`, …
    message_errors.py    `MalformedMessage` and the other codec exceptions
    codec/               generates and compiles the encoder and decoder of a message version
    messages/<api>.py    one module per API: request, response, and what each version added
    apis.py              `APIS`: the APIs by key, their classes and versions
    frame.py             splits a byte stream into length-prefixed frames
    headers.py           request and response headers
    error_codes.py       `ErrorCode`: Kafka's error codes
    errors.py            the same errors as exceptions, with Kafka's messages
    names.py             validation of topic names; uuids as text
    records/             record batches: format v2, compression, control batches
    sasl/                SASL mechanisms: messages, keys and tokens, for clients and brokers
    settings/            every Kafka setting, declared once

No length or count from a peer is trusted: it is checked against the remaining bytes before anything is allocated.
Every fault in a message raises one exception, `MalformedMessage`.

Caveats:
    * Counts are bounded by the remaining bytes, but an object takes more memory than its bytes on the wire: a frame of
      hostile structs can grow about forty-fold. Memory is bounded by the limit on the frame size.
    * The length of a `uuid` (16 raw bytes) is not checked when it is encoded.
    * The caveats of the codec are in `codec/__init__.py`, those of record batches in `records/__init__.py`.
"""
