"""``import barnabas``: a Kafka-compatible broker for tests, scripts and notebooks.

    from barnabas import Broker

    with Broker() as broker:
        print(broker.bootstrap_servers)

In the wheel this file is ``barnabas/__init__.py``. In a clone it is found when this folder is on the path,
and the rest of the package lies one folder up.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from barnabas.embedded import (  # type: ignore[import-not-found, unused-ignore]
        Broker,
        BrokerFailed,
        TopicRefused,
    )

__all__ = ["Broker", "BrokerFailed", "TopicRefused"]

_HERE: Final = Path(__file__).resolve().parent
__path__ = (str(_HERE if (_HERE / "embedded.py").is_file() else _HERE.parent),)


def __getattr__(name: str) -> Any:
    """The names above, imported when they are asked for: the command line needs none of them."""
    if name in __all__:
        return getattr(import_module("barnabas.embedded"), name)
    raise AttributeError(f"module 'barnabas' has no attribute {name!r}")


if __name__ == "__main__":  # `python -m barnabas` in a clone; in the wheel that is __main__.py
    sys.exit(import_module("barnabas.__main__").main())
