"""A topic deleted while its broker could not hear of it: what is left over is set aside, not destroyed."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.librdkafka import create_topic, until


def test_a_stray_log_is_set_aside_at_the_start(tmp_path: Path) -> None:
    broker = BarnabasProcess(tmp_path / "data")
    with broker.start():
        create_topic(broker.bootstrap_servers, "kept")
        until((broker.data / "kept-0" / "partition.metadata").exists, "its directory is there")
    # A directory that no image knows, as a crash between the deletion and the renaming leaves it.
    stray = broker.data / "forgotten-0"
    shutil.copytree(broker.data / "kept-0", stray)
    (stray / "partition.metadata").write_text("version: 0\ntopic_id: bWVhc3VyZW9mYWxsdGhpbg")
    with broker.start():
        assert not stray.exists()
        assert [path.name for path in broker.data.glob("forgotten-0.*-stray")], "renamed, for an operator"
        assert (broker.data / "kept-0").is_dir()
    assert "forgotten-0 is not in the cluster's metadata any more" in broker.log_file.read_text()
