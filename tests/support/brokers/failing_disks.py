"""A second log directory for each node of a cluster, on a disk that a test fills, takes away and replaces.

Records lie in both directories; the metadata log stays in the first one, which is never out of order. Where
the user may mount file systems each disk is one of its own, of some megabytes, and a file takes all the room
it has left; elsewhere it is a folder that can be taken away and cannot be filled. A directory that is renamed
stands for a disk that is gone: for Apache Kafka as for Barnabas the next file to be made in it fails. When a
test fails, what is on the disks is copied into folders before they are unmounted, for those who look for the
cause.

    with FailingDisks(folder) as disks:
        disks.attach(cluster)                   after its format, before the first start of its nodes
        disks[2].fill(); disks[2].make_room()
        disks[2].take_away()
        disks[2].give_back()                    or `replace`: another disk, with nothing on it
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path
from typing import Final, Self

from protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from tests.support.brokers.cluster import Cluster, Node
from tests.support.clients.wire_client import ConnectionEnded, WireClient

__all__ = ["FailingDisks", "NodeDisk"]

BALLAST: Final = "ballast"
PIECE_BYTES: Final = 4096
DESCRIBE_VERSION: Final = 4


class NodeDisk:
    """The disk of one node: `home` is mounted or a folder, `directory` in it is the log directory."""

    def __init__(self, cluster: Cluster, node: Node, home: Path) -> None:
        self.directory = home / "logs"
        self._cluster = cluster
        self._node = node
        self._away = home / "away"
        self._ballast = home / BALLAST

    def fill(self) -> None:
        """Takes all the room that is left."""
        with contextlib.suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while file.write(bytes(PIECE_BYTES)):
                pass

    def make_room(self) -> None:
        self._ballast.unlink()

    def take_away(self) -> None:
        """The directory is gone; files that are open work on, as if it were unmounted lazily."""
        self.directory.rename(self._away)

    def give_back(self) -> None:
        """The directory as it was taken away."""
        self._away.rename(self.directory)

    def replace(self) -> None:
        """An empty directory, formatted as an operator does it; what was taken away is lost."""
        shutil.rmtree(self._away)
        self.format()

    def format(self) -> None:
        """This directory alone; the others of the node are formatted."""
        self._node.format(self._cluster.cluster_id, "--no-initial-controllers", "--ignore-formatted")

    def away(self, topic: str) -> list[int]:
        """The partitions of a topic that were on the disk when it was taken away."""
        return [int(each.name.rpartition("-")[2]) for each in self._away.glob(f"{topic}-*[0-9]")]

    def is_offline(self) -> bool:
        """The node answers and says that it cannot use the directory."""
        try:
            with WireClient(self._node.client_address, timeout_seconds=5) as client:
                told = client.ask_for(DescribeLogDirsResponse, DescribeLogDirsRequest(None), DESCRIBE_VERSION)
        except (OSError, ConnectionEnded):
            return False
        errors = {result.log_dir: result.error_code for result in told.results}
        return errors[str(self.directory)] != 0


class FailingDisks:
    """The disks of a cluster, by node id once they are attached; unmounted at the end."""

    def __init__(self, folder: Path, size_mib: int = 64) -> None:
        """size_mib: of each disk, if it is one of its own."""
        self._folder = folder
        self._size_mib = size_mib
        self._mounted: list[Path] = []
        self._disks: dict[int, NodeDisk] = {}

    @property
    def can_be_full(self) -> bool:
        return bool(self._mounted)

    def __getitem__(self, node_id: int) -> NodeDisk:
        return self._disks[node_id]

    def attach(self, cluster: Cluster) -> None:
        """Each node gets its second directory."""
        for node_id, node in cluster.nodes.items():
            home = self._folder / f"disk-{node_id}"
            home.mkdir()
            self._mount(home)
            disk = self._disks[node_id] = NodeDisk(cluster, node, home)
            node.properties["log.dirs"] = f"{node.data},{disk.directory}"
            node.properties["metadata.log.dir"] = str(node.data)
            disk.format()

    def _mount(self, home: Path) -> None:
        command = ["mount", "-t", "tmpfs", "-o", f"size={self._size_mib}m", "small", str(home)]
        with contextlib.suppress(FileNotFoundError):
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                self._mounted.append(home)

    def close(self) -> None:
        for home in self._mounted:
            subprocess.run(["umount", "-l", str(home)], check=True)
        self._mounted.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is not None:
            for home in self._mounted:
                copy = home.with_name(f"{home.name}-at-failure")
                with contextlib.suppress(OSError):  # nodes that still run may change it meanwhile
                    shutil.copytree(home, copy, ignore=shutil.ignore_patterns(BALLAST))
        self.close()
