"""One config: what it is called, what it takes, who may change it while running, and what it does here.

The rows stand in `config/definitions/`, one module per subject; the names of types, importances and update
modes are re-exported here so that a row reads like a row.

Each row's text says what the config does when it is in use. Whether this release uses it is a different
question with one place for its answer, `config/effects.py`, whose `documentation` joins the two.
"""

from __future__ import annotations

import enum
from typing import Final

from msgspec import Struct

from config.errors import InvalidValue
from config.validators import Items, Validator
from config.values import ConfigType, Value, parse_value

BOOLEAN: Final = ConfigType.BOOLEAN
STRING: Final = ConfigType.STRING
INT: Final = ConfigType.INT
SHORT: Final = ConfigType.SHORT
LONG: Final = ConfigType.LONG
DOUBLE: Final = ConfigType.DOUBLE
LIST: Final = ConfigType.LIST
CLASS: Final = ConfigType.CLASS
PASSWORD: Final = ConfigType.PASSWORD

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
DOUBLE_MAX: Final = 1.7976931348623157e308


class Importance(enum.Enum):
    """How important Kafka calls a config; it only orders documentation."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class UpdateMode(enum.Enum):
    """When a value can change: not while the broker runs, for one broker, for all brokers, or with its
    resource."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"
    TOPIC = "topic"
    GROUP = "group"
    CLIENT_METRICS = "client-metrics"


HIGH: Final = Importance.HIGH
MEDIUM: Final = Importance.MEDIUM
LOW: Final = Importance.LOW
READ_ONLY: Final = UpdateMode.READ_ONLY
PER_BROKER: Final = UpdateMode.PER_BROKER
CLUSTER_WIDE: Final = UpdateMode.CLUSTER_WIDE
TOPIC: Final = UpdateMode.TOPIC
GROUP: Final = UpdateMode.GROUP
CLIENT_METRICS: Final = UpdateMode.CLIENT_METRICS


class Definition(Struct, frozen=True, gc=False):
    """The definition of one config. `default` is a value of the config's type; None is Kafka's null."""

    name: str
    type: ConfigType
    default: Value
    validator: Validator | None
    importance: Importance
    update_mode: UpdateMode
    text: str
    synonyms: tuple[str, ...] = ()
    """Broker configs that give the value when a topic or group does not, the strongest first."""
    required: bool = False
    """Whether a start without it is refused, because Kafka has no default for it."""
    internal: bool = False
    """Whether it is accepted but never shown, as the configs for Kafka's own tests are."""
    dynamic_only: bool = False
    """Whether it can be set through the admin API only, so that it is unknown in a file."""

    @property
    def sensitive(self) -> bool:
        """Whether its value is a secret, which is never printed and never sent."""
        return self.type is PASSWORD

    def parse(self, text: str | None) -> Value:
        """The checked value that `text` means; raises `InvalidValue`. Repeated items of a list count once."""
        value = parse_value(self.name, text, self.type)
        if self.validator is None:
            return value
        try:
            self.validator.check(self.name, value)
        except InvalidValue:
            if self.sensitive:
                raise InvalidValue.of(self.name, "[hidden]", "not valid") from None
            raise
        if isinstance(value, tuple) and isinstance(self.validator, Items):
            return tuple(dict.fromkeys(value))
        return value

    def allowed(self) -> str:
        """The type and the allowed values as a short text, such as `int [1,...]`."""
        kind = self.type.name.lower()
        rule = self.validator.allowed() if self.validator is not None else ""
        if self.type is BOOLEAN:
            rule = "true or false"
        return f"{kind} {rule}".rstrip()


class PluginConfig(Struct, frozen=True, gc=False):
    """A key that only a plug-in reads. It has no type: the plug-in judges the text when it is loaded."""

    name: str
    """The name of the config. A name that ends with a dot is the prefix of all such names."""
    reader: str
    """The reader of the config, in the words that complete the sentence "it is read by …", such as "Kafka's
    StandardAuthorizer"."""
    text: str
    may_be_secret: bool = False
    """Whether the value may be a secret, so that it is not printed."""
