"""From a schema at one version to the source of an encoder.

The encoder appends parts to the list `l` and joins them once. Neighbouring fixed-width fields, the length
that follows them and an empty tag section are packed by one `struct` call; a length beyond 127 takes a
branch of its own. A message with records comes out as pieces: the bytes between the records, and the
records themselves, untouched, wherever they lie.

A string of more than 32,767 bytes has no encoding, compact or not. Only the text that explains an error (its
field's name ends with `error_message`) is cut to fit.

A long response is encoded in parts: the elements of one array of it, some at a time, by a generator that
yields now and then; and what stands before and behind them, when their number is known.
"""

from typing import Any

from protocol.codec.decoding import ELEMENTS_PER_STEP, holds_records
from protocol.codec.lines import SHORT_ARRAY, SourceLines
from protocol.codec.message import Message, Struct
from protocol.codec.schema import Field, Kind, schema

__all__ = ["elements_encoder_source", "encoder_source", "frame_encoder_source"]


def encoder_source(cls: type[Message], version: int, constants: dict[str, Any]) -> SourceLines:
    """The lines of `def encode(m): ... return bytes`, or `return pieces` when the message holds records."""
    pieces = holds_records(cls, version)
    writer = _EncoderWriter(cls, version, constants)
    out = writer.out
    with out.block("def encode(m):"):
        with out.block("try:"):
            out.add("l = []")
            if pieces:
                out.add("pieces = []")
            writer.struct(cls, "m")
            writer.flush()
        with out.block("except UNENCODABLE as error:"):
            out.add(f"raise EncodeError(f'cannot encode {cls.__name__} {version}: {{error}}') from error")
        if pieces:
            with out.block("if l:"):
                out.add("pieces.append(b''.join(l))")
            out.add("return pieces")
        else:
            out.add("return b''.join(l)")
    return out


def elements_encoder_source(
    cls: type[Message], version: int, name: str, constants: dict[str, Any]
) -> SourceLines:
    """The lines of a generator, `def encode_elements(items, l)`: it appends the bytes of elements of the
    array to `l`, and yields between some of them."""
    field = next(field for field in schema(cls) if field.name == name)
    writer = _SteppingEncoderWriter(cls, version, constants)
    out = writer.out
    with out.block("def encode_elements(items, l):"):
        out.add("steps = 0", "yield")
        with out.block("try:"), out.block("for m in items:"):
            writer.struct(field.struct_class, "m")
            writer.flush()
            writer.step()
        with out.block("except UNENCODABLE as error:"):
            out.add(f"raise EncodeError(f'cannot encode {cls.__name__} {version}: {{error}}') from error")
    return out


def frame_encoder_source(
    cls: type[Message], version: int, name: str, constants: dict[str, Any]
) -> SourceLines:
    """The lines of `def encode_around(m, count)`: the bytes before and behind the array's elements, of which
    there are `count`."""
    writer = _AroundWriter(cls, version, constants, name)
    out = writer.out
    with out.block("def encode_around(m, count):"):
        with out.block("try:"):
            out.add("l = []")
            writer.struct(cls, "m")
            writer.flush()
        with out.block("except UNENCODABLE as error:"):
            out.add(f"raise EncodeError(f'cannot encode {cls.__name__} {version}: {{error}}') from error")
        out.add("return b''.join(l[:at]), b''.join(l[at:])")
    return out


