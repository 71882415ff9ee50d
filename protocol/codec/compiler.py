"""Compiles the decoder and encoder of a message version and the `__init__` of a message class on first use.

To see the generated source:

    print(decoder_source(FetchRequest, 12).text)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minikafka.protocol.codec.compile_decoder import decoder_source
from minikafka.protocol.codec.compile_encoder import encoder_source
from minikafka.protocol.codec.generated_source import Source
from minikafka.protocol.codec.schema import IMPLIED, declaration_of, fields_of
from minikafka.protocol.codec.varint import Buffer
from minikafka.protocol.message_errors import UnsupportedVersion

__all__ = ["Buffer", "Decoder", "Encoder", "decoder_for", "encoder_for", "initializer_for"]

Decoder = Callable[..., tuple[Any, int]]
"""Decodes a message: takes data, position and, optionally, the most elements that all arrays may have together."""
Encoder = Callable[..., list[Any]]
"""Encodes a message: takes it and, optionally, the most elements that all arrays may have together."""


def decoder_for(cls: Any, version: int) -> Decoder:
    """The function behind `message.decode_from`, compiled once per version.

    Raises:
        UnsupportedVersion: the message has no such version.
    """
    _check_version(cls, version)
    decoder = cls.__decoders__.get(version)
    if decoder is None:
        source = decoder_source(cls, version)
        source.give("decode_view", _decoder_of_views(cls, version))
        decoder = cls.__decoders__[version] = source.compile("decode")
    return decoder


def _decoder_of_views(cls: Any, version: int) -> Decoder:
    """A decoder for data in a `memoryview`. Such data is rare, so the decoder is compiled on first use."""
    compiled: list[Decoder] = []

    def decode_view(data: Buffer, position: int, left: int) -> tuple[Any, int]:
        if not compiled:
            compiled.append(decoder_source(cls, version, of_view=True).compile("decode"))
        return compiled[0](data, position, left)

    return decode_view


def encoder_for(cls: Any, version: int) -> Encoder:
    """The function behind `message.encode_parts`, compiled once per version.

    Raises:
        UnsupportedVersion: the message has no such version.
    """
    _check_version(cls, version)
    encoder = cls.__encoders__.get(version)
    if encoder is None:
        encoder = cls.__encoders__[version] = encoder_source(cls, version).compile("encode")
    return encoder


def initializer_for(cls: Any) -> Callable[..., None]:
    """An `__init__` that takes every field as a keyword argument."""
    source = Source(f"{cls.__name__}.__init__")
    source.give("IMPLIED", IMPLIED)
    arguments: list[str] = []
    for field in fields_of(cls):
        if field.required:
            arguments.append(field.name)
        elif field.default is IMPLIED:
            arguments.append(f"{field.name}=IMPLIED")
        else:
            arguments.append(f"{field.name}={field.default!r}")
    with source.block(f"def __init__(self{', *, ' if arguments else ''}{', '.join(arguments)}):"):
        source.line("pass")
        for field in fields_of(cls):
            value = field.name
            if field.default is IMPLIED and not field.required:
                made = "[]" if field.is_array else f"{source.give_class(field.struct)}()"
                value = f"{made} if {field.name} is IMPLIED else {field.name}"
            source.line(f"self.{field.name} = {value}")
    return source.compile("__init__")


def _check_version(cls: Any, version: int) -> None:
    declaration = declaration_of(cls)
    if version not in declaration.versions:
        raise UnsupportedVersion(
            f"{declaration.name} has versions {declaration.versions}, not {version}"
        )


