"""Record batches, message format v2: what producers send, what lies in the log, what consumers read.

In reading order: `header` (the 61 bytes in front of each batch), `compression` (five codecs, bounded),
`walk` (one pass over the records), `reader` and `builder` (records as objects and back), `validation` (what a
leader asks of a client's batch, and how it rebuilds one), `single_batch` (the ways of not being exactly one),
`control` (transaction and quorum markers), `legacy` (formats 0 and 1, recognised and refused), `errors` (what
all of them raise).

Pure: bytes in, bytes and values out. Imports nothing of the message codec; storage, controller and broker
import it.
"""
