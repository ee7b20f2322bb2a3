"""The declaration language of messages, and the compiler that makes their codecs.

In reading order:

* `message`                the base classes `Message` and `Struct`, the decorators and the version markers
* `schema`                 reads a class once into a table of fields with their versions
* `lines`                  collects the lines of a generated function
* `decoding`, `encoding`   write a schema at one version as straight-line Python
* `reading`, `writing`     functions that the generated code calls for values that are rare
* `budget`                 estimates the memory that a decoded message takes
* `compiler`               `decoder`, `encoder`, `piece_encoder`, `decode`, `encode`, `source`: for all others

Messages import `message` alone. The other packages mostly need `compiler` and `message`.
"""
