"""ApiVersions, API key 18. It is sent by all clients."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Tag, request, response
from protocol.primitives import i16, i32, i64


@request(key=18, versions="0-4", flexible="3+", listeners="broker controller")
class ApiVersionsRequest(Message):
    """Asks which APIs the broker serves, and in which versions. It is the first request of most clients.

    From version 3 on the client says what software it is (KIP-511).
    """

    client_software_name: Annotated[str, Since(3), Ignorable] = ""
    client_software_version: Annotated[str, Since(3), Ignorable] = ""


@response(key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse(Message):
    """Lists the APIs with the versions that are served, and the features of the cluster (KIP-584).

    Its header always has version 0, so that every client can read it. A version of the request that the
    broker does not serve is answered in version 0.
    """

    class ApiVersion(Struct):
        """Names an API, and the versions of it that are served."""

        api_key: i16 = 0
        min_version: i16 = 0
        max_version: i16 = 0

    class SupportedFeatureKey(Struct):
        """Names a feature, and the levels of it that the broker can run."""

        name: str = ""
        min_version: i16 = 0
        max_version: i16 = 0

    class FinalizedFeatureKey(Struct):
        """Names a feature, and the level of it that the cluster runs."""

        name: str = ""
        max_version_level: i16 = 0
        min_version_level: i16 = 0

    error_code: i16 = 0
    api_keys: list[ApiVersion] = []
    throttle_time_ms: Annotated[i32, Since(1), Ignorable] = 0
    supported_features: Annotated[list[SupportedFeatureKey], Tag(0, since=3), Ignorable] = []
    finalized_features_epoch: Annotated[i64, Tag(1, since=3), Ignorable] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], Tag(2, since=3), Ignorable] = []
    zk_migration_ready: Annotated[bool, Tag(3, since=3), Ignorable] = False
