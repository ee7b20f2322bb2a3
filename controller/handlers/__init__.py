"""The APIs of the controller listener. One module per API, and `raft_requests` for those of the quorum.

Each file opens with what it serves and what it leaves out. Its function `handle` is entered in
`controller.handler_table`, from which ApiVersions is read.

Imported by `controller.handler_table`, and through it by the composition root alone.
"""
