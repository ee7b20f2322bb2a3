"""The APIs that this broker answers on its own listeners. One module per API, and `forwarding` for others.

A module opens with its card: what it serves, what each version promises, what it leaves out. Its function
`handle(services, context, request)` is entered in `table`, the one list of what a broker listener serves,
from which ApiVersions is read. Handlers decode nothing, know no socket and no coroutine, and never block:
what cannot be answered at once is answered by a `Pending`.

Start with `list_offsets` (small and whole), then `produce`, `fetch` and `metadata`; `forwarding` serves all
that only the controller decides.
"""
