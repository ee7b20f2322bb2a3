"""Codecs by message class and version, compiled when they are first wanted and kept.

    decode, encode = decoder(FetchRequest, 17), encoder(FetchRequest, 17)
    request, end = decode(frame, position)
    body = encode(request)

What is long has codecs that go step by step: `stepping_decoder`, and for responses `elements_encoder` with
`around_encoder`.

The buffer given to a decoder ends where the message's frame ends: lengths and counts are checked against the
bytes that are left in it. `source` shows the code that runs.
"""

import struct
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cache, partial
from typing import Any, Final, TypeVar, cast

from protocol.codec import budget, reading, writing
from protocol.codec.decoding import decoder_source, holds_records, stepping_decoder_source
from protocol.codec.encoding import elements_encoder_source, encoder_source, frame_encoder_source
from protocol.codec.lines import SourceLines
from protocol.codec.message import Message
from protocol.codec.reading import Buffer
from protocol.errors import EncodeError, ProtocolError
from protocol.primitives import Records

__all__ = [
    "Buffer",
    "around_encoder",
    "decode",
    "decoder",
    "elements_encoder",
    "encode",
    "encoder",
    "piece_encoder",
    "source",
    "stepping_decoder",
]

M = TypeVar("M", bound=Message)

MALFORMED: Final = (struct.error, IndexError)
UNENCODABLE: Final = (struct.error, TypeError, AttributeError, UnicodeEncodeError)


def decoder(cls: type[M], version: int) -> Callable[[Buffer, int], tuple[M, int]]:
    """A function from (buffer, position) to (message, position after it). It raises ProtocolError for other
    bytes.

    Record bytes of the message are views into the buffer; everything else is copied.
    """
    return cast("Callable[[Buffer, int], tuple[M, int]]", _decoder(cls, version))


def stepping_decoder(
    cls: type[M], version: int
) -> Callable[[Buffer, int, int], Generator[None, None, tuple[M, int]]]:
    """Does as `decoder`, but is a generator that yields between elements and returns message and position. It
    takes (buffer, position, number of bytes of memory that the arrays may take) and refuses more before they
    exist."""
    return cast("Callable[..., Generator[None, None, tuple[M, int]]]", _stepping_decoder(cls, version))


def elements_encoder(
    cls: type[Message], version: int, name: str
) -> Callable[[Sequence[Any], list[bytes]], Iterator[None]]:
    """Appends the bytes of elements of the message's array `name` to a list, and yields now and then."""
    return cast("Callable[..., Iterator[None]]", _part_encoder(cls, version, name, elements=True))


def around_encoder(cls: type[M], version: int, name: str) -> Callable[[M, int], tuple[bytes, bytes]]:
    """A function from (message, count) to the bytes before and behind the elements of its array `name`."""
    return cast("Callable[..., tuple[bytes, bytes]]", _part_encoder(cls, version, name, elements=False))


def encoder(cls: type[M], version: int) -> Callable[[M], bytes]:
    """A function from a message to its bytes. It raises EncodeError for a value that the version cannot
    carry.

    Records are joined in, so they must be in memory: for file slices there is `piece_encoder`.
    """
    if not holds_records(cls, version):
        return cast("Callable[[M], bytes]", _encoder(cls, version))
    return _joining_encoder(cls, version)


def piece_encoder(cls: type[M], version: int) -> Callable[[M], list[Records]]:
    """A function from a message to its pieces, in order: encoded bytes, and the records as they were
    given."""
    if holds_records(cls, version):
        return cast("Callable[[M], list[Records]]", _encoder(cls, version))
    return _one_piece_encoder(cls, version)


def decode(cls: type[M], version: int, buffer: Buffer) -> M:
    """Decodes a message that fills the whole buffer. Raises ProtocolError if bytes are left."""
    message, end = decoder(cls, version)(buffer, 0)
    if end != len(buffer):
        raise ProtocolError(f"{len(buffer) - end} bytes are left after {cls.__name__} {version}")
    return message


def encode(message: Message, version: int) -> bytes:
    return encoder(type(message), version)(message)


def source(cls: type[Message], version: int) -> str:
    """The generated Python source that decodes and encodes the message at this version."""
    return decoder_source(cls, version, {}).text() + "\n\n" + encoder_source(cls, version, {}).text()


@cache
def _decoder(
    cls: type[Message], version: int, lenient: bool = False
) -> Callable[[Buffer, int], tuple[Message, int]]:
    """The decoder of a message.

    lenient: the decoder that takes over when a string turns out not to be valid UTF-8.
    """
    constants = _decoder_constants()
    if not lenient:
        constants["decode_leniently"] = lambda buffer, at: _decoder(cls, version, lenient=True)(buffer, at)
    return _build(cls, version, partial(decoder_source, lenient=lenient), "decode", constants)


@cache
def _stepping_decoder(cls: type[Message], version: int) -> Callable[..., Any]:
    constants = _decoder_constants() | {"over_budget": budget.over_budget}
    return _build(cls, version, stepping_decoder_source, "decode_in_steps", constants)


def _decoder_constants() -> dict[str, Any]:
    constants: dict[str, Any] = {
        name: getattr(reading, name) for name in reading.__all__ if name not in ("Buffer", "READ_SHORT_BYTES")
    }
    return constants | {
        "MALFORMED": MALFORMED,
        "ProtocolError": ProtocolError,
        "read_short": reading.READ_SHORT_BYTES,
        "unpack_from": struct.unpack_from,
    }


@cache
def _part_encoder(cls: type[Message], version: int, name: str, *, elements: bool) -> Callable[..., Any]:
    make = elements_encoder_source if elements else frame_encoder_source

    def lines(cls: type[Message], version: int, constants: dict[str, Any]) -> SourceLines:
        return make(cls, version, name, constants)

    function = "encode_elements" if elements else "encode_around"
    return _build(cls, version, lines, function, _encoder_constants())


@cache
def _encoder(cls: type[Message], version: int) -> Callable[[Message], Any]:
    return _build(cls, version, encoder_source, "encode", _encoder_constants())


def _encoder_constants() -> dict[str, Any]:
    constants: dict[str, Any] = {name: getattr(writing, name) for name in writing.__all__}
    return constants | {"UNENCODABLE": UNENCODABLE, "EncodeError": EncodeError}


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
