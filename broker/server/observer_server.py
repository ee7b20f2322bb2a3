"""The replica of the metadata log on a node that is a broker and no controller: an observer of the quorum.

It fetches the log and its snapshots from whichever controller leads, into `__cluster_metadata-0` on this
node's disk, as Kafka's brokers do. Its own broker reads the committed records from it, over frames on the
loop, as it would from a controller of the same node; requests to the active controller go over the network.
The replica has no listener: nobody else asks it anything.

As the log grows the broker's image is written as a snapshot, so that the next start need not replay it all.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.controller_channel.peer.to_leader import LeaderPeer
from broker.dispatch.dispatcher import Dispatcher
from broker.security.authorizer import AllowAll
from broker.server.quorum import LeaderChannels, open_metadata_log
from broker.server.shared_server import SharedServer
from controller.handler_table import observer_handlers
from controller.metadata.image.cluster_image import ClusterImage, ImageDelta
from controller.services import ObserverServices
from controller.snapshotting import SnapshotSchedule

__all__ = ["ObserverServer"]


class ObserverServer:
    """The observer of a node that is a broker alone. It is made after the log directories are locked, and
    fetches when it is started and the loop runs.

    It is also a publisher (`broker.metadata.publishers`), which writes the snapshots.
    """

    def __init__(self, shared: SharedServer) -> None:
        config = shared.config
        self.log = open_metadata_log(shared, endpoints={})
        self._snapshots = SnapshotSchedule(self.log, config, shared.clock, shared.timers)
        handlers = observer_handlers()
        services = ObserverServices(
            node_id=shared.node_id,
            cluster_id=shared.cluster_id,
            clock=shared.clock,
            timers=shared.timers,
            log=self.log,
        )
        dispatcher = Dispatcher(
            handlers,
            services,
            clock=shared.clock,
            authorizer=AllowAll(),
            lane=shared.lane,
            current=shared.current_request,
        )
        self._channels = LeaderChannels(
            shared, self.log, dispatcher, handlers, config.controller_listener_names[0]
        )

    def start(self) -> None:
        """Starts the replica: it looks for the leader of the quorum."""
        self.log.start()

    def channel(self, client_id: str) -> LeaderPeer:
        """A channel to the active controller. A request that waits long needs a channel of its own."""
        return self._channels.channel(client_id)

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        """Implements `broker.metadata.publishers.MetadataPublisher`."""
        self._snapshots.committed(image)

    def resign(self, timeout_ms: int, then: Callable[[], None]) -> None:
        """Stops fetching; an observer has nothing to hand over."""
        self.log.resign_and_stop(timeout_ms, then)

    def shut_down(self) -> None:
        self._snapshots.stop()

    def close_policies(self) -> None:
        """Does nothing, because only controllers have policies."""

    def close(self) -> None:
        """Closes the metadata log. Called after the loop and the helper threads have ended."""
        self.log.shut_down()
