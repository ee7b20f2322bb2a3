"""`barnabas simulate`, as a user types it."""

from __future__ import annotations

import pytest

from broker.cli.parser import build_parser


def simulate(arguments: str) -> int:
    options = build_parser().parse_args(["simulate", *arguments.split()])
    code: int = options.run(options)
    return code


def test_a_seed_is_run_and_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("--seed 5 --nodes 5 --events 3000 --coverage") == 0
    printed = capsys.readouterr().out
    assert "every rule held in" in printed
    assert "5 static voters" in printed or "5 dynamic voters" in printed
    assert "  election" in printed


def test_the_story_is_told_when_it_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("--seed 5 --nodes 3 --events 500 --trace") == 0
    printed = capsys.readouterr().out
    assert "Vote epoch=" in printed
    assert "Leader of epoch" in printed


def test_several_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("--seed 5 --seeds 3 --events 300") == 0
    assert "3 seeds from 5" in capsys.readouterr().out


def test_the_driver_of_production(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("--seed 5 --nodes 3 --events 1000 --real-driver") == 0
    assert "every rule held in" in capsys.readouterr().out
