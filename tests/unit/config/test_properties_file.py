"""`server.properties`: what a careful writer writes, our reader reads back; no text breaks it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.errors import ConfigError
from config.properties import read_properties
from config.setting import Source

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def escaped(text: str, *, key: bool) -> str:
    """As java.util.Properties.store writes a key or a value."""
    out = []
    for index, character in enumerate(text):
        named = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}.get(character)
        if named is not None:
            out.append(named)
        elif character == " ":
            out.append("\\ " if key or index == 0 else " ")
        elif character in "=:#!\\":
            out.append("\\" + character)
        elif " " < character <= "~":
            out.append(character)
        else:
            units = character.encode("utf-16-be")
            out += [f"\\u{units[at]:02X}{units[at + 1]:02x}" for at in range(0, len(units), 2)]
    return "".join(out)


@given(st.dictionaries(TEXT, TEXT, max_size=6), st.sampled_from(["=", ":", " = ", "\t:  "]))
def test_what_java_writes_is_read_back(settings: dict[str, str], separator: str) -> None:
    text = "\n".join(
        f"{escaped(name, key=True)}{separator}{escaped(value, key=False)}" for name, value in settings.items()
    )
    read = {setting.name: setting.text for setting in read_properties(text, "file")}
    assert read == settings


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    while "\\u" in text:
        text = text.replace("\\u", "")
    settings = read_properties(text, "file")
    assert len(settings) <= text.count("\n") + text.count("\r") + 1


def test_each_setting_knows_its_line() -> None:
    text = "# head\n\na=1\nb=2\\\n  3\n\n! note\nc 4\r\nd:5"
    assert [
        (setting.name, setting.text, setting.place) for setting in read_properties(text, "x.properties")
    ] == [
        ("a", "1", "x.properties line 3"),
        ("b", "23", "x.properties line 4"),
        ("c", "4", "x.properties line 8"),
        ("d", "5", "x.properties line 9"),
    ]


def test_settings_from_elsewhere_name_that_place() -> None:
    (setting,) = read_properties("a=1", "environment variable KAFKA_A", Source.ENVIRONMENT)
    assert setting.place == "environment variable KAFKA_A"
    assert setting.source is Source.ENVIRONMENT


def test_a_broken_escape_names_file_and_line() -> None:
    with pytest.raises(ConfigError, match=r"^x line 2: Malformed"):
        read_properties("a=1\nb=\\u12", "x")
