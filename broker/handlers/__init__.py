"""One module per API that this broker answers on its own listeners.

A module opens with its card: what it serves, what each version promises, what it leaves out. It holds one
function marked with `protocol.serving.handler_table.serves`, called `handle(services, context, request)`; the
node lists the modules, and ApiVersions is read from that list. Handlers decode nothing, know no socket and no
coroutine, and never block: what cannot be answered at once is answered by a `Pending`.

Start with `list_offsets` (small and whole), then `produce`, `fetch` and `metadata`.
"""
