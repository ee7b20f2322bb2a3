"""The APIs that Kafka 4.0 removed with ZooKeeper. Their keys stay reserved, and they have no versions."""

from protocol.codec.message import Message, request, response


@request(key=7, versions="none", flexible="none", listeners="")
class ControlledShutdownRequest(Message):
    """Told the ZooKeeper controller that a broker wants to shut down. Kafka 4.0 removed it."""


@response(key=7, versions="none", flexible="none")
class ControlledShutdownResponse(Message):
    """Answers a request that Kafka removed in 4.0."""


@request(key=4, versions="none", flexible="none", listeners="")
class LeaderAndIsrRequest(Message):
    """Told a broker which partitions to lead or to follow, from the ZooKeeper controller. Kafka 4.0 removed
    it."""


@response(key=4, versions="none", flexible="none")
class LeaderAndIsrResponse(Message):
    """Answers a request that Kafka removed in 4.0."""


@request(key=5, versions="none", flexible="none", listeners="")
class StopReplicaRequest(Message):
    """Told a broker to stop or delete replicas, from the ZooKeeper controller. Kafka 4.0 removed it."""


@response(key=5, versions="none", flexible="none")
class StopReplicaResponse(Message):
    """Answers a request that Kafka removed in 4.0."""


@request(key=6, versions="none", flexible="none", listeners="")
class UpdateMetadataRequest(Message):
    """Told a broker the metadata of the cluster, from the ZooKeeper controller. Kafka 4.0 removed it."""


@response(key=6, versions="none", flexible="none")
class UpdateMetadataResponse(Message):
    """Answers a request that Kafka removed in 4.0."""
