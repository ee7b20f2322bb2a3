"""Transactional ids against a dumb model: whatever is asked, by whomever, while the log refuses and
coordinators come and go.

The model knows for each id who owns it, which partitions its open transaction has, and how it was asked to
end. It knows nothing of states and of how epochs are raised. What holds:

* a producer id and epoch is given to one producer, and never again;
* only the owner adds partitions and ends the transaction; everybody before it is fenced;
* each transaction ends once, with all its partitions, committed only if its owner has asked for that, and
  with an epoch that fences those who wrote in it where the version of transactions says so;
* an id is never stuck: as soon as the log takes records and markers are written, its next producer gets an
  epoch;
* a coordinator that loads the log knows what the one before knew.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from broker.coordinator.transaction.transaction_metadata import LARGEST_EPOCH, TransactionMetadata
from broker.coordinator.transaction.transaction_operation import EndedTransaction
from broker.coordinator.transaction.transaction_records import read_transaction, transaction_record
from protocol.errors import ErrorCode
from tests.support.rigs.group_world import now
from tests.support.rigs.transaction_world import TransactionWorld

IDS: Final = ("t", "u")
PARTITIONS: Final = (("a", 0), ("a", 1), ("b", 0))
REFUSED: Final = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
"""What a client hears when the log has refused, or when there are no producer ids."""
FENCED: Final = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
TIMEOUT_MS: Final = 600_000
"""More than all other rules of a run let pass."""
Identity = tuple[int, int]


class Model:
    """What is known of one transactional id."""

    def __init__(self) -> None:
        self.owner: Identity | None = None
        self.given: list[Identity] = []
        """Everybody who ever was the owner."""
        self.open: set[tuple[str, int]] = set()
        self.asked: bool | None = None
        """Whether the end that is under way commits; None if the owner has asked for none."""

    def give(self, identity: Identity) -> None:
        assert identity not in self.given, f"{identity} is given twice"
        assert identity[1] < LARGEST_EPOCH, "nobody is left who could fence it"
        assert all(identity[0] != pid or identity[1] > epoch for pid, epoch in self.given)
        self.given.append(identity)
        self.owner = identity


class TransactionsMachine(RuleBasedStateMachine):
    @initialize(version=st.sampled_from([0, 1, 2]), epoch=st.sampled_from([0, 32_764, 32_766]))
    def begin(self, version: int, epoch: int) -> None:
        self.version = version
        self.world = TransactionWorld(version)
        self.models = {id_: Model() for id_ in IDS}
        if epoch:
            self._begin_near_the_last_epoch(epoch)

    def _begin_near_the_last_epoch(self, epoch: int) -> None:
        """Many epochs have been given before."""
        for id_ in IDS:
            response = now(self.world.init(id_, TIMEOUT_MS))
            metadata = self.world.shard.by_id[id_]
            aged = msgspec.structs.replace(metadata, producer_epoch=epoch)
            self._write_by_hand(id_, aged)
            self.models[id_].give((response.producer_id, epoch))

    def _write_by_hand(self, id_: str, metadata: TransactionMetadata) -> None:
        def operation(shard: Any, begun: Any) -> ErrorCode:
            begun.write(shard, id_, metadata)
            return ErrorCode.NONE

        assert now(self.world._write(operation, lambda error: error)) is ErrorCode.NONE

    @property
    def client_version(self) -> int:
        return 2 if self.version == 2 else 0

    # What producers do

    @rule(id_=st.sampled_from(IDS))
    def init(self, id_: str) -> None:
        model = self.models[id_]
        response = now(self.world.init(id_, TIMEOUT_MS))
        if response.error_code == 0:
            assert not model.open, "an open transaction is lost"
            model.give((response.producer_id, response.producer_epoch))
            model.asked = None
        elif response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            assert model.open, "there is nothing to wait for"
            model.owner = None
        else:
            assert response.error_code in REFUSED

    @rule(id_=st.sampled_from(IDS), again=st.booleans())
    def go_on_after_an_error(self, id_: str, again: bool) -> None:
        """The owner asks for another epoch, and perhaps repeats that."""
        model = self.models[id_]
        if model.owner is None or model.open:
            return
        fields = {"producer_id": model.owner[0], "producer_epoch": model.owner[1]}
        first = now(self.world.init(id_, TIMEOUT_MS, **fields))
        if first.error_code:
            assert first.error_code in REFUSED
            return
        model.give((first.producer_id, first.producer_epoch))
        if again:
            second = now(self.world.init(id_, TIMEOUT_MS, **fields))
            assert (second.producer_id, second.producer_epoch, second.error_code) == (*model.owner, 0)

    @rule(id_=st.sampled_from(IDS), who=st.integers(0, 3), partition=st.sampled_from(PARTITIONS))
    def add(self, id_: str, who: int, partition: tuple[str, int]) -> None:
        model = self.models[id_]
        if not model.given:
            return
        producer = model.given[-1 - who % len(model.given)]
        error = now(self.world.add(id_, producer, [partition], self.client_version))
        if error is ErrorCode.NONE:
            assert producer == model.owner, "somebody else has added a partition"
            assert model.asked is None
            model.open.add(partition)
        elif producer != model.owner:
            assert error in FENCED
        else:
            assert error in REFUSED or (error is ErrorCode.CONCURRENT_TRANSACTIONS and model.open)

    @rule(id_=st.sampled_from(IDS), who=st.integers(0, 3), committed=st.booleans(), again=st.booleans())
    def end(self, id_: str, who: int, committed: bool, again: bool) -> None:
        model = self.models[id_]
        if not model.given:
            return
        producer = model.given[-1 - who % len(model.given)]
        response = now(self.world.end(id_, producer, committed, self.client_version))
        if response.error_code or producer != model.owner:
            if producer == model.owner:
                assert response.error_code in (
                    *REFUSED, ErrorCode.INVALID_TXN_STATE, ErrorCode.CONCURRENT_TRANSACTIONS
                )  # fmt: skip
                assert response.error_code != ErrorCode.INVALID_TXN_STATE or not model.open
            return
        if self.version == 2:
            model.give((response.producer_id, response.producer_epoch))
        if model.open:
            model.asked = committed
        if again and model.open:
            repeated = now(self.world.end(id_, producer, committed, self.client_version))
            assert repeated.error_code == ErrorCode.CONCURRENT_TRANSACTIONS

    @rule(id_=st.sampled_from(IDS))
    def verify(self, id_: str) -> None:
        model = self.models[id_]
        if model.owner is None or model.asked is not None:
            return
        for partition, error in now(self.world.verify(id_, model.owner, PARTITIONS)).items():
            assert (error is ErrorCode.NONE) == (partition in model.open)

    # What the coordinator does

    @rule(id_=st.sampled_from(IDS))
    def write_markers(self, id_: str) -> None:
        ended = self.world.write_markers(id_)
        if ended is not None:
            self._ended(id_, ended)

    def _ended(self, id_: str, ended: EndedTransaction) -> None:
        """Every partition has its marker. Told twice, because the end was not stored, it is the same."""
        model = self.models[id_]
        if model.open:
            assert ended.partitions == model.open
            assert ended.committed == bool(model.asked), "an outcome for which nobody has asked"
        if self.version == 2:
            assert all(ended.producer_id != pid or ended.producer_epoch > epoch
                       for pid, epoch in model.given[: -1 if model.asked is not None else None])  # fmt: skip
        if not self.world.shard.by_id[id_].state.is_prepared:
            model.open, model.asked = set(), None

    @rule()
    def overdue(self) -> None:
        """All transactions are open for too long: they are aborted, and their producers fenced."""
        if self.world.log.refusal:
            return
        self.world.timers.advance(TIMEOUT_MS + 20_000)
        for id_, model in self.models.items():
            if model.open and model.asked is None:
                assert id_ in self.world.markers.sent
                model.owner = None

    @rule()
    def another_coordinator(self) -> None:
        recorded = {
            id_: transaction_record(id_, metadata, self.version).value
            for id_, metadata in self.world.shard.by_id.items()
        }
        self.world.resign()
        self.world.lead()
        assert self.world.shard.by_id == {
            id_: read_transaction(value) for id_, value in recorded.items() if value is not None
        }
        self.world.timers.advance(1)

    @rule(refuses=st.booleans())
    def the_log(self, refuses: bool) -> None:
        self.world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS if refuses else ErrorCode.NONE
        self.world.timers.advance(5_000)

    @rule(has_some=st.booleans())
    def producer_ids(self, has_some: bool) -> None:
        self.world.has_producer_ids = has_some

    # What holds all the time

    @invariant()
    def nobody_is_stuck(self) -> None:
        """A decided transaction waits for its markers, or for the log."""
        if not hasattr(self, "world") or self.world.log.refusal:
            return
        self.world.timers.advance(2_000)
        for id_, metadata in self.world.shard.by_id.items():
            assert metadata.state.is_prepared == (id_ in self.world.markers.sent), (id_, metadata)

    def teardown(self) -> None:
        """At last the log takes records again, and everybody who asks gets an epoch."""
        if not hasattr(self, "world"):
            return
        self.world.log.refusal, self.world.has_producer_ids = ErrorCode.NONE, True
        self.world.timers.advance(5_000)
        for id_ in IDS:
            for _ in range(2):
                self.write_markers(id_)
                self.init(id_)
            self.write_markers(id_)
            self.init(id_)
            assert self.models[id_].owner is not None


TransactionsMachine.TestCase.settings = settings(stateful_step_count=40, deadline=None)
test_transactions = pytest.mark.slow(TransactionsMachine.TestCase)
