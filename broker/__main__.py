"""``python -m broker …``, in a clone; ``barnabas …``, where it is installed.

Only the parser is imported here: each command imports what it needs, so that
`--help` and `--version` answer at once and `start` pays for nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code of the process.

    0 done, 1 refused or failed with a line that says why, 2 the command line
    itself was wrong, 70 the broker found an invariant of its own broken.
    """
    from broker.cli.parser import build_parser

    options = build_parser().parse_args(sys.argv[1:] if arguments is None else arguments)
    code: int = options.run(options)
    return code


if __name__ == "__main__":
    sys.exit(main())
