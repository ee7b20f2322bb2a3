"""The command line: one module per command, and the parser that knows them all.

Parts, in reading order: ``parser`` (what can be typed), ``start``, ``storage``,
``config_check``, ``codec``. Imported by ``broker.__main__`` alone.
"""
