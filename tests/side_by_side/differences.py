"""Where Barnabas answers otherwise, and stays so: for each case the reason, and what may differ.

`kafka` must match every line that Apache Kafka alone has, from its beginning to its end, and `barnabas` every
line that Barnabas alone has. Whatever else comes to differ in such a case fails, and so does an entry whose
case no longer differs.
The README's table of differences has these reasons, word for word.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Difference(NamedTuple):
    case: str
    reason: str
    kafka: str
    barnabas: str


NOT_YET: Final = "what is not served yet is not advertised, and Java's clients say so at once"
LEVELS: Final = (
    "features are those that work here: metadata.version, kraft.version, eligible.leader.replicas.version, "
    "group.version and transaction.version"
)
LOGGERS: Final = "loggers have the names of Barnabas's modules; only root is called the same"
OUR_WORDS: Final = (
    "the same rows in words of our own, by intent; each also says if its config has no effect here yet"
)
OUR_SETTINGS: Final = "Barnabas has settings of its own, all called barnabas.…"


def _error(text: str) -> str:
    """Lines of a tool that fails with an error of Java's client: what it says, and the stack behind it."""
    before = (
        r"(Error while executing ACL command: |java\.util\.concurrent\.ExecutionException: |Caused by: )?"
    )
    return rf"{before}org\.apache\.kafka\.common\.errors\.{text}|\tat \S.*"


NOTHING: Final = r"(?!)"
_APIS: Final = (
    r"\t((Create|Renew|Expire|Describe)DelegationToken|StreamsGroup(Heartbeat|Describe)"
    r"|Share(GroupHeartbeat|GroupDescribe|Fetch|Acknowledge)|(Describe|Alter|Delete)ShareGroupOffsets"
    r"|(Initialize|Read|Write|Delete)ShareGroupState|ReadShareGroupStateSummary)\(\d+\): "
)
_DONE: Final = r"exit 0|Completed updating config for (broker-logger 1|client one)\."
_REFUSED: Final = "Error while executing config command with args .*"
_FAILED: Final = f"exit 1|-- error output|{_REFUSED}"
_NO_LOGGER: Final = r"exit 1|-- error output|Invalid broker logger\(s\): kafka\.server\.KafkaApis"
_NO_LEVEL: Final = (
    r"InvalidConfigurationException: Cannot set the log level of kafka\.server\.KafkaApis to LOUD .*"
)
_NO_TOKENS: Final = "UnsupportedByAuthenticationException: Delegation Token requests are not allowed .*"
_A_TEXT: Final = r"documentation of [a-z0-9.]+: (?!null$).+"

DIFFERENCES: Final = (
    Difference(
        "cluster: broker api versions",
        NOT_YET,
        rf"{_APIS}\d+( to \d+)? \[usable: \d+\],?",
        f"{_APIS}UNSUPPORTED,?",
    ),
    Difference("cluster: features", LEVELS, r"Feature: (share|streams)\.version .*", NOTHING),
    Difference("cluster: describe features", LEVELS, r"(share|streams)\.version = .*", NOTHING),
    Difference("topic configs: a topic's configs with documentation", OUR_WORDS, _A_TEXT, _A_TEXT),
    Difference("broker configs: describe a broker, all", OUR_SETTINGS, NOTHING, r"  barnabas\..+"),
    Difference("broker configs: a broker's sources", OUR_SETTINGS, NOTHING, r"barnabas\..+"),
    Difference("broker configs: a broker's secrets", OUR_SETTINGS, NOTHING, r"barnabas\..+"),
    Difference("other configs: a logger's level", LOGGERS, _DONE, _NO_LOGGER),
    Difference("other configs: a logger's bad level", LOGGERS, f"{_REFUSED}|{_error(_NO_LEVEL)}", _NO_LOGGER),
    Difference("other configs: a logger's level taken back", LOGGERS, _DONE, _NO_LOGGER),
    Difference(
        "later parts: delegation tokens",
        NOT_YET,
        _error(_NO_TOKENS),
        _error("UnsupportedVersionException: The node does not support DESCRIBE_DELEGATION_TOKEN"),
    ),
)


def beyond(difference: Difference, lines: list[str]) -> list[str]:
    """Of a diff's lines, Apache Kafka's with a - and Barnabas's with a +, those that the difference does not
    explain."""
    said = {"-": difference.kafka, "+": difference.barnabas}
    return [line for line in lines if not re.fullmatch(said[line[0]], line[1:])]
