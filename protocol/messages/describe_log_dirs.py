"""DescribeLogDirs, API key 35. Asked by: admin."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i16, i32, i64


@request(key=35, versions="1-5", flexible="2+", listeners="broker")
class DescribeLogDirsRequest(Message):
    """Asks what lies in a broker's log directories (KIP-113)."""

    class DescribableLogDirTopic(Struct):
        """The partitions of one topic."""

        topic: str = ""
        partitions: list[i32] = []

    topics: list[DescribableLogDirTopic] | None = []


@response(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse(Message):
    """Sizes and lags of replicas; from version 4 the volume's size (KIP-827), 5 whether it takes new
    replicas."""

    class DescribeLogDirsResult(Struct):
        """One log directory."""

        error_code: i16 = 0
        log_dir: str = ""
        topics: list["DescribeLogDirsResponse.DescribeLogDirsTopic"] = []
        total_bytes: Annotated[i64, Since(4), Ignorable] = -1
        usable_bytes: Annotated[i64, Since(4), Ignorable] = -1
        is_cordoned: Annotated[bool, Since(5), Ignorable] = False

    class DescribeLogDirsTopic(Struct):
        """Replicas of one topic."""

        name: str = ""
        partitions: list["DescribeLogDirsResponse.DescribeLogDirsPartition"] = []

    class DescribeLogDirsPartition(Struct):
        """One replica: its size and how far it lags."""

        partition_index: i32 = 0
        partition_size: i64 = 0
        offset_lag: i64 = 0
        is_future_key: bool = False

    throttle_time_ms: i32 = 0
    error_code: Annotated[i16, Since(3), Ignorable] = 0
    results: list[DescribeLogDirsResult] = []
