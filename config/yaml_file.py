"""Reads a YAML file of the same names as `server.properties`.

Nested maps are joined with dots, lists with commas; both of these mean `log.retention.ms=60000`:

    log.retention.ms: 60000            log:
                                         retention:
                                           ms: 60000

A scalar is taken as it is written (`yes` stays `yes`, 0x10 stays 0x10: Kafka's rules decide what they mean);
an empty value or `null` leaves the default. The parser is imported when the first such file is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from config.errors import ConfigError
from config.setting import Setting, Source, one_line

if TYPE_CHECKING:
    import yaml

_MOST_SETTINGS: Final = 10_000
_DEEPEST: Final = 32
_NULL: Final = "tag:yaml.org,2002:null"


def read_yaml(text: str, place: str) -> list[Setting]:
    """The settings in their order; raises `ConfigError` for what is not a map of scalars, lists and maps."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        root = yaml.compose(text, Loader=loader)
    except yaml.YAMLError as problem:
        raise ConfigError(f"{place}: not YAML: {one_line(str(problem))}") from None
    settings: list[Setting] = []
    if root is not None and root.tag != _NULL:
        _collect(root, "", 0, place, settings)
    return settings


def _collect(node: yaml.Node, name: str, depth: int, place: str, settings: list[Setting]) -> None:
    import yaml

    where = f"{place} line {node.start_mark.line + 1}"
    if depth > _DEEPEST or len(settings) >= _MOST_SETTINGS:
        raise ConfigError(f"{where}: more than {_DEEPEST} levels or {_MOST_SETTINGS} settings")
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigError(f"{where}: a key must be a plain text")
            _collect(value, f"{name}.{key.value}" if name else key.value, depth + 1, place, settings)
    elif not name:
        raise ConfigError(f"{where}: the file must be a map of config names to values")
    elif isinstance(node, yaml.SequenceNode):
        items = list(node.value)
        if not all(isinstance(item, yaml.ScalarNode) for item in items):
            raise ConfigError(f"{where}: {name} must be a list of plain values")
        settings.append(Setting(name, ",".join(item.value for item in items), Source.FILE, where))
    elif node.tag != _NULL:
        settings.append(Setting(name, node.value, Source.FILE, where))