class _EncoderWriter:
    """Writes struct after struct; `_run` holds fixed fields that wait to be packed in one call."""

    def __init__(self, cls: type[Message], version: int, constants: dict[str, Any]) -> None:
        self.message = cls.__name__
        self.version = version
        self.flexible = cls.declaration.flexible.covers(version)
        self.out = SourceLines(constants)
        self._run: list[tuple[str, str]] = []
        self._list = "l"

    # Fixed runs.

    def _fixed(self, code: str, expression: str) -> None:
        """Adds a value of fixed width to the run that is written next. `expression` is empty for pad bytes,
        which have no value."""
        self._run.append((code, expression))

    def _packed(self, run: list[tuple[str, str]]) -> str:
        format_ = "".join(entry for entry, _ in run)
        if format_ == "x":
            return "b'\\0'"
        arguments = ", ".join(expression for _, expression in run if expression)
        return f"{self.out.layout(format_, 'pack')}({arguments})"

    def flush(self) -> None:
        run, self._run = self._run, []
        if run:
            self.out.add(f"{self._list}.append({self._packed(run)})")

    def _flush_with_length(self, length: str, long: str) -> None:
        """Writes the collected values with a compact length behind them, packed together when it takes one
        byte."""
        run, self._run = self._run, []
        if not run:
            self.out.add(f"{self._list}.append(SMALL[{length}] if {length} < 128 else {long}({length}))")
            return
        with self.out.block(f"if {length} < 128:"):
            self.out.add(f"{self._list}.append({self._packed([*run, ('B', length)])})")
        with self.out.block("else:"):
            self.out.add(f"{self._list}.append({self._packed(run)} + {long}({length}))")

    def _flush_with(self, code: str, length: str, compact: bool, long: str = "uvarint_bytes") -> None:
        """Writes the length of a field after the values of fixed width that come before it.

        long: the name of the function that encodes a compact length of more than one byte.
        """
        if compact:
            self._flush_with_length(length, long)
        else:
            self._fixed(code, length)
            self.flush()

    # Structs.

    def struct(self, cls: type[Struct], variable: str) -> None:
        fields = schema(cls)
        tagged = []
        for field in fields:
            value = f"{variable}.{field.name}"
            if not field.present.covers(self.version):
                if not field.ignorable:
                    self._refuse(cls, field, value)
            elif field.tag is not None:
                tagged.append(field)
        for field in fields:
            if field.present.covers(self.version) and field.tag is None:
                self._field(field, f"{variable}.{field.name}")
        if self.flexible:
            self._tags(tagged, variable)

    def _refuse(self, cls: type[Struct], field: Field, value: str) -> None:
        """Writes a check that a field holds its default, because this version of the message does not have
        the field."""
        with self.out.block(f"if {self._differs(field, value)}:"):
            name = f"{cls.__qualname__}.{field.name}"
            self.out.add(f"cannot_carry({self.message!r}, {self.version}, {name!r}, {value})")

    def _differs(self, field: Field, value: str) -> str:
        """The condition that the value of a field is not its default."""
        default = field.default
        if field.absent_is_none:
            empty = self.out.constant("DEFAULT_" + field.struct_class.__name__, field.struct_class())
            return f"{value} is not None and {value} != {empty}"
        if default is None:
            return f"{value} is not None"
        if default in ([], "", b"", 0) and not field.nullable.covers(self.version):
            return value
        if isinstance(default, Struct):
            return f"{value} != {self.out.constant('DEFAULT_' + type(default).__name__, default)}"
        if isinstance(default, bytes):
            return f"{value} != {self.out.constant('ZERO_UUID', default)}"
        return f"{value} != {default!r}"

    def _tags(self, tagged: list[Field], variable: str) -> None:
        if not tagged:
            self._fixed("x", "")
            return
        run, self._run = self._run, []
        tagged = sorted(tagged, key=lambda field: field.tag or 0)
        conditions = [self._differs(field, f"{variable}.{field.name}") for field in tagged]
        outer, section = self._list, self.out.fresh("tags")
        joined = " or ".join(f"({c})" if " and " in c else c for c in conditions)
        with self.out.block(f"if {joined}:"):
            if run:
                self.out.add(f"{outer}.append({self._packed(run)})")
            self.out.add(f"{section} = []")
            for field, condition in zip(tagged, conditions, strict=True):
                with self.out.block(f"if {condition}:"):
                    self._list = self.out.fresh("payload")
                    self.out.add(f"{self._list} = []")
                    self._field(field, f"{variable}.{field.name}")
                    self.flush()
                    self.out.add(f"{section}.append(({field.tag}, b''.join({self._list})))")
            self._list = outer
            self.out.add(f"{outer}.append(tag_section({section}))")
        with self.out.block("else:"):
            self.out.add(f"{outer}.append({self._packed([*run, ('x', '')])})")

    # Fields.

    def _field(self, field: Field, value: str) -> None:
        nullable = field.nullable.covers(self.version)
        compact = self.flexible and not field.never_compact
        if field.is_array:
            self._array(field, value, nullable, compact)
            return
        match field.kind:
            case Kind.FIXED:
                self._fixed(field.wire.format, f"uuid({value})" if field.wire.name == "uuid" else value)
            case Kind.STRUCT:
                self._struct_field(field, value, nullable)
            case Kind.STRING if field.name.endswith("error_message"):
                self._bytes(value, nullable, compact, "h", "error_text({})")
            case Kind.STRING:
                self._bytes(value, nullable, compact, "h", "{}.encode()")
            case Kind.BYTES:
                self._bytes(value, nullable, compact, "i", "{}")
            case Kind.RECORDS:
                self._records(value, nullable, compact)

    def _struct_field(self, field: Field, value: str, nullable: bool) -> None:
        variable = self.out.fresh("m")
        self.out.add(f"{variable} = {value}")
        if not nullable:
            self.struct(field.struct_class, variable)
            return
        null = b"\xff" if field.tag is None else b"\0"
        self.flush()
        with self.out.block(f"if {variable} is None:"):
            self.out.add(f"{self._list}.append({null!r})")
        with self.out.block("else:"):
            self._fixed("b", "1")
            self.struct(field.struct_class, variable)
            self.flush()

    def _bytes(self, value: str, nullable: bool, compact: bool, code: str, encode: str) -> None:
        """Writes a string or bytes field. `encode` is the expression for its bytes, with `{}` in place of the
        value."""
        raw, length = self.out.fresh("e"), self.out.fresh("n")
        measure = f"len({raw}) + 1" if compact else f"len({raw})"
        if nullable:
            self.out.add(f"{raw} = {value}")
            with self.out.block(f"if {raw} is None:"):
                self.out.add(f"{raw} = b''", f"{length} = {0 if compact else -1}")
            with self.out.block("else:"):
                if encode != "{}":
                    self.out.add(f"{raw} = {encode.format(raw)}")
                self.out.add(f"{length} = {measure}")
        else:
            self.out.add(f"{raw} = {encode.format(value)}", f"{length} = {measure}")
        self._flush_with(code, length, compact, "long_text_length" if code == "h" else "uvarint_bytes")
        self.out.add(f"{self._list}.append({raw})")

    def _records(self, value: str, nullable: bool, compact: bool) -> None:
        records, size, length = self.out.fresh("r"), self.out.fresh("size"), self.out.fresh("n")
        self.out.add(f"{records} = {value}")
        plain = f"{size} = len({records}) if {records}.__class__ is bytes else records_size({records})"
        lines = [plain, f"{length} = {size} + 1" if compact else f"{length} = {size}"]
        if nullable:
            with self.out.block(f"if {records} is None:"):
                self.out.add(f"{size} = 0", f"{length} = {0 if compact else -1}")
            with self.out.block("else:"):
                self.out.add(*lines)
        else:
            self.out.add(*lines)
        self._flush_with("i", length, compact)
        with self.out.block(f"if {size}:"):
            self.out.add(f"pieces.append(b''.join({self._list}))", f"pieces.append({records})")
            self.out.add(f"{self._list} = []")

    # Arrays.

    def _array(self, field: Field, value: str, nullable: bool, compact: bool) -> None:
        items, count = self.out.fresh("items"), self.out.fresh("n")
        self.out.add(f"{items} = {value}")
        if nullable:
            with self.out.block(f"if {items} is None:"):
                self.out.add(f"{items} = ()", f"{count} = {0 if compact else -1}")
            with self.out.block("else:"):
                self.out.add(f"{count} = len({items}){' + 1' if compact else ''}")
        else:
            self.out.add(f"{count} = len({items}){' + 1' if compact else ''}")
        if field.kind is Kind.FIXED and field.wire.name != "uuid":
            self._numbers(field.wire.format, items, count, compact)
            return
        self._flush_with("i", count, compact)
        if field.kind is Kind.FIXED:
            self.out.add(f"{self._list} += map(uuid, {items})")
            return
        item = self.out.fresh("m")
        with self.out.block(f"for {item} in {items}:"):
            if field.kind is Kind.STRUCT:
                self.struct(field.struct_class, item)
            elif field.kind is Kind.STRING:
                self._bytes(item, False, compact, "h", "{}.encode()")
            else:
                self._bytes(item, False, compact, "i", "{}")
            self.flush()
            self.step()

    def step(self) -> None:
        """Writes what happens after each element of an array: nothing, except in a stepping encoder."""

    def _numbers(self, code: str, items: str, count: str, compact: bool) -> None:
        """Writes an array of numbers: a short one, the usual case, is packed together with what stands before
        it."""
        run, self._run = self._run, []
        codes = "".join(each for each, _ in run) + ("B" if compact else "i")
        short = self.out.short_arrays(codes, code, "pack")
        arguments = ", ".join((*(expression for _, expression in run if expression), count))
        with self.out.block(f"if len({items}) < {SHORT_ARRAY}:"):
            self.out.add(f"{self._list}.append({short}[len({items})]({arguments}, *{items}))")
        with self.out.block("else:"):
            self._run = run
            self._flush_with("i", count, compact)
            self.out.add(f"{self._list}.append(pack_numbers('{code}', {items}))")


class _SteppingEncoderWriter(_EncoderWriter):
    """Writes an encoder that is a generator and yields after some elements."""

    def step(self) -> None:
        self.out.add("steps += 1")
        with self.out.block(f"if steps == {ELEMENTS_PER_STEP}:"):
            self.out.add("steps = 0", "yield")


class _AroundWriter(_EncoderWriter):
    """Writes the encoder that leaves out the elements of one array of the message."""

    def __init__(self, cls: type[Message], version: int, constants: dict[str, Any], name: str) -> None:
        super().__init__(cls, version, constants)
        self._left_out = f"m.{name}"

    def _array(self, field: Field, value: str, nullable: bool, compact: bool) -> None:
        if value != self._left_out:
            super()._array(field, value, nullable, compact)
            return
        length = self.out.fresh("n")
        self.out.add(f"{length} = count{' + 1' if compact else ''}")
        self._flush_with("i", length, compact)
        self.out.add("at = len(l)")
