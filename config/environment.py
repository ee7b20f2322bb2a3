"""Settings from outside the file: environment variables and `--override`.

Variables are decoded as the apache/kafka container image does it, so that a compose file keeps its meaning:
`KAFKA_` goes, the rest is lowered, and then, in this order, `_` becomes `.`, `...` becomes `-`, and `..`
becomes `_`:

    KAFKA_LOG_RETENTION_MS                 log.retention.ms
    KAFKA_LISTENER_NAME_A___B_SSL_KEY      listener.name.a-b.ssl.key
    KAFKA_PATH__WITH_ONE                   path_with.one

The image writes `name=value` lines into a properties file, so escapes in a value count as they do there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from config.errors import ConfigError
from config.properties import read_properties
from config.setting import Setting, Source, one_line

_PREFIX: Final = "KAFKA_"

NOT_SETTINGS: Final = frozenset(
    {
        "KAFKA_VERSION",
        "KAFKA_HEAP_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_OPTS",
        "KAFKA_JMX_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_JMX_HOSTNAME",
    }
)
"""Variables for the JVM and its logging, which the image does not take for settings."""


def setting_name(variable: str) -> str:
    """The name of the config that a variable `KAFKA_…` sets."""
    dotted = variable.removeprefix(_PREFIX).lower().replace("_", ".")
    return dotted.replace("...", "-").replace("..", "_")


def read_environment(environment: Mapping[str, str]) -> list[Setting]:
    """The settings that the environment variables hold, in the order of the variables' names."""
    settings: list[Setting] = []
    for variable in sorted(environment):
        if variable.startswith(_PREFIX) and variable not in NOT_SETTINGS:
            line = f"{setting_name(variable)}={environment[variable]}"
            settings += read_properties(line, f"environment variable {variable}", Source.ENVIRONMENT)
    return settings


def read_overrides(overrides: Iterable[str]) -> list[Setting]:
    """The settings of `name=value` arguments. Raises ConfigError for one without `=`."""
    settings = []
    for override in overrides:
        name, equals, text = override.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--override {one_line(override)}: expected NAME=VALUE")
        settings.append(Setting(name.strip(), text, Source.OVERRIDE, "--override"))
    return settings
