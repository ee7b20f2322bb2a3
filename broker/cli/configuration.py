"""From what a user typed to a config: file, environment and overrides in their layers, and what the
placeholders in them mean."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from broker.ports.files import RealFiles
from config.broker_config import BrokerConfig
from config.environment import read_environment, read_overrides
from config.errors import ConfigError
from config.loading import Loaded, default_settings, file_settings, layered, load, one_node_defaults
from config.providers import resolved
from config.setting import Setting

DEFAULT_DATA_DIRECTORY: Final = "./data"


def read_settings(file: str) -> list[Setting]:
    """The settings of a properties or YAML file. Raises ConfigError."""
    try:
        with open(file, "rb") as stream:
            return file_settings(file, stream.read())
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror or error}") from None


def with_values(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """The settings with what their placeholders mean on this machine. Raises ConfigError."""
    return resolved(settings, os.environ, RealFiles())


def load_file(file: str) -> BrokerConfig:
    """The config that a file describes by itself, as Kafka's storage tool reads it: the environment adds
    nothing but what placeholders ask for. Raises ConfigError."""
    return load(with_values(layered(read_settings(file)))).config


def load_configuration(file: str | None, overrides: Sequence[str] = ()) -> Loaded:
    """Raises ConfigError with the one line that a user needs.

    Without a file the one-node defaults are the lowest layer; a file says all by itself, as for Kafka.
    """
    if file is None:
        lowest = default_settings(one_node_defaults(DEFAULT_DATA_DIRECTORY))
    else:
        lowest = read_settings(file)
    settings = layered(lowest, read_environment(os.environ), read_overrides(overrides))
    return load(with_values(settings))
