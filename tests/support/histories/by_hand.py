"""Histories written by hand, some words for each event; the time is the number of the event.

Events are parted by semicolons.

w1 transaction a-0:x b-0:y          begins; `copiers<a-0:x@3` after it: takes in x for the group copiers
w1 commit                           asks for it; or `abort`
w1 ok a-0:x@0 b-0:y@0               or `fail`, or `info`; the offsets, as far as they were told
w2 write a-0:z                      begins to write outside of transactions
r1 assign a-0@0 b-0@0               `uncommitted` after it: reads all
r1 poll a-0:x@0
r1 end a-0@2 b-0@2/5                /5: the high watermark, if it is above
admin deleted a-0@2                 asks that all below offset 2 be deleted
nemesis fault kill                  begins; ended by `nemesis ok`
"""

from __future__ import annotations

import re
from typing import Any, Final

from broker.simulation.histories.history import READ_UNCOMMITTED, Event, History, Record

__all__ = ["history_by_hand"]

RECORD: Final = re.compile(r"(?:(?P<group>\w+)<)?(?P<partition>[\w-]+):(?P<value>\w+)(?:@(?P<offset>\d+))?")
PLACE: Final = re.compile(r"(?P<partition>[\w-]+)@(?P<offset>\d+)(?:/(?P<high>\d+))?")


def history_by_hand(text: str) -> History:
    """What is empty does not count."""
    under_way: dict[str, str] = {}
    events: list[Event] = []
    for line in filter(None, map(str.strip, text.split(";"))):
        process, word, *rest = line.split()
        fields: dict[str, Any] = {"type": "invoke", "operation": word}
        if word in ("transaction", "write", "fault"):
            under_way[process] = word
        elif word in ("commit", "abort"):
            fields = {"type": "asks", "operation": under_way[process], "ending": word}
        elif word in ("ok", "fail", "info"):
            fields = {"type": word, "operation": under_way.pop(process)}
        else:
            fields["type"] = "ok"
        events.append(Event(time_ms=len(events), process=process, **fields, **_details(word, rest)))
    return History(events)


def _details(word: str, rest: list[str]) -> dict[str, Any]:
    if word == "fault":
        return {"name": " ".join(rest)}
    details: dict[str, Any] = {}
    for each in rest:
        if each == "uncommitted":
            details["isolation"] = READ_UNCOMMITTED
        elif found := RECORD.fullmatch(each):
            offset = None if found["offset"] is None else int(found["offset"])
            record = Record(found["partition"], found["value"], offset)
            reads = word == "poll" or found["group"]
            details["reads" if reads else "writes"] = (
                *details.get("reads" if reads else "writes", ()),
                record,
            )
            details["group"] = found["group"] or details.get("group", "")
        elif found := PLACE.fullmatch(each):
            details.setdefault("positions", {})[found["partition"]] = int(found["offset"])
            if found["high"]:
                details.setdefault("high_watermarks", {})[found["partition"]] = int(found["high"])
        else:
            raise ValueError(f"what is {each}?")
    return details
