"""Removed."""

from protocol.codec.message import Message, request, response


@request(key=7, versions="none", flexible="none", listeners="")
class ControlledShutdownRequest(Message):
    """ZK controlled shutdown."""


@response(key=7, versions="none", flexible="none")
class ControlledShutdownResponse(Message):
    """Answer: ZK controlled shutdown."""


@request(key=4, versions="none", flexible="none", listeners="")
class LeaderAndIsrRequest(Message):
    """ZK controller -> broker leader/ISR push."""


@response(key=4, versions="none", flexible="none")
class LeaderAndIsrResponse(Message):
    """Answer: ZK controller -> broker leader/ISR push."""


@request(key=5, versions="none", flexible="none", listeners="")
class StopReplicaRequest(Message):
    """ZK controller -> broker stop replica."""


@response(key=5, versions="none", flexible="none")
class StopReplicaResponse(Message):
    """Answer: ZK controller -> broker stop replica."""


@request(key=6, versions="none", flexible="none", listeners="")
class UpdateMetadataRequest(Message):
    """ZK controller -> broker metadata push."""


@response(key=6, versions="none", flexible="none")
class UpdateMetadataResponse(Message):
    """Answer: ZK controller -> broker metadata push."""
