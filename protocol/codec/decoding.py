"""From a schema at one version to the source of a decoder.

The decoder walks `b` (the buffer, ending where the message's frame ends) with the position `p`.
Neighbouring fixed-width fields, and the first byte or the whole length prefix of what follows them, are
read by one `struct` call. A message without records is read from `bytes`, whose slices are cheap; one with
records from the memoryview itself, so that record bytes stay views. Truncation needs no check of its own at
every field: fixed reads raise, slices come out short while the position runs past the end, and the end is
compared once.

Text that is no UTF-8 sends the whole message to a second decoder, which is compiled when it is first needed:
the same but for its strings, that are read with replacement characters (`reading.text`).

A long message has a third decoder, a generator of the same message, lenient from the start: it counts what
arrays take in memory (see `budget`) and refuses too much of it before it exists, and it yields now and then,
so that whoever runs it can do something else in between.
"""

from functools import cache
from typing import Any

from protocol.codec.budget import element_bytes
from protocol.codec.lines import SHORT_ARRAY, SourceLines
from protocol.codec.message import Message, Struct
from protocol.codec.reading import MOST_TAGS
from protocol.codec.schema import Field, Kind, schema
from protocol.errors import invariant

__all__ = [
    "ELEMENTS_PER_STEP",
    "decoder_source",
    "holds_arrays",
    "holds_records",
    "minimum_size",
    "stepping_decoder_source",
]

ELEMENTS_PER_STEP = 200
"""After so many elements a stepping codec yields, which is after one or two tenths of a millisecond."""


@cache
def holds_records(cls: type[Struct], version: int) -> bool:
    """Whether a records field can occur anywhere in the message at this version."""
    return any(
        field.kind is Kind.RECORDS or (field.struct is not None and holds_records(field.struct, version))
        for field in schema(cls)
        if field.present.covers(version)
    )


def holds_arrays(cls: type[Struct], version: int) -> bool:
    """Whether the message has an array at this version, at whatever depth."""
    return any(
        field.is_array or (field.struct is not None and holds_arrays(field.struct, version))
        for field in schema(cls)
        if field.present.covers(version)
    )


def minimum_size(cls: type[Struct], version: int, flexible: bool) -> int:
    """The fewest bytes that the encoding of an instance can have."""
    fields = [field for field in schema(cls) if field.present.covers(version) and field.tag is None]
    return sum(_minimum_field_size(field, version, flexible) for field in fields) + flexible


def _minimum_field_size(field: Field, version: int, flexible: bool) -> int:
    if field.is_array:
        return 1 if flexible else 4
    match field.kind:
        case Kind.FIXED:
            return field.wire.width
        case Kind.STRUCT:
            if field.nullable.covers(version):
                return 1
            return minimum_size(field.struct_class, version, flexible)
        case Kind.STRING:
            return 1 if flexible and not field.never_compact else 2
        case _:
            return 1 if flexible else 4


def decoder_source(
    cls: type[Message], version: int, constants: dict[str, Any], *, lenient: bool = False
) -> SourceLines:
    """The lines of `def decode(b, p): ... return message, p`. lenient: of the second decoder."""
    writer_class = _LenientDecoderWriter if lenient else _DecoderWriter
    writer = writer_class(cls, version, constants)
    with writer.out.block("def decode(b, p):"):
        writer.body(cls)
    return writer.out


def stepping_decoder_source(cls: type[Message], version: int, constants: dict[str, Any]) -> SourceLines:
    """The lines of a generator, `def decode_in_steps(b, p, allowed): ... return message, p`.

    allowed: bytes of memory that the arrays may take.
    """
    writer = _SteppingDecoderWriter(cls, version, constants)
    with writer.out.block("def decode_in_steps(b, p, allowed):"):
        writer.out.add("left = allowed", "steps = 0", "yield")
        writer.body(cls)
    return writer.out


