"""The APIs of the controller listener: one file each, and one for the requests of the quorum itself.

Each file opens with what it serves and what it leaves out. Its function `handle` is entered in
`controller.handler_table`, from which ApiVersions is read.

Imported by `controller.handler_table`, and through it by the composition root alone.
"""
