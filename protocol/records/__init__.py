"""Record batches, message format v2: what producers send, what lies in the log, what consumers read.

In reading order: `header` (the 61 bytes in front of each batch), `compression` (five codecs, bounded),
`walk` (one pass over the records), `unfolding` and `time_walk` (a batch piece by piece, and the first record
at or after a time in it), `reader` and `builder` (records as objects and back), `verdict` (a topic's rules,
and what became of a batch), `validation` (what a leader asks of a client's batch), `record_validation` (what
only its records tell, in steps, and how it is rebuilt), `single_batch` (the ways of not being exactly one),
`control` (transaction and quorum markers), `legacy` (formats 0 and 1, recognised and refused), `errors` (what
all of them raise).

Pure: bytes in, bytes and values out. Imports nothing of the message codec; storage, controller and broker
import it.
"""
