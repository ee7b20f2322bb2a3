"""Which requests a fuzzing client makes, one after the other, all from one seed.

The dice of each request are its own: seed and number give API, version, mood and words. What answers told is
woven in where a request names what exists, so a number alone repeats a request but for those names; the frame
that did harm is kept in a file too.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from struct import pack
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from controller.handlers.envelope import FORWARDED
from protocol.registry import ApiKey, api
from tests.support.fuzz import words
from tests.support.fuzz.knowledge import Knowledge
from tests.support.fuzz.stories import LONGEST_STORY, STORIES, Step
from tests.support.fuzz.writing import Body, Mood

LEFT_OUT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "UnregisterBroker of broker 1": "the only broker would be forgotten, as the operator asked",
        "BrokerHeartbeat of broker 1 with want_shut_down": "the controller takes its partitions from it",
        "BrokerHeartbeat with directories of broker 1 offline": "the partitions in them have no leader then",
        "configs of listeners, connections and message.max.bytes": "they shut out clients by design",
        "quotas of more than nobody": "they mute clients by design, for days if they are low",
        "topics of more than 130 partitions": "their directories, and not requests, are what takes time",
    }
)
"""What the requests never ask for, and why: it makes the node unusable for others without any fault in it."""

_MOODS: Final = (
    (Mood.DECENT, 20), (Mood.ONE_WORD, 30), (Mood.SOME, 22), (Mood.WILD, 16), (Mood.CROWD, 12),
)  # fmt: skip
_FRAMES: Final = ((2_000, 45), (20_000, 33), (200_000, 16), (1_000_000, 4), (4_000_000, 2))
"""Largest bodies and how often they are allowed: many a request stays far below."""
OF_THE_QUORUM: Final = frozenset(
    {ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.UPDATE_RAFT_VOTER}
)
"""A leader that hears of a higher epoch resigns, and the next comes after a moment: so these are rare. They
have their turns as all others, and dice name them in one case of many."""
_QUORUM_CHANCE: Final = 0.05
_TURNS: Final = 2
"""The last requests of a block: each asks the next version of all that are offered, whatever the dice say."""
_BLOCK: Final = LONGEST_STORY + _TURNS
"""Requests. A story begins with a block and is over before its turns."""
_STORY_CHANCE: Final = 0.5
_ODD_CLIENT_CHANCE: Final = 0.005
_NOBODY: Final = ("nobody-here", "nobody-there")
_OTHER_BROKERS: Final = (-1, 0, 2, 3, 2**31 - 1, -(2**31))


class Offer(NamedTuple):
    """An API in a version at one of the two listeners."""

    is_controller: bool
    key: int
    first: int
    last: int

    @property
    def versions(self) -> range:
        return range(self.first, self.last + 1)

    def at_least(self, version: int) -> Offer:
        return self._replace(first=max(self.first, version))


class Made(NamedTuple):
    """One request as it goes over the wire. story: what is odd in it, in few words."""

    number: int
    is_controller: bool
    key: int
    version: int
    frame: bytes
    story: str
    said: dict[str, Any]
    decodable: bool
    answered: bool
    """Whether an answer is due: Produce with acks=0 has none."""

    def __str__(self) -> str:
        listener = "controller" if self.is_controller else "broker"
        name = f"{api(self.key).name} {self.version}"
        return f"#{self.number} {name} ({listener}, {len(self.frame)} bytes) {self.story}"


class RequestMaker:
    """See the module. `offers`: what is asked for. `largest_bytes`: of a request's body."""

    def __init__(self, seed: int, offers: Iterable[Offer], world: Knowledge, largest_bytes: int) -> None:
        self._seed = seed
        self._world = world
        self._largest_bytes = largest_bytes
        self._offers = list(offers)
        self._turns = [
            each._replace(first=version, last=version) for each in self._offers for version in each.versions
        ]
        random.Random(f"turns {seed}").shuffle(self._turns)
        self._by_key = {(offer.key, offer.is_controller): offer for offer in self._offers}
        self._told: tuple[int, Sequence[Step]] = (-1, ())

    def make(self, number: int) -> Made:
        random_source = random.Random(f"{self._seed} {number}")
        steps = self._story(number // _BLOCK)
        if number % _BLOCK < len(steps):
            step = steps[number % _BLOCK]
            mood = random_source.choice((Mood.DECENT, Mood.DECENT, Mood.ONE_WORD))
            offer = self._by_key[step.key, False].at_least(step.first_version)
            return self._request(random_source, number, offer, mood, step.given, 20_000)
        offer = self._turn(number) or self._pick(random_source)
        mood = random_source.choices([each for each, _ in _MOODS], [weight for _, weight in _MOODS])[0]
        size = random_source.choices([each for each, _ in _FRAMES], [weight for _, weight in _FRAMES])[0]
        return self._request(random_source, number, offer, mood, {}, min(size, self._largest_bytes))

    def _story(self, block: int) -> Sequence[Step]:
        """The steps with which a block of requests begins; most blocks tell no story."""
        if self._told[0] != block:
            random_source = random.Random(f"{self._seed} story {block}")
            told = (
                random_source.choice(STORIES)(random_source, self._world)
                if random_source.random() < _STORY_CHANCE
                else ()
            )
            self._told = block, [step for step in told if (step.key, False) in self._by_key]
        return self._told[1]

    @property
    def requests_of_all_turns(self) -> int:
        """So many requests in a row, from any number on, ask every version of every API."""
        blocks = -(-len(self._turns) // _TURNS)
        return (blocks + 1) * _BLOCK

    def _turn(self, number: int) -> Offer | None:
        """The version whose turn it is; None for a request that is in nobody's turn."""
        block, place = divmod(number, _BLOCK)
        place -= LONGEST_STORY
        return self._turns[(block * _TURNS + place) % len(self._turns)] if place >= 0 else None

    def _pick(self, random_source: random.Random) -> Offer:
        """Any version, or any API."""
        while True:
            if random_source.random() < 0.5:
                offer = random_source.choice(self._turns)
            else:
                offer = random_source.choice(self._offers)
            is_frequent = offer.key not in OF_THE_QUORUM or len(self._offers) < 10
            if is_frequent or random_source.random() < _QUORUM_CHANCE:
                return offer

    def _request(
        self,
        random_source: random.Random,
        number: int,
        offer: Offer,
        mood: Mood,
        given: Mapping[str, Any],
        largest_bytes: int,
    ) -> Made:
        version = random_source.randint(offer.first, offer.last)
        guarded = dict(given) | self._guarded(random_source, offer.key)
        if offer.key == ApiKey.ENVELOPE and random_source.random() < 0.85:
            guarded["request_data"] = self._forwarded(random_source, number, mood, largest_bytes)
        body = Body(version, mood, random_source, self._world, largest_bytes)
        data = body.write(api(offer.key).request, guarded)
        acks = body.said.get("acks", -1)
        header, is_readable = self._header(random_source, number, offer.key, version)
        return Made(
            number,
            offer.is_controller,
            offer.key,
            version,
            header + data,
            ", ".join((mood.name.lower(), *body.notes[:6])),
            body.said,
            body.decodable and is_readable,
            not (offer.key == ApiKey.PRODUCE and acks % 65_536 == 0),
        )

    def _header(
        self, random_source: random.Random, number: int, key: int, version: int
    ) -> tuple[bytes, bool]:
        """With whether it can be read. The client id names the request, so that the broker's log does."""
        name = b"fuzz-%d-%d" % (self._seed, number)
        if random_source.random() < _ODD_CLIENT_CHANCE:
            name += b"-" + words.string(random_source, largest_bytes=32_700)
        name = name[: words.STRING_LIMIT]
        flexible = api(key).request.declaration.flexible.covers(version)
        head = pack(">hhih", key, version, number % 2**31, len(name))
        return head + name + (b"\0" if flexible else b""), words.is_text(name)

    def _forwarded(self, random_source: random.Random, number: int, mood: Mood, largest_bytes: int) -> bytes:
        """A request as a broker passes it on."""
        inner = [offer for offer in self._by_key.values() if offer.is_controller and offer.key in FORWARDED]
        if not inner:
            return words.blob(random_source)
        offer = random_source.choice(inner)
        version = random_source.randint(offer.first, offer.last)
        body = Body(version, mood, random_source, self._world, largest_bytes)
        data = body.write(api(offer.key).request, self._guarded(random_source, offer.key))
        return self._header(random_source, number, offer.key, version)[0] + data

    def _guarded(self, random_source: random.Random, key: int) -> dict[str, Any]:
        """Values that keep a request out of `LEFT_OUT`."""
        match key:
            case ApiKey.ALTER_CLIENT_QUOTAS if random_source.random() < 0.3:
                nobody = {"entity_type": "user", "entity_name": random_source.choice(_NOBODY)}
                return {"entries": [{"entity": [nobody]}] * random_source.choice((1, 1, 2))}
            case ApiKey.ALTER_CLIENT_QUOTAS:
                return {"validate_only": True}
            case ApiKey.UNREGISTER_BROKER:
                return {"broker_id": random_source.choice(_OTHER_BROKERS)}
            case ApiKey.BROKER_HEARTBEAT:
                if random_source.random() < 0.5:
                    return {"broker_id": random_source.choice(_OTHER_BROKERS)}
                return {"want_shut_down": False, "offline_log_dirs": []}
        return {}
