"""Record batches, message format v2: what producers send, what lies in the log, what consumers read.

In reading order:

* `header`              the 61 bytes in front of each batch
* `compression`         the five compression codecs, with a bound on what they decompress into
* `walk`                one pass over the records of a batch
* `unfolding`           decompresses a batch piece by piece
* `time_walk`           finds the first record at or after a time in a batch, piece by piece
* `reader`, `builder`   record bytes as objects, and objects as record bytes
* `verdict`             the rules that a topic sets for its batches, and a batch that was accepted
* `validation`          checks what a leader requires of a client's batch
* `record_validation`   checks what only the records tell, in steps, and rebuilds the batch
* `single_batch`        checks that the bytes are exactly one batch
* `control`             transaction markers and the control records of KRaft
* `legacy`              message formats 0 and 1, which are recognised and refused
* `errors`              the errors that all of them raise

Pure: bytes in, bytes and values out. It imports nothing of the message codec; storage, controller and broker
import it.
"""
