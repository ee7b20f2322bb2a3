"""The APIs of the controller listener, one file each.

Each file opens with what it serves and what it leaves out, and holds one function that is marked by
`protocol.serving.handler_table.serves`. `controller.handler_table` lists them; ApiVersions is read from that
list.

Imported by `controller.handler_table`, and through it by the composition root alone.
"""
