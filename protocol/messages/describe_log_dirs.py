"""DescribeLogDirs, API key 35. It is sent by admin clients."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i16, i32, i64


@request(key=35, versions="1-5", flexible="2+", listeners="broker")
class DescribeLogDirsRequest(Message):
    """Asks which replicas lie in the log directories of a broker (KIP-113)."""

    class DescribableLogDirTopic(Struct):
        """Names partitions of one topic."""

        topic: str = ""
        partitions: list[i32] = []

    topics: list[DescribableLogDirTopic] | None = []


@response(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse(Message):
    """Tells the size and the lag of each replica, by log directory.

    From version 4 on it tells the size of the volume (KIP-827), and from version 5 on whether the directory
    is cordoned.
    """

    class DescribeLogDirsResult(Struct):
        """Describes one log directory."""

        error_code: i16 = 0
        log_dir: str = ""
        topics: list["DescribeLogDirsResponse.DescribeLogDirsTopic"] = []
        total_bytes: Annotated[i64, Since(4), Ignorable] = -1
        usable_bytes: Annotated[i64, Since(4), Ignorable] = -1
        is_cordoned: Annotated[bool, Since(5), Ignorable] = False

    class DescribeLogDirsTopic(Struct):
        """Lists the replicas of one topic in the log directory."""

        name: str = ""
        partitions: list["DescribeLogDirsResponse.DescribeLogDirsPartition"] = []

    class DescribeLogDirsPartition(Struct):
        """Tells the size of one replica, and how far it lags behind."""

        partition_index: i32 = 0
        partition_size: i64 = 0
        offset_lag: i64 = 0
        is_future_key: bool = False

    throttle_time_ms: i32 = 0
    error_code: Annotated[i16, Since(3), Ignorable] = 0
    results: list[DescribeLogDirsResult] = []
