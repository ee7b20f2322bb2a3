"""A Python admin client's answer as text: futures awaited, objects by their fields, errors by class.

An error that is not one of Kafka's is raised: it would look the same on both sides, and nothing was asked.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from enum import Enum
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Uuid
from kafka.errors import KafkaError as KafkaPythonError

TIMEOUT_SECONDS: Final = 20
NO_ANSWER: Final = f"no answer in {TIMEOUT_SECONDS} s"
REFUSALS: Final = (KafkaException, KafkaPythonError)
"""By which confluent-kafka and kafka-python tell what a broker has answered, or that none did."""


def shown(call: Callable[[], object]) -> str:
    """The call's result as indented JSON, or how it was refused. Raises errors of the call itself."""
    try:
        plain = _plain(call())
    except Exception as error:
        return _refusal(error)
    return json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=False)


def _refusal(error: Exception) -> str:
    if not isinstance(error, REFUSALS):
        raise error
    if isinstance(error, KafkaException) and isinstance(error.args[0], KafkaError):
        return f"{error.args[0].name()}: {error.args[0].str()}"
    return f"{type(error).__name__}: {error}"


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value.name if isinstance(value, Enum) else value
    if isinstance(value, Future):
        try:
            return _plain(value.result(TIMEOUT_SECONDS))
        except TimeoutError:
            return NO_ANSWER
        except Exception as error:
            return _refusal(error)
    if isinstance(value, uuid.UUID | Uuid):
        return "<id>"
    if isinstance(value, KafkaError):
        return f"{value.name()}: {value.str()}"
    if isinstance(value, Exception):
        return _refusal(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, Mapping):
        return {_key(key): _plain(each) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, set | frozenset):
        return sorted((_plain(each) for each in value), key=str)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return _fields(value)


def _key(key: object) -> str:
    if isinstance(key, Enum):
        return key.name
    if isinstance(key, tuple) and hasattr(key, "_fields"):
        return "-".join(map(str, key))
    if hasattr(key, "topic") and hasattr(key, "partition"):
        return f"{key.topic}-{key.partition}"
    if hasattr(key, "restype") and hasattr(key, "name"):
        return f"{key.restype.name}/{key.name}"
    return str(key)


def _fields(value: object) -> object:
    """A field that is declared and has no value here, as a response's header, is left out."""
    named = {
        name: getattr(value, name)
        for name in dir(value)
        if not name.startswith("_") and not callable(getattr(value, name, len))
    }
    return _plain(named) if named else str(value)
