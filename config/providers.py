"""Placeholders `${provider:path:key}` in values, and the three providers of Kafka that say what they mean.

    config.providers=env,file,dir          names, each with its class in config.providers.<name>.class
    ${env:DATA}                            an environment variable that param.allowlist.pattern allows
    ${file:/etc/kafka/secrets:password}    the value of a key in a properties file, UTF-8
    ${dir:/etc/kafka/secrets.d:password}   the content of a file in a directory; param.allowed.paths names the
                                           directories and files below which both may read

A placeholder of a provider that config.providers does not name is a text like any other. One that has no
value stops the start: Kafka takes it literally, and nobody wants a directory of that name.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from config.errors import ConfigError
from config.ports import Files
from config.properties import read_properties
from config.setting import Setting, one_line

_PLACEHOLDER: Final = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")

_PACKAGE: Final = "org.apache.kafka.common.config.provider"

Provider = Callable[[str, str], str]
"""From path and key of a placeholder to its value. Raises ConfigError with the reason and the remedy."""


def resolved(
    settings: Mapping[str, Setting], environment: Mapping[str, str], files: Files
) -> dict[str, Setting]:
    """The settings with the values that their placeholders mean. Raises ConfigError for a provider that is
    not one of Kafka's three, and for a placeholder without a value."""
    providers = _providers(settings, environment, files)
    return {name: _with_values(setting, providers) for name, setting in settings.items()}


def _with_values(setting: Setting, providers: Mapping[str, Provider]) -> Setting:
    def value_of(placeholder: re.Match[str]) -> str:
        provider = providers.get(placeholder[1])
        if provider is None:
            return placeholder[0]
        try:
            return provider(placeholder[3] or "", placeholder[4])
        except ConfigError as problem:
            shown = one_line(placeholder[0])
            raise ConfigError(f"{setting.place}: {setting.name}: {shown}: {problem}") from None

    text = _PLACEHOLDER.sub(value_of, setting.text)
    return setting if text == setting.text else replace(setting, text=text)


def _providers(
    settings: Mapping[str, Setting], environment: Mapping[str, str], files: Files
) -> dict[str, Provider]:
    listed = settings["config.providers"].text if "config.providers" in settings else ""
    providers = {}
    for name in (part.strip() for part in listed.split(",")):
        if name:
            providers[name] = _provider(f"config.providers.{name}", settings, environment, files)
    return providers


def _provider(
    prefix: str, settings: Mapping[str, Setting], environment: Mapping[str, str], files: Files
) -> Provider:
    """prefix: of the provider's own configs, its class and its parameters."""
    named = settings.get(f"{prefix}.class")
    if named is None:
        return partial(_without_class, prefix)
    if named.text == f"{_PACKAGE}.EnvVarConfigProvider":
        return partial(_variable, environment, _pattern(settings.get(f"{prefix}.param.allowlist.pattern")))
    if named.text in _READERS:
        allowed = _allowed_paths(settings.get(f"{prefix}.param.allowed.paths"), files)
        return partial(_READERS[named.text], files, allowed)
    raise ConfigError(
        f"{named.place}: Invalid value {one_line(named.text)} for configuration {named.name}: Could not load "
        f"config provider class or one of its dependencies (there is no JVM; known are EnvVarConfigProvider, "
        f"FileConfigProvider and DirectoryConfigProvider of {_PACKAGE})"
    )


def _without_class(prefix: str, _path: str, _key: str) -> str:
    raise ConfigError(f"{prefix}.class is not set: set it, for example to {_PACKAGE}.EnvVarConfigProvider")


def _pattern(parameter: Setting | None) -> re.Pattern[str]:
    if parameter is None:
        return re.compile(".*")
    try:
        return re.compile(parameter.text)
    except re.error as problem:
        shown = f"{parameter.name}={one_line(parameter.text)}"
        raise ConfigError(f"{parameter.place}: {shown}: not a regular expression: {problem}") from None


def _allowed_paths(parameter: Setting | None, files: Files) -> tuple[str, ...]:
    """The paths of the parameter, normalised. Empty: all paths are allowed."""
    if parameter is None or not parameter.text:
        return ()
    paths = parameter.text.split(",")
    for path in paths:
        if not path.startswith("/") or not files.exists(path):
            problem = "does not exist" if path.startswith("/") else "is not absolute"
            raise ConfigError(f"{parameter.place}: {parameter.name}: Path {one_line(path)} {problem}")
    return tuple(os.path.normpath(path) for path in paths)


def _check_path(path: str, allowed: tuple[str, ...]) -> None:
    if not path:
        raise ConfigError("it names no path: write ${PROVIDER:PATH:KEY}")
    normal = PurePosixPath(os.path.normpath(path))
    if allowed and not any(normal.is_relative_to(each) for each in allowed):
        raise ConfigError(
            f"The path {one_line(path)} is not allowed to be accessed: add it to param.allowed.paths of this "
            "provider"
        )


def _variable(environment: Mapping[str, str], allowed: re.Pattern[str], path: str, key: str) -> str:
    if path:
        raise ConfigError(f"Path is not supported for EnvVarConfigProvider, invalid value '{one_line(path)}'")
    if not allowed.fullmatch(key):
        raise ConfigError("param.allowlist.pattern of this provider does not allow the variable: change it")
    if key not in environment:
        raise ConfigError("there is no such environment variable: set it, or write the value itself")
    return environment[key]


def _key_of_file(files: Files, allowed: tuple[str, ...], path: str, key: str) -> str:
    _check_path(path, allowed)
    try:
        text = files.read_bytes(path).decode(errors="replace")
    except (OSError, ValueError) as problem:
        raise ConfigError(f"Could not read properties from file {one_line(path)}: {problem}") from None
    values = {setting.name: setting.text for setting in read_properties(text, path)}
    if key not in values:
        raise ConfigError("the file has no such key: add it, or write the value itself")
    return values[key]


def _file_of_directory(files: Files, allowed: tuple[str, ...], path: str, key: str) -> str:
    _check_path(path, allowed)
    try:
        if key not in files.listdir(path):
            raise ConfigError("the directory has no such file: add it, or write the value itself")
        return files.read_bytes(os.path.join(path, key)).decode(errors="replace")
    except (OSError, ValueError) as problem:
        raise ConfigError(f"Could not read file {one_line(key)} in {one_line(path)}: {problem}") from None


_READERS: Final[Mapping[str, Callable[[Files, tuple[str, ...], str, str], str]]] = MappingProxyType(
    {
        f"{_PACKAGE}.FileConfigProvider": _key_of_file,
        f"{_PACKAGE}.DirectoryConfigProvider": _file_of_directory,
    }
)
