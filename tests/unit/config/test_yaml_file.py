"""YAML of the same names: nested or flat, scalars as they are written, nothing that explodes."""

from __future__ import annotations

import pytest

from config.errors import ConfigError
from config.yaml_file import read_yaml


def read(text: str) -> dict[str, str]:
    return {setting.name: setting.text for setting in read_yaml(text, "x.yaml")}


def test_maps_are_joined_with_dots_and_lists_with_commas() -> None:
    text = "log:\n  dirs: [/a, /b]\n  retention:\n    ms: 5\n  retention.bytes: 7\nnode.id: 1\n"
    assert read(text) == {
        "log.dirs": "/a,/b",
        "log.retention.ms": "5",
        "log.retention.bytes": "7",
        "node.id": "1",
    }


def test_scalars_stay_as_they_are_written() -> None:
    text = "a: yes\nb: 0x10\nc: 1_000\nd: 1e3\ne: '007'\nf: True\ng: 2024-01-01\nh: ''\n"
    assert read(text) == {
        "a": "yes",
        "b": "0x10",
        "c": "1_000",
        "d": "1e3",
        "e": "007",
        "f": "True",
        "g": "2024-01-01",
        "h": "",
    }


def test_nothing_leaves_the_default() -> None:
    assert read("a:\nb: null\nc: ~\n") == {}
    assert read("") == {}
    assert read("# only a comment\n") == {}


def test_each_setting_knows_its_line() -> None:
    places = {setting.name: setting.place for setting in read_yaml("a: 1\n\nb:\n  c: 2\n", "x.yaml")}
    assert places == {"a": "x.yaml line 1", "b.c": "x.yaml line 4"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("- a\n- b\n", "must be a map"),
        ("just a text\n", "must be a map"),
        ("a: [1, [2]]\n", "a must be a list of plain values"),
        ("? [a, b]\n: c\n", "a key must be a plain text"),
        ("a: 'b\n", "not YAML"),
        ("a: &loop\n  b: *loop\n", "more than 32 levels"),
    ],
)
def test_what_is_no_config_is_refused_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as refused:
        read_yaml(text, "x.yaml")
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("x.yaml")


def test_aliases_do_not_explode() -> None:
    laughs = "a0: &a0 {x: 1}\n" + "".join(
        f"a{n}: &a{n} {{{', '.join(f'k{i}: *a{n - 1}' for i in range(10))}}}\n" for n in range(1, 9)
    )
    with pytest.raises(ConfigError, match="10000 settings"):
        read_yaml(laughs, "x.yaml")
