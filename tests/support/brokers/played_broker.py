"""A broker that a test plays by hand: registered with a controller over the wire, and no process behind it.

It follows as a broker does, with Fetch requests under its id and broker epoch, but only when the test says
so.
"""

from __future__ import annotations

import os
from typing import Any

from controller.metadata.supported_features import SUPPORTED_FEATURES
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from tests.support.clients.wire_client import WireClient

FETCH_VERSION = 17


class PlayedBroker:
    """Broker `broker_id`, unfenced when this returns. controller: the address of the active one.

    Its session lasts broker.session.timeout.ms from the last heartbeat on; make that long in such a test.
    """

    def __init__(self, broker_id: int, controller: str, cluster_id: str) -> None:
        self.broker_id = broker_id
        self._controller = controller
        registration = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=cluster_id,
            incarnation_id=os.urandom(16),
            listeners=[BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="127.0.0.1", port=1)],
            features=[
                BrokerRegistrationRequest.Feature(name, levels.lowest, levels.highest)
                for name, levels in SUPPORTED_FEATURES.items()
            ],
            rack=None,
            log_dirs=[os.urandom(16)],
        )
        with WireClient(controller) as client:
            answer = client.ask_for(BrokerRegistrationResponse, registration, 4)
        if answer.error_code:
            raise RuntimeError(f"broker {broker_id} is refused with error {answer.error_code}")
        self.epoch = answer.broker_epoch
        while self.heartbeat().is_fenced:
            pass

    def heartbeat(self, **wishes: Any) -> BrokerHeartbeatResponse:
        """It has always caught up with the metadata."""
        beat = BrokerHeartbeatRequest(self.broker_id, self.epoch, 1 << 40, **wishes)
        with WireClient(self._controller) as client:
            answer = client.ask_for(BrokerHeartbeatResponse, beat, 1)
        if answer.error_code:
            raise RuntimeError(f"the heartbeat is refused with error {answer.error_code}")
        return answer

    def fetch(
        self,
        leader: WireClient,
        topic_id: bytes,
        offset: int,
        *,
        leader_epoch: int = 0,
        last_epoch: int = -1,
        max_wait_ms: int = 0,
    ) -> FetchResponse.PartitionData:
        """One fetch of partition 0 as its follower."""
        wanted = FetchRequest.FetchPartition(0, leader_epoch, offset, last_epoch, 0, 1 << 20)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            topics=[FetchRequest.FetchTopic(topic_id=topic_id, partitions=[wanted])],
            replica_state=FetchRequest.ReplicaState(self.broker_id, self.epoch),
        )
        answer = leader.ask_for(FetchResponse, request, FETCH_VERSION)
        ((data,),) = [topic.partitions for topic in answer.responses]
        return data
