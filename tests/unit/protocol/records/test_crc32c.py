"""CRC-32C: published vectors, and every implementation that may be chosen against the others."""

import random
import subprocess
import sys
from typing import Any

import pytest

from protocol import crc
from protocol.crc import crc32c

IMPLEMENTATIONS = [
    pytest.param(crc.load_crc32c_extension, id="crc32c"),
    pytest.param(crc.load_google_crc32c, id="google-crc32c"),
    pytest.param(crc.load_crcmod, id="crcmod"),
    pytest.param(crc.make_table_checksum, id="table"),
]

VECTORS = [  # RFC 3720, appendix B.4, and the check value of the polynomial
    (b"", 0),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]


@pytest.mark.parametrize("load", IMPLEMENTATIONS)
def test_published_vectors(load: Any) -> None:
    checksum = load()
    if checksum is None:
        pytest.skip(f"{load.__name__}: the package of this implementation of CRC-32C is not installed")
    for data, expected in VECTORS:
        assert checksum(data) == expected
        assert checksum(bytearray(data)) == expected
        assert checksum(memoryview(b"--" + data)[2:]) == expected


@pytest.mark.parametrize("load", IMPLEMENTATIONS)
def test_a_checksum_continues_where_another_ended(load: Any) -> None:
    checksum = load()
    if checksum is None:
        pytest.skip(f"{load.__name__}: the package of this implementation of CRC-32C is not installed")
    data = random.Random(3).randbytes(5000)
    whole = crc32c(data)
    for cut in (0, 1, 7, 4096, 5000):
        assert checksum(data[cut:], checksum(data[:cut])) == whole


def test_the_daemon_uses_the_extension_without_the_slow_package() -> None:
    """`import crc32c` would cost more than the whole protocol; the extension alone does not."""
    code = (
        "import sys; from protocol.crc import crc32c; "
        "print(crc32c(b'123456789'), 'importlib.metadata' in sys.modules, 'crc32c' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == [str(0xE3069283), "False", "False"]
