"""The declaration language of messages, and the compiler that makes their codecs.

Reading order:

* `message`   the bases `Message` and `Struct`, the decorators and the version markers
* `schema`    a class, read once into a table of fields with their versions
* `plan`      a schema at one version, as steps
* `decoding`, `encoding`  steps into straight-line Python
* `compiler`  `decoder`, `encoder`, `piece_encoder`, `decode`, `encode`, `source`: what everybody calls

Messages import `message` alone; only `compiler` is for the rest of the house.
"""
