"""What the table on DynamoDB makes of a network and a service that fail, as no emulator does by itself."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import ClientError
from tests.support.emulator import Emulator, create_table
from tests.support.faults import (
    Fault,
    FaultProxy,
    LateReply,
    LostReply,
    LostRequest,
    Reply,
    fault_proxy,
    refusal,
)

from interlock.adapters import dynamodb
from interlock.adapters.dynamodb import BATCH_ROUNDS, READ_TRIES, DynamoTable, dynamodb_client
from interlock.engine.ports import (
    Check,
    ConditionFailed,
    Delete,
    Equals,
    Item,
    Key,
    Missing,
    OutcomeUnknown,
    Put,
    Update,
    Write,
)

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

KEY = Key("T#acme#1", "META")
OTHER = Key("T#acme#2", "META")
RAW_OLD = {"pk": {"S": KEY.pk}, "sk": {"S": KEY.sk}, "rev": {"N": "7"}, "digest": {"B": "AP8="}}


def cancelled(*reasons: dict[str, object]) -> Reply:
    return refusal("TransactionCanceledException", CancellationReasons=list(reasons))


NONE: dict[str, object] = {"Code": "None"}
CONFLICT: dict[str, object] = {"Code": "TransactionConflict", "Message": "injected"}
THROTTLED: dict[str, object] = {"Code": "ThrottlingError", "Message": "injected"}
CONDITION: dict[str, object] = {"Code": "ConditionalCheckFailed", "Message": "injected", "Item": RAW_OLD}
CONDITION_ON_ABSENT: dict[str, object] = {"Code": "ConditionalCheckFailed", "Message": "injected"}


@pytest.fixture(scope="module")
def running_proxy(emulator: Emulator) -> Iterator[FaultProxy]:
    with fault_proxy(emulator.url) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def client(running_proxy: FaultProxy) -> "DynamoDBClient":
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dynamodb, "READ_SECONDS", 0.5)
        return dynamodb_client(running_proxy.url)


@pytest.fixture
def proxy(running_proxy: FaultProxy) -> FaultProxy:
    running_proxy.reset()
    return running_proxy


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def name(emulator: Emulator) -> str:
    return create_table(emulator.dynamodb)


@pytest.fixture
def table(proxy: FaultProxy, client: "DynamoDBClient", name: str, pauses: list[float]) -> DynamoTable:
    """Behind the proxy; a pause between two tries takes no time and is written down."""
    return DynamoTable(client, name, sleep=pauses.append)


WRITES: dict[str, tuple[Write, ...]] = {
    "PutItem": (Put(KEY, {"rev": 1}, (Missing("rev"),)),),
    "UpdateItem": (Update(KEY, {"rev": 1}, conditions=(Missing("rev"),)),),
    "TransactWriteItems": (
        Put(KEY, {"rev": 1}, (Missing("rev"),)),
        Put(OTHER, {"rev": 1}, (Missing("rev"),)),
    ),
}


@pytest.mark.parametrize("fault", [LostReply(), LostReply(sent=1), LateReply()], ids=repr)
@pytest.mark.parametrize("operation", WRITES)
def test_a_write_whose_reply_is_lost_is_done_once_and_its_outcome_unknown(
    table: DynamoTable, proxy: FaultProxy, operation: str, fault: Fault
) -> None:
    proxy.fail(fault)
    with pytest.raises(OutcomeUnknown):
        table.write(*WRITES[operation])
    # Sent again, it would have met itself: the winner would be told that it lost.
    assert proxy.operations == [operation]
    assert table.get(KEY) == {"rev": 1}


def test_a_delete_whose_reply_is_lost_is_done_once(table: DynamoTable, proxy: FaultProxy) -> None:
    table.write(Put(KEY, {"rev": 1}))
    proxy.fail(LostReply())
    with pytest.raises(OutcomeUnknown):
        table.write(Delete(KEY, (Equals("rev", 1),)))
    assert proxy.operations == ["PutItem", "DeleteItem"]
    assert table.get(KEY) is None


@pytest.mark.parametrize("operation", WRITES)
def test_a_write_that_never_arrived_is_not_sent_again(
    table: DynamoTable, proxy: FaultProxy, operation: str
) -> None:
    proxy.fail(LostRequest())
    with pytest.raises(OutcomeUnknown):
        table.write(*WRITES[operation])
    assert proxy.operations == [operation]
    assert table.get(KEY) is None


def test_nobody_listening_leaves_the_outcome_unknown(emulator: Emulator) -> None:
    with fault_proxy(emulator.url) as proxy:
        url = proxy.url
    pauses: list[float] = []
    table = DynamoTable(dynamodb_client(url), "any", sleep=pauses.append)
    with pytest.raises(OutcomeUnknown):
        table.write(Put(KEY, {}))
    with pytest.raises(OutcomeUnknown):
        table.get(KEY)
    assert len(pauses) == READ_TRIES - 1


REFUSALS = [
    refusal("TransactionConflictException"),
    refusal("TransactionInProgressException"),
    refusal("IdempotentParameterMismatchException"),
    refusal("ProvisionedThroughputExceededException"),
    refusal("ThrottlingException"),
    refusal("RequestLimitExceeded"),
    refusal("InternalServerError", 500),
    refusal("ServiceUnavailable", 503),
    refusal("Unheard", 502),
]


@pytest.mark.parametrize("fault", REFUSALS, ids=repr)
@pytest.mark.parametrize("operation", WRITES)
def test_a_conflict_or_a_throttle_leaves_the_outcome_unknown(
    table: DynamoTable, proxy: FaultProxy, operation: str, fault: Reply
) -> None:
    proxy.fail(fault)
    with pytest.raises(OutcomeUnknown):
        table.write(*WRITES[operation])
    assert proxy.operations == [operation]


@pytest.mark.parametrize("reasons", [[NONE, CONFLICT], [THROTTLED, CONFLICT], [NONE, THROTTLED], []])
def test_a_cancelled_transaction_without_a_failed_condition_leaves_the_outcome_unknown(
    table: DynamoTable, proxy: FaultProxy, reasons: list[dict[str, object]]
) -> None:
    proxy.fail(cancelled(*reasons))
    with pytest.raises(OutcomeUnknown):
        table.write(Put(KEY, {}), Put(OTHER, {}))
    assert proxy.operations == ["TransactWriteItems"]


@pytest.mark.parametrize(
    ("reasons", "old"),
    [
        ([NONE, CONDITION], {1: {"rev": 7, "digest": b"\x00\xff"}}),
        ([CONFLICT, CONDITION], {1: {"rev": 7, "digest": b"\x00\xff"}}),
        ([CONDITION_ON_ABSENT, CONFLICT], {0: {}}),
    ],
)
def test_a_failed_condition_is_told_even_beside_a_conflict(
    table: DynamoTable, proxy: FaultProxy, reasons: list[dict[str, object]], old: dict[int, Item]
) -> None:
    proxy.fail(cancelled(*reasons))
    with pytest.raises(ConditionFailed) as failure:
        table.write(Put(OTHER, {}), Check(KEY, (Missing("rev"),)))
    assert failure.value.old == old


def test_an_item_that_is_refused_within_a_transaction_is_not_called_unknown(
    table: DynamoTable, proxy: FaultProxy
) -> None:
    proxy.fail(cancelled(NONE, {"Code": "ValidationError", "Message": "injected"}))
    with pytest.raises(ValueError, match="not valid"):
        table.write(Put(KEY, {}), Put(OTHER, {}))


def test_a_missing_permission_is_nobodys_condition_and_not_tried_again(
    table: DynamoTable, proxy: FaultProxy
) -> None:
    proxy.fail(refusal("AccessDeniedException"), refusal("AccessDeniedException"))
    with pytest.raises(ClientError, match="AccessDenied"):
        table.write(Put(KEY, {}))
    with pytest.raises(ClientError, match="AccessDenied"):
        table.get(KEY)
    assert proxy.operations == ["PutItem", "GetItem"]


READ_FAULTS: list[Fault] = [
    *REFUSALS,
    LostRequest(),
    LostReply(),
    # Cut so, the body is no JSON, which the SDK takes for an answer without an item.
    LostReply(sent=0),
    LostReply(sent=20),
    LateReply(),
]


@pytest.mark.parametrize("fault", READ_FAULTS, ids=repr)
def test_a_read_is_tried_again(
    table: DynamoTable, proxy: FaultProxy, pauses: list[float], fault: Fault
) -> None:
    item: Item = {"rev": 1, "view": "v", "view_at": "1"}
    table.write(Put(KEY, item))
    reads: dict[str, Callable[[], bool]] = {
        "GetItem": lambda: table.get(KEY) == item,
        "BatchGetItem": lambda: table.get_many([OTHER, KEY]) == [None, item],
        "TransactGetItems": lambda: table.snapshot([OTHER, KEY]) == [None, item],
        "Query": lambda: table.query(KEY.pk).rows == ((KEY, item),),
    }
    for operation, read in reads.items():
        proxy.operations.clear()
        proxy.fail(fault)
        assert read()
        assert proxy.operations == [operation] * 2
    proxy.fail(fault, None, fault)
    assert table.query_view("v").rows == ((KEY, item),)
    assert table.count_view("v") == 1
    assert len(pauses) == 6


@pytest.mark.parametrize("fault", READ_FAULTS, ids=repr)
def test_a_read_that_is_never_answered_is_no_answer(
    table: DynamoTable, proxy: FaultProxy, pauses: list[float], fault: Fault
) -> None:
    table.write(Put(KEY, {"rev": 1}))
    proxy.operations.clear()
    proxy.fail(*[fault] * READ_TRIES)
    with pytest.raises(OutcomeUnknown):
        table.get(KEY)
    assert proxy.operations == ["GetItem"] * READ_TRIES
    assert len(pauses) == READ_TRIES - 1
    assert all(0 <= pause < 1 for pause in pauses)


def handed_back(name: str, found: list[Key], left: list[Key]) -> Reply:
    """A batch read that gave out: the keys that are left come back."""

    def raw(key: Key) -> dict[str, object]:
        return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}

    return Reply(
        {
            "Responses": {name: [raw(key) | {"rev": {"N": "1"}} for key in found]},
            "UnprocessedKeys": {name: {"Keys": [raw(key) for key in left], "ConsistentRead": True}},
        }
    )


def test_keys_that_are_handed_back_are_asked_for_again(
    table: DynamoTable, name: str, proxy: FaultProxy, pauses: list[float]
) -> None:
    keys = [Key("p", f"{n}") for n in range(4)]
    table.write(*(Put(key, {"rev": 1}) for key in keys[:3]))
    proxy.operations.clear()
    proxy.fail(
        handed_back(name, [keys[1]], [keys[0], keys[2], keys[3]]),
        *[handed_back(name, [], [keys[0], keys[2], keys[3]])] * (BATCH_ROUNDS - 2),
    )
    assert table.get_many(keys) == [{"rev": 1}, {"rev": 1}, {"rev": 1}, None]
    assert proxy.operations == ["BatchGetItem"] * BATCH_ROUNDS
    assert len(pauses) == BATCH_ROUNDS - 1


def test_keys_that_are_handed_back_for_ever_are_not_taken_for_absent(
    table: DynamoTable, name: str, proxy: FaultProxy
) -> None:
    proxy.fail(*[handed_back(name, [], [KEY])] * BATCH_ROUNDS)
    with pytest.raises(OutcomeUnknown):
        table.get_many([KEY, OTHER])
    assert proxy.operations == ["BatchGetItem"] * BATCH_ROUNDS