class _DecoderWriter:
    """Writes struct after struct; `_run` holds fixed reads that wait to be made in one call."""

    falls_back = True
    """Whether a string that is not valid UTF-8 makes the generated code call the lenient decoder."""

    def __init__(self, cls: type[Message], version: int, constants: dict[str, Any]) -> None:
        self.version = version
        self.flexible = cls.declaration.flexible.covers(version)
        self.views = holds_records(cls, version)
        self.out = SourceLines(constants)
        self._run: list[tuple[str, str, int]] = []

    def body(self, cls: type[Message]) -> None:
        """Writes the body of the generated function, from its first line to its return."""
        out, version = self.out, self.version
        if self.views:
            with out.block("if b.__class__ is not memoryview:"):
                out.add("b = memoryview(b)")
        else:
            with out.block("if b.__class__ is not bytes:"):
                out.add("b = bytes(b)")
        out.add("end = len(b)")
        if self.falls_back:
            out.add("begin = p")
        with out.block("try:"):
            result = self.struct(cls)
            self.flush()
        if self.falls_back:
            with out.block("except UnicodeDecodeError:"):
                out.add("return decode_leniently(b, begin)")
        with out.block("except MALFORMED as error:"):
            out.add(f"raise ProtocolError(f'malformed {cls.__name__} {version}: {{error}}') from error")
        with out.block("if p > end:"):
            out.add(f"cut_off('{cls.__name__} {version}', p - end)")
        out.add(f"return {result}, p")

    # Fixed runs.

    def _fixed(self, code: str, target: str, width: int) -> None:
        self._run.append((code, target, width))

    def flush(self) -> None:
        run, self._run = self._run, []
        if not run:
            return
        size = sum(width for _, _, width in run)
        if len(run) == 1 and run[0][0] == "B":
            self.out.add(f"{run[0][1]} = b[p]")
        else:
            unpack = self.out.layout("".join(code for code, _, _ in run), "unpack_from")
            targets = ", ".join(target for _, target, _ in run)
            self.out.add(f"{targets}{',' if len(run) == 1 else ''} = {unpack}(b, p)")
        self.out.add(f"p += {size}")

    # Structs.

    def struct(self, cls: type[Struct]) -> str:
        """Writes the code that reads a struct, and returns the expression that makes the instance."""
        values: dict[str, str] = {}
        fields = schema(cls)
        tagged = []
        for field in fields:
            if not field.present.covers(self.version):
                values[field.name] = self._default(field)
            elif field.tag is None:
                values[field.name] = self._field(field, f"{cls.__qualname__}.{field.name}")
            else:
                values[field.name] = self.out.fresh(field.name)
                tagged.append(field)
        if self.flexible:
            self._tags(cls, tagged, values)
        arguments = ", ".join(values[field.name] for field in fields)
        return f"{self.out.constant(cls.__name__, cls)}({arguments})"

    def _default(self, field: Field) -> str:
        default = field.default
        if isinstance(default, Struct):
            return f"{self.out.constant(type(default).__name__, type(default))}()"
        if isinstance(default, bytes) and any(default) is False and len(default) == 16:
            return self.out.constant("ZERO_UUID", default)
        return repr(default)

    def _tags(self, cls: type[Struct], tagged: list[Field], values: dict[str, str]) -> None:
        count = self.out.fresh("t")
        self._fixed("B", count, 1)
        self.flush()
        for field in tagged:
            self.out.add(f"{values[field.name]} = {self._default(field)}")
        if not tagged:
            with self.out.block(f"if {count}:"):
                self.out.add(f"p = skip_tags(b, p, {count}, end)")
            return
        last, tag, size, stop = (self.out.fresh(name) for name in ("last", "tag", "size", "stop"))
        with self.out.block(f"if {count}:"):
            with self.out.block(f"if {count} > 127:"):
                self.out.add(f"{count}, p = long_uvarint(b, p, {count})")
            with self.out.block(f"if {count} * 2 > end - p or {count} > {MOST_TAGS}:"):
                self.out.add(f"too_many({count}, 'tagged fields')")
            self.out.add(f"{last} = -1")
            with self.out.block(f"for _ in range({count}):"):
                self.out.add(
                    f"{tag}, p = uvarint(b, p)", f"{size}, p = uvarint(b, p)", f"{stop} = p + {size}"
                )
                with self.out.block(f"if {tag} <= {last}:"):
                    self.out.add(f"bad_tag({tag}, {last})")
                self.out.add(f"{last} = {tag}")
                word = "if"
                for field in tagged:
                    with self.out.block(f"{word} {tag} == {field.tag}:"):
                        value = self._field(field, f"{cls.__qualname__}.{field.name}")
                        self.flush()
                        self.out.add(f"{values[field.name]} = {value}")
                    word = "elif"
                with self.out.block("else:"):
                    self.out.add(f"p = {stop}")
                with self.out.block(f"if p != {stop}:"):
                    self.out.add(f"bad_tag_size({tag}, p - {stop} + {size}, {size})")

    # Fields.

    def _field(self, field: Field, path: str) -> str:
        nullable = field.nullable.covers(self.version)
        if field.is_array:
            return self._array(field, path, nullable)
        target = self.out.fresh(field.name)
        match field.kind:
            case Kind.FIXED:
                self._fixed(field.wire.format, target, field.wire.width)
                return target
            case Kind.STRUCT:
                return self._struct_field(field, target, nullable)
            case Kind.STRING | Kind.BYTES:
                text = field.kind is Kind.STRING
                if self.flexible and not field.never_compact:
                    self._compact(target, path, nullable, text)
                else:
                    self._prefixed(target, path, nullable, "h" if text else "i", text)
                return target
            case Kind.RECORDS:
                self._records(target, path, nullable)
                return target

    def _struct_field(self, field: Field, target: str, nullable: bool) -> str:
        if not nullable:
            return self.struct(field.struct_class)
        marker = self.out.fresh("n")
        self._fixed("b", marker, 1)
        self.flush()
        with self.out.block(f"if {marker} {'<' if field.tag is None else '=='} 0:"):
            self.out.add(f"{target} = None")
        with self.out.block("else:"):
            value = self.struct(field.struct_class)
            self.flush()
            self.out.add(f"{target} = {value}")
        return target

    def _short(self, size: str, path: str, text: bool) -> str:
        """The expression for the next `size` bytes, which are fewer than 128."""
        taken = f"read_short[{size}](b, p)[0]" if self.views else "b[p:q]"
        return self._decoded(taken, path) if text else taken

    def _slice(self, path: str, text: bool) -> str:
        taken = "bytes(b[p:q])" if self.views else "b[p:q]"
        return self._decoded(taken, path) if text else taken

    def _decoded(self, taken: str, path: str) -> str:
        """The expression that decodes the string in these bytes."""
        return f"{taken}.decode()"

    def _compact(self, target: str, path: str, nullable: bool, text: bool) -> None:
        """Writes a compact string or bytes: the length plus 1 in a varint, nearly always of one byte, and the
        bytes."""
        length = self.out.fresh("n")
        self._fixed("B", length, 1)
        self.flush()
        word = "if"
        if nullable:
            with self.out.block(f"if {length} == 0:"):
                self.out.add(f"{target} = None")
            word = "elif"
        with self.out.block(f"{word} {'' if nullable else '0 < '}{length} < 128:"):
            taken = self._short(f"{length} - 1", path, text)
            self.out.add(f"q = p + {length} - 1", f"{target} = {taken}", "p = q")
        with self.out.block("else:"):
            reader = f"{'nullable_' if nullable else ''}long_{'string' if text else 'bytes'}"
            lenient = ", True" if text and not self.falls_back else ""
            self.out.add(f"{target}, p = {reader}(b, p, {length}, {path!r}{lenient})")

    def _prefixed(self, target: str, path: str, nullable: bool, code: str, text: bool) -> None:
        """Writes a string or bytes after an int16 or int32 length; a negative one means null."""
        length = self.out.fresh("n")
        self._fixed(code, length, 2 if code == "h" else 4)
        self.flush()
        with self.out.block(f"if {length} >= 0:"):
            self.out.add(f"q = p + {length}", f"{target} = {self._slice(path, text)}", "p = q")
        self._null(target, path, nullable)

    def _null(self, target: str, path: str, nullable: bool) -> None:
        """Writes what happens for a null, after the block `if length >= 0`."""
        with self.out.block("else:"):
            self.out.add(f"{target} = None" if nullable else f"bad_null({path!r})")

    def _records(self, target: str, path: str, nullable: bool) -> None:
        length = self._length(1)
        with self.out.block(f"if {length} >= 0:"):
            self.out.add(f"q = p + {length}", f"{target} = b[p:q]", "p = q")
        self._null(target, path, nullable)

    def _length(self, null_shift: int) -> str:
        """Writes the reading of an int32 or compact length into a variable in which null is negative."""
        length = self.out.fresh("n")
        if not self.flexible:
            self._fixed("i", length, 4)
            self.flush()
            return length
        self._fixed("B", length, 1)
        self.flush()
        with self.out.block(f"if {length} > 127:"):
            self.out.add(f"{length}, p = long_uvarint(b, p, {length})")
        self.out.add(f"{length} -= {null_shift}")
        return length

    # Arrays.

    def _array(self, field: Field, path: str, nullable: bool) -> str:
        count = self._length(1)
        target = self.out.fresh(field.name)
        size = self._element_size(field)
        invariant(size > 0, "an element takes bytes", field=path)
        with self.out.block(f"if {count} >= 0:"):
            with self.out.block(f"if {count}{f' * {size}' if size > 1 else ''} > end - p:"):
                self.out.add(f"too_many({count}, {path!r})")
            self._count(field, path, count)
            self._elements(field, path, target, count)
        self._null(target, path, nullable)
        return target

    def _element_size(self, field: Field) -> int:
        match field.kind:
            case Kind.FIXED:
                return field.wire.width
            case Kind.STRUCT:
                return minimum_size(field.struct_class, self.version, self.flexible)
            case Kind.STRING:
                return 1 if self.flexible else 2
            case _:
                return 1 if self.flexible else 4

    def _elements(self, field: Field, path: str, target: str, count: str) -> None:
        if field.kind is Kind.FIXED:
            size = field.wire.width
            self.out.add(f"q = p + {count} * {size}")
            if field.wire.name == "uuid":
                self.out.add(f"{target} = [bytes(b[i : i + 16]) for i in range(p, q, 16)]")
            else:
                code = field.wire.format
                short = self.out.short_arrays("", code, "unpack_from")
                with self.out.block(f"if {count} < {SHORT_ARRAY}:"):
                    self.out.add(f"{target} = list({short}[{count}](b, p))")
                with self.out.block("else:"):
                    self.out.add(f"{target} = list(unpack_from(f'>{{{count}}}{code}', b, p))")
            self.out.add("p = q")
            return
        self.out.add(f"{target} = []")
        with self.out.block(f"for _ in range({count}):"):
            if field.kind is Kind.STRUCT:
                value = self.struct(field.struct_class)
            else:
                value = self.out.fresh("element")
                if self.flexible:
                    self._compact(value, path, False, field.kind is Kind.STRING)
                else:
                    text = field.kind is Kind.STRING
                    self._prefixed(value, path, False, "h" if text else "i", text)
            self.flush()
            self.out.add(f"{target}.append({value})")
            self._step()

    # What the stepping decoder does beside.

    def _count(self, field: Field, path: str, count: str) -> None:
        """Writes what happens when the count of an array was read; the array fits into the frame."""

    def _step(self) -> None:
        """Writes what happens after each element of an array."""


class _LenientDecoderWriter(_DecoderWriter):
    """Writes the decoder of messages in which a string is not valid UTF-8."""

    falls_back = False

    def _decoded(self, taken: str, path: str) -> str:
        return f"text({taken}, {path!r})"


class _SteppingDecoderWriter(_LenientDecoderWriter):
    """Writes a decoder that is a generator: it yields after some elements, and counts the memory that it
    uses."""

    def _count(self, field: Field, path: str, count: str) -> None:
        self.out.add(f"left -= {count} * {element_bytes(field, self.version)}")
        with self.out.block("if left < 0:"):
            self.out.add(f"over_budget({count}, {path!r}, allowed)")

    def _step(self) -> None:
        self.out.add("steps += 1")
        with self.out.block(f"if steps == {ELEMENTS_PER_STEP}:"):
            self.out.add("steps = 0", "yield")
