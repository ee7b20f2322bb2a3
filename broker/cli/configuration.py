"""From what a user typed to a config: file, environment and overrides in their layers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from config.environment import read_environment, read_overrides
from config.errors import ConfigError
from config.loading import Loaded, default_settings, file_settings, layered, load, one_node_defaults
from config.setting import Setting

DEFAULT_DATA_DIRECTORY: Final = "./data"


def load_configuration(file: str | None, overrides: Sequence[str] = ()) -> Loaded:
    """Raises ConfigError with the one line that a user needs.

    Without a file the one-node defaults are the lowest layer; a file says all by itself, as for Kafka.
    """
    if file is None:
        lowest = default_settings(one_node_defaults(DEFAULT_DATA_DIRECTORY))
    else:
        lowest = _read(file)
    return load(layered(lowest, read_environment(os.environ), read_overrides(overrides)))


def _read(file: str) -> list[Setting]:
    try:
        with open(file, "rb") as stream:
            return file_settings(file, stream.read())
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
