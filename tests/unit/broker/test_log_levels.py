"""The loggers of the process as Kafka's tools see them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from broker.process.log_levels import ProcessLoggers, level_name
from config.errors import InvalidValue, RefusedChange
from config.log_levels import LEVELS, LevelChange, apply_levels, validate_levels

NAME = "barnabas.a.test.of.levels"


@pytest.fixture
def loggers() -> Iterator[ProcessLoggers]:
    root, logger = logging.getLogger(), logging.getLogger(NAME)
    before = root.level
    yield ProcessLoggers()
    root.setLevel(before)
    logger.setLevel(logging.NOTSET)


def test_a_level_is_the_logger_s_own_until_it_is_taken_away(loggers: ProcessLoggers) -> None:
    loggers.set_level("root", "WARN")
    assert loggers.levels()[NAME] == "WARN"
    loggers.set_level(NAME, "DEBUG")
    assert logging.getLogger(NAME).isEnabledFor(logging.DEBUG)
    assert loggers.levels()[NAME] == "DEBUG"
    loggers.inherit_level(NAME)
    assert not logging.getLogger(NAME).isEnabledFor(logging.INFO)
    assert loggers.levels()["root"] == "WARN"


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_of_kafka_can_be_set_and_is_shown(loggers: ProcessLoggers, level: str) -> None:
    loggers.set_level(NAME, level)
    assert loggers.levels()[NAME] == level


def test_levels_between_the_names_are_those_that_let_the_same_through() -> None:
    assert [level_name(number) for number in (0, 5, 7, 25, 30, 45, 99)] == [
        "TRACE", "TRACE", "DEBUG", "WARN", "WARN", "FATAL", "FATAL",
    ]  # fmt: skip


def test_the_one_above_all_of_ours_can_be_named(loggers: ProcessLoggers) -> None:
    assert "barnabas" in loggers.levels()


REFUSALS = [
    (LevelChange("root", "DELETE", None), RefusedChange, "Removing the log level of the root logger is not"),
    (
        LevelChange("root", "APPEND", "INFO"),
        RefusedChange,
        "APPEND operation is not allowed for the BROKER_L",
    ),
    (LevelChange("nobody", "SET", "INFO"), InvalidValue, "Logger nobody does not exist!"),
    (LevelChange("root", "SET", "info"), InvalidValue, "Cannot set the log level of root to info as it is n"),
]


@pytest.mark.parametrize(("change", "kind", "sentence"), REFUSALS)
def test_what_is_refused(
    loggers: ProcessLoggers, change: LevelChange, kind: type[InvalidValue], sentence: str
) -> None:
    with pytest.raises(InvalidValue) as refused:
        validate_levels([change], loggers)
    assert type(refused.value) is kind
    assert str(refused.value).startswith(sentence)


def test_what_is_let_through_is_done(loggers: ProcessLoggers) -> None:
    changes = [LevelChange(NAME, "SET", "TRACE"), LevelChange("root", "SET", "FATAL")]
    validate_levels(changes, loggers)
    apply_levels(changes, loggers)
    assert (loggers.levels()[NAME], loggers.levels()["root"]) == ("TRACE", "FATAL")
    apply_levels([LevelChange(NAME, "DELETE", None)], loggers)
    assert loggers.levels()[NAME] == "FATAL"
