"""`barnabas config check`: a verdict on every key, and an exit code that a script can use."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from broker.cli.config_check import REFUSED, UNREADABLE, WOULD_START, check_file

GOOD = """\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
controller.quorum.voters=1@localhost:9093
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
transaction.state.log.min.isr=1
num.io.threads=8
zookeeper.connect=user:geheim@host
delegation.token.secret.key=geheim
"""


def verdicts(path: Path) -> tuple[int, dict[str, list[str]], str]:
    """Exit code, the lines under each heading, the last line."""
    out = io.StringIO()
    code = check_file(str(path), out)
    *blocks, last = out.getvalue().rstrip("\n").split("\n\n")
    headings = {block.split(" (")[0]: block.split("\n  ")[1:] for block in blocks}
    return code, headings, last


def test_every_key_gets_its_verdict(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(GOOD)
    code, headings, last = verdicts(path)
    assert code == WOULD_START
    assert list(headings) == ["honoured", "not used yet", "ignored", "unknown"]
    assert "node.id = 1" in headings["honoured"]
    assert "transaction.state.log.min.isr = 1" in headings["honoured"]
    assert headings["not used yet"] == ["delegation.token.secret.key = [hidden]"]
    (threads,) = headings["ignored"]
    assert threads.startswith("num.io.threads = 8  (one event loop")
    assert headings["unknown"] == [f"zookeeper.connect  ({path} line 9)"]
    assert last == f"{path}: 7 honoured, 1 not used yet, 1 ignored, 1 unknown, 0 refused"


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(GOOD)
    out = io.StringIO()
    check_file(str(path), out)
    assert "geheim" not in out.getvalue()


def test_placeholders_are_replaced_before_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        GOOD + "config.providers=env\nnum.partitions=${env:PARTITIONS}\n"
        "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
    )
    monkeypatch.delenv("PARTITIONS", raising=False)
    out = io.StringIO()
    assert check_file(str(path), out) == REFUSED
    assert "num.partitions: ${env:PARTITIONS}: there is no such environment variable" in out.getvalue()
    monkeypatch.setenv("PARTITIONS", "7")
    code, headings, _ = verdicts(path)
    assert code == WOULD_START
    assert {"num.partitions = 7", "config.providers = env"} <= set(headings["honoured"])


def test_every_wrong_value_is_named_not_only_the_first(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(GOOD + "num.partitions=many\nmin.insync.replicas=0\n")
    code, headings, _ = verdicts(path)
    assert code == REFUSED
    assert [line.split(": ")[1] for line in headings["refused"]] == [
        "min.insync.replicas=0",
        "num.partitions=many",
    ]


def test_values_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(GOOD.replace("1@localhost", "2@localhost"))
    code, headings, _ = verdicts(path)
    assert code == REFUSED
    (line,) = headings["refused"]
    sentence, _, places = line.partition(" (")
    assert sentence == (
        "the settings together: If process.roles contains the 'controller' role, the node id 1 must be "
        "included in the set of voters controller.quorum.voters=Set(2)"
    )
    lines = path.read_text().splitlines()
    roles, voters = (
        next(number for number, text in enumerate(lines, 1) if text.startswith(name))
        for name in ("process.roles", "controller.quorum.voters")
    )
    assert (
        places == f"process.roles at {path} line {roles}, controller.quorum.voters at {path} line {voters})"
    )


def test_what_is_missing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    path.write_text("node.id: 1\nprocess.roles: [broker]\n")
    code, headings, _ = verdicts(path)
    assert code == REFUSED
    (line,) = headings["refused"]
    assert 'Missing required configuration "controller.listener.names"' in line


def test_a_file_that_cannot_be_read_has_its_own_code(tmp_path: Path) -> None:
    out = io.StringIO()
    assert check_file(str(tmp_path / "absent.properties"), out) == UNREADABLE
    assert out.getvalue().endswith("No such file or directory\n")
    (tmp_path / "broken.yaml").write_text("a: 'b\n")
    assert check_file(str(tmp_path / "broken.yaml"), out) == UNREADABLE
