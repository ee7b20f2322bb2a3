"""Codecs by message class and version, compiled when they are first wanted and kept.

    decode, encode = decoder(FetchRequest, 17), encoder(FetchRequest, 17)
    request, end = decode(frame, position)
    body = encode(request)

The buffer given to a decoder ends where the message's frame ends: lengths and counts are checked against the
bytes that are left in it. `source` shows the code that runs.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar, cast

from protocol.codec import reading, writing
from protocol.codec.decoding import decoder_source, holds_records
from protocol.codec.encoding import encoder_source
from protocol.codec.lines import SourceLines
from protocol.codec.message import Message
from protocol.codec.reading import Buffer
from protocol.errors import EncodeError, ProtocolError
from protocol.primitives import Records

__all__ = ["Buffer", "decode", "decoder", "encode", "encoder", "piece_encoder", "source"]

M = TypeVar("M", bound=Message)

MALFORMED: Final = (struct.error, IndexError, UnicodeDecodeError)
UNENCODABLE: Final = (struct.error, TypeError, AttributeError, UnicodeEncodeError)


def decoder(cls: type[M], version: int) -> Callable[[Buffer, int], tuple[M, int]]:
    """From (buffer, position) to (message, position after it); a ProtocolError for what is no such message.

    Record bytes of the message are views into the buffer; everything else is copied.
    """
    return cast("Callable[[Buffer, int], tuple[M, int]]", _decoder(cls, version))


def encoder(cls: type[M], version: int) -> Callable[[M], bytes]:
    """From a message to its bytes; an EncodeError for a value that the version cannot carry.

    Records are joined in, so they must be in memory: for file slices there is `piece_encoder`.
    """
    if not holds_records(cls, version):
        return cast("Callable[[M], bytes]", _encoder(cls, version))
    return _joining_encoder(cls, version)


def piece_encoder(cls: type[M], version: int) -> Callable[[M], list[Records]]:
    """From a message to its bytes in order as pieces: encoded bytes, and the records as they were given."""
    if holds_records(cls, version):
        return cast("Callable[[M], list[Records]]", _encoder(cls, version))
    return _one_piece_encoder(cls, version)


def decode(cls: type[M], version: int, buffer: Buffer) -> M:
    """The one message that fills the buffer."""
    message, end = decoder(cls, version)(buffer, 0)
    if end != len(buffer):
        raise ProtocolError(f"{len(buffer) - end} bytes are left after {cls.__name__} {version}")
    return message


def encode(message: Message, version: int) -> bytes:
    return encoder(type(message), version)(message)


def source(cls: type[Message], version: int) -> str:
    """The Python that decodes and encodes the message at this version."""
    return decoder_source(cls, version, {}).text() + "\n\n" + encoder_source(cls, version, {}).text()


@cache
def _decoder(cls: type[Message], version: int) -> Callable[[Buffer, int], tuple[Message, int]]:
    constants: dict[str, Any] = {
        name: getattr(reading, name) for name in reading.__all__ if name not in ("Buffer", "READ_SHORT_BYTES")
    }
    constants |= {
        "MALFORMED": MALFORMED,
        "ProtocolError": ProtocolError,
        "read_short": reading.READ_SHORT_BYTES,
        "unpack_from": struct.unpack_from,
    }
    return _build(cls, version, decoder_source, "decode", constants)


@cache
def _encoder(cls: type[Message], version: int) -> Callable[[Message], Any]:
    constants: dict[str, Any] = {name: getattr(writing, name) for name in writing.__all__}
    constants |= {"UNENCODABLE": UNENCODABLE, "EncodeError": EncodeError}
    return _build(cls, version, encoder_source, "encode", constants)


def _build(
    cls: type[Message],
    version: int,
    make: Callable[[type[Message], int, dict[str, Any]], SourceLines],
    function: str,
    constants: dict[str, Any],
) -> Callable[..., Any]:
    if not cls.declaration.versions.covers(version):
        raise ProtocolError(f"{cls.__name__} has no version {version}, only {cls.declaration.versions}")
    lines = make(cls, version, constants)
    return cast("Callable[..., Any]", lines.build(function, f"<{function} {cls.__name__} {version}>"))


@cache
def _joining_encoder(cls: type[M], version: int) -> Callable[[M], bytes]:
    pieces_of = _encoder(cls, version)

    def encode_joined(message: M) -> bytes:
        try:
            return b"".join(pieces_of(message))
        except TypeError as error:
            raise EncodeError(f"{cls.__name__} {version} holds records that are not in memory") from error

    return encode_joined


@cache
def _one_piece_encoder(cls: type[M], version: int) -> Callable[[M], list[Records]]:
    encode_whole = _encoder(cls, version)
    return lambda message: [encode_whole(message)]
