"""From a schema at one version to the source of a decoder.

The decoder walks `b` (the buffer, ending where the message's frame ends) with the position `p`.
Neighbouring fixed-width fields, and the first byte or the whole length prefix of what follows them, are
read by one `struct` call. A message without records is read from `bytes`, whose slices are cheap; one with
records from the memoryview itself, so that record bytes stay views. Truncation needs no check of its own at
every field: fixed reads raise, slices come out short while the position runs past the end, and the end is
compared once.
"""

from functools import cache
from typing import Any

from protocol.codec.lines import SHORT_ARRAY, SourceLines
from protocol.codec.message import Message, Struct
from protocol.codec.schema import Field, Kind, schema
from protocol.errors import invariant

__all__ = ["decoder_source", "holds_records", "minimum_size"]


@cache
def holds_records(cls: type[Struct], version: int) -> bool:
    """Whether a records field can occur anywhere in the message at this version."""
    return any(
        field.kind is Kind.RECORDS or (field.struct is not None and holds_records(field.struct, version))
        for field in schema(cls)
        if field.present.covers(version)
    )


def minimum_size(cls: type[Struct], version: int, flexible: bool) -> int:
    """The fewest bytes that an instance takes."""
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


def decoder_source(cls: type[Message], version: int, constants: dict[str, Any]) -> SourceLines:
    """The lines of `def decode(b, p): ... return message, p`."""
    flexible = cls.declaration.flexible.covers(version)
    writer = _DecoderWriter(version, flexible, holds_records(cls, version), constants)
    out = writer.out
    with out.block("def decode(b, p):"):
        if writer.views:
            with out.block("if b.__class__ is not memoryview:"):
                out.add("b = memoryview(b)")
        else:
            with out.block("if b.__class__ is not bytes:"):
                out.add("b = bytes(b)")
        out.add("end = len(b)")
        with out.block("try:"):
            result = writer.struct(cls)
            writer.flush()
        with out.block("except MALFORMED as error:"):
            out.add(f"raise ProtocolError(f'malformed {cls.__name__} {version}: {{error}}') from error")
        with out.block("if p > end:"):
            out.add(f"cut_off('{cls.__name__} {version}', p - end)")
        out.add(f"return {result}, p")
    return out


class _DecoderWriter:
    """Writes struct after struct; `_run` holds fixed reads that wait to be made in one call."""

    def __init__(self, version: int, flexible: bool, views: bool, constants: dict[str, Any]) -> None:
        self.version = version
        self.flexible = flexible
        self.views = views
        self.out = SourceLines(constants)
        self._run: list[tuple[str, str, int]] = []

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
        """Write the reads of a struct; returns the expression that makes it."""
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
            with self.out.block(f"if {count} * 2 > end - p:"):
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

    def _short(self, size: str, text: bool) -> str:
        """The expression for the next `size` bytes, fewer than 128 of them."""
        taken = f"read_short[{size}](b, p)[0]" if self.views else "b[p:q]"
        return f"{taken}.decode()" if text else taken

    def _slice(self, text: bool) -> str:
        taken = "bytes(b[p:q])" if self.views else "b[p:q]"
        return f"{taken}.decode()" if text else taken

    def _compact(self, target: str, path: str, nullable: bool, text: bool) -> None:
        """A compact string or bytes: length + 1 in a varint, nearly always of one byte."""
        length = self.out.fresh("n")
        self._fixed("B", length, 1)
        self.flush()
        word = "if"
        if nullable:
            with self.out.block(f"if {length} == 0:"):
                self.out.add(f"{target} = None")
            word = "elif"
        with self.out.block(f"{word} {'' if nullable else '0 < '}{length} < 128:"):
            self.out.add(f"q = p + {length} - 1", f"{target} = {self._short(f'{length} - 1', text)}", "p = q")
        with self.out.block("else:"):
            self.out.add(f"{target}, p = long_{'string' if text else 'bytes'}(b, p, {length}, {path!r})")

    def _prefixed(self, target: str, path: str, nullable: bool, code: str, text: bool) -> None:
        """A string or bytes after an int16 or int32 length; -1 is null."""
        length = self.out.fresh("n")
        self._fixed(code, length, 2 if code == "h" else 4)
        self.flush()
        with self.out.block(f"if {length} >= 0:"):
            self.out.add(f"q = p + {length}", f"{target} = {self._slice(text)}", "p = q")
        with self.out.block("else:"):
            self.out.add(f"{target} = null_or_error({length}, {path!r})")
            if not nullable:
                self.out.add(f"bad_null({path!r})")

    def _records(self, target: str, path: str, nullable: bool) -> None:
        length = self._length(1)
        with self.out.block(f"if {length} >= 0:"):
            self.out.add(f"q = p + {length}", f"{target} = b[p:q]", "p = q")
        with self.out.block("else:"):
            self.out.add(f"{target} = null_or_error({length}, {path!r})")
            if not nullable:
                self.out.add(f"bad_null({path!r})")

    def _length(self, null_shift: int) -> str:
        """Read an int32 or compact length into a variable in which null is negative."""
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
            self._elements(field, path, target, count)
        with self.out.block("else:"):
            self.out.add(f"{target} = null_or_error({count}, {path!r})")
            if not nullable:
                self.out.add(f"bad_null({path!r})")
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
