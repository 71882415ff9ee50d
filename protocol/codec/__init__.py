"""The compiler behind `message.encode` and `message.decode`: one function per message class and version.

The version is known when the code is generated, so the code has no `if version`: adjacent fields of fixed size are
one `struct` call, nested structs are inlined, and fields that the version lacks are constants.

On the first `decode(cls, version, …)`, `compiler.decoder_for` asks `compile_decoder` for the source text of the
function, compiles it and stores it in `cls.__decoders__`; later calls use it directly. To see the generated source:

    print(decoder_source(FetchRequest, 12).text)

    schema.py               a class's declaration, resolved: `Versions`, `Field`, `fields_of(cls)`
    compiler.py             `decoder_for`, `encoder_for`, `initializer_for`: generate, compile and cache a function
    compile_decoder.py      the source of a decoder
    compile_encoder.py      the source of an encoder
    generated_source.py     `Source`: lines, indentation, and the objects that the generated code refers to
    varint.py               unsigned varints and tagged fields (KIP-482)

Caveats:
    * Unknown tagged fields are skipped and not kept: decoding and encoding again loses them.
    * Bytes of strings that are not valid UTF-8 become replacement characters, as in Java: encoding the string again
      gives other bytes.
    * A tagged field must be as long as its declared length; Java ignores the length of known tags.
"""
