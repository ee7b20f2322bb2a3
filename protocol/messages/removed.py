"""The APIs that went with ZooKeeper: their keys stay reserved, their versions are none."""

from protocol.codec.message import Message, request, response


@request(key=7, versions="none", flexible="none", listeners="")
class ControlledShutdownRequest(Message):
    """A broker's wish to leave, told to the ZooKeeper controller; gone since 4.0."""


@response(key=7, versions="none", flexible="none")
class ControlledShutdownResponse(Message):
    """The response to a request that Kafka removed in 4.0."""


@request(key=4, versions="none", flexible="none", listeners="")
class LeaderAndIsrRequest(Message):
    """The ZooKeeper controller's order to lead or follow; gone since 4.0."""


@response(key=4, versions="none", flexible="none")
class LeaderAndIsrResponse(Message):
    """The response to a request that Kafka removed in 4.0."""


@request(key=5, versions="none", flexible="none", listeners="")
class StopReplicaRequest(Message):
    """The ZooKeeper controller's order to drop a replica; gone since 4.0."""


@response(key=5, versions="none", flexible="none")
class StopReplicaResponse(Message):
    """The response to a request that Kafka removed in 4.0."""


@request(key=6, versions="none", flexible="none", listeners="")
class UpdateMetadataRequest(Message):
    """The ZooKeeper controller's news of the cluster; gone since 4.0."""


@response(key=6, versions="none", flexible="none")
class UpdateMetadataResponse(Message):
    """The response to a request that Kafka removed in 4.0."""
