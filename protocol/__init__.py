"""What goes over the wire, and nothing else: no sockets, no files, no clocks, no other room of ours.

A message is a class, and its annotations say all there is to say about it:

    @message(key=12, versions="0-4", flexible="4+")
    class HeartbeatRequest:
        group_id: string = ""
        generation_id: int32 = 0
        member_id: string = ""
        group_instance_id: string | None = field(default=None, versions="3+")

One class serves every version; what a version lacks has its default after decoding, so handlers hardly ever see a
version. `decode(HeartbeatRequest, 4, data)` and `encode(request, 4)` are compiled for that class and version when they
are first called: straight-line Python in which neighbours of fixed size are one `struct` call.

How a request travels. A client's `headers.encode_request` puts the size, the API's key and version, a correlation id
and the client's name in front of the message. The node cuts the stream into frames (`frame`), reads the header
(`headers.parse_request_header`), finds the classes of the API (`apis.APIS`) and decodes the rest of the frame; record
batches stay a `memoryview` of it. The answer leaves as `headers.response_parts`: bytes, and between them the slices
of log files that were put into the message unread. The client matches it by its correlation id
(`headers.decode_response`).

    types.py message.py                 how messages are declared, decoded and encoded
    schema.py                           what a declaration says, resolved: `fields_of(cls)`
    compiler.py compile_decoder.py      from declarations to source to functions; `decoder_source(cls, version).text`
    compile_encoder.py source.py        shows what runs
    varint.py faults.py                 the numbers of flexible versions; what can be wrong with a message
    messages/<api>.py                   one module per API, request and response together, its history on top
    frame.py headers.py apis.py         what stands in front of a message; which APIs there are
    errors.py error_codes.py names.py   Kafka's errors as codes and as exceptions; names of topics, ids as text
    settings.py settings_*.py           every setting of Kafka's, declared once
    records/                            record batches: what messages carry unread

Nothing a peer claims is believed. A length or count is held against the bytes that are left before anything is
allocated for it, and whatever is wrong with a message is one exception, `MalformedMessage`.

Caveats:
    * Tagged fields that nobody here knows are skipped and not kept: decoding and encoding again loses them.
    * Text that is not UTF-8 is refused; Java would read replacement characters.
    * A tagged field has to be as long as it claims; Java ignores the claim for tags that it knows.
    * Counts are bounded by the bytes at hand, yet an object takes more room than the few bytes that may stand for it:
      a frame of hostile structs can grow about forty-fold, so it is the limit on frames that bounds memory.
    * An id (`uuid`) is 16 raw bytes and is not checked for its length when encoded.
"""
