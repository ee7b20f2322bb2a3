"""CreateAcls, API key 30. It is sent by admin clients.

Brokers forward the request to the controller.
"""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=30, versions="1-3", flexible="2+", listeners="broker controller")
class CreateAclsRequest(Message):
    """Adds access control entries."""

    class AclCreation(Struct):
        """Holds an access control entry that is to be added."""

        resource_type: i8 = 0
        resource_name: str = ""
        resource_pattern_type: i8 = 3
        principal: str = ""
        host: str = ""
        operation: i8 = 0
        permission_type: i8 = 0

    creations: list[AclCreation] = []


@response(key=30, versions="1-3", flexible="2+")
class CreateAclsResponse(Message):
    """Says for each entry whether it was added."""

    class AclCreationResult(Struct):
        """Says whether one entry was added."""

        error_code: i16 = 0
        error_message: str | None = ""

    throttle_time_ms: i32 = 0
    results: list[AclCreationResult] = []
