"""The table on Amazon DynamoDB (API version 2012-08-10), through the low-level client.

A write is sent once. Whether one that got no answer was applied is for the engine to find out: it reads
again and looks for its own mark, where a retry down here would meet its own write and report a loss. Reads
change nothing, so they are repeated here.
"""

import random
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionError, HTTPClientError  # noqa: A004
from botocore.parsers import ResponseParserError

from interlock.adapters.aws import create_client
from interlock.adapters.paging import (
    check_range,
    key_cursor,
    parse_key_cursor,
    parse_view_cursor,
    view_cursor,
)
from interlock.adapters.sizes import check_item, check_key, check_keys, check_writes
from interlock.engine.ports import (
    AUDIT,
    LAST,
    Check,
    Condition,
    ConditionFailed,
    Delete,
    Equals,
    GreaterThan,
    Item,
    Key,
    OutcomeUnknown,
    Page,
    Put,
    Update,
    Value,
    Write,
)

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

INDEX = "views"
CONNECT_SECONDS = 1.0
READ_SECONDS = 3.0
"""Three tries of a read stay well within the 29 seconds of an API Gateway request."""

READ_TRIES = 3
SNAPSHOT_TRIES = 8
"""A transaction that reads fails where it meets one that writes, or has conditions on, the same items."""
BATCH_ROUNDS = 6
"""Of one batch read: DynamoDB hands keys back when it is throttled, and beyond 16 MB."""
BACK_OFF_SECONDS = 0.025
FILTERED_PAGE = 100
FILTERED_PAGES = 20
"""A filtered query looks at so many items a request, and sends so many requests, before it ends its page."""

_NO_ANSWER = (ConnectionError, HTTPClientError, ResponseParserError)
_UNKNOWN_OUTCOME = frozenset(
    {
        "IdempotentParameterMismatchException",
        "InternalServerError",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "ReplicatedWriteConflictException",
        "RequestLimitExceeded",
        "ServiceUnavailable",
        "Throttling",
        "ThrottlingException",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
_Raw = dict[str, Any]
_T = TypeVar("_T")


def dynamodb_client(
    endpoint_url: str | None = None, *, read_seconds: float = READ_SECONDS
) -> "DynamoDBClient":
    """A client that never sends a request twice and gives up early.

    Region, credentials and, unless given, the endpoint are the SDK's own settings (`AWS_ENDPOINT_URL`).
    """
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=read_seconds,
        retries={"total_max_attempts": 1, "mode": "standard"},
        tcp_keepalive=True,
        max_pool_connections=64,
        # What is sent is built and checked here; checking it again is half the CPU of a transaction.
        parameter_validation=False,
    )
    client: DynamoDBClient = create_client("dynamodb", endpoint_url, config)
    client.meta.events.register("before-parse.dynamodb", _refuse_cut_reply)
    return client


def _refuse_cut_reply(response_dict: _Raw, **_: object) -> None:
    # botocore does not compare the body with its length, and reads one that is no JSON as an empty answer:
    # a reply that was cut would say that the item does not exist.
    length = response_dict["headers"].get("Content-Length")
    if length is not None and int(length) != len(response_dict["body"]):
        raise HTTPClientError(error="the reply was cut")


class DynamoTable:
    """Implements `Table` and `Views` on one table with the keys `pk` and `sk` and the index `views`.

    The audit trail is in `audit_table_name`: a transaction may span both.
    """

    def __init__(
        self,
        client: "DynamoDBClient",
        table_name: str,
        audit_table_name: str = "",
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._table = table_name
        self._audit_table = audit_table_name or table_name
        self._sleep = sleep

    def get(self, key: Key) -> Item | None:
        check_key(key)
        reply = self._read(
            self._client.get_item, TableName=self._name(key.pk), Key=_raw_key(key), ConsistentRead=True
        )
        raw = reply.get("Item")
        return None if raw is None else _row(raw)[1]

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        return self._batch(keys, consistent=True)

    def peek(self, keys: Sequence[Key]) -> list[Item | None]:
        return self._batch(keys, consistent=False)

    def _batch(self, keys: Sequence[Key], *, consistent: bool) -> list[Item | None]:
        check_keys(keys)
        found: dict[Key, Item] = {}
        pending: _Raw = {}
        for key in keys:
            request = pending.setdefault(self._name(key.pk), {"Keys": [], "ConsistentRead": consistent})
            request["Keys"].append(_raw_key(key))
        rounds = 0
        while pending:
            if rounds == BATCH_ROUNDS:
                raise OutcomeUnknown("a batch read was not finished")
            if rounds:
                self._back_off(rounds)
            rounds += 1
            reply = self._read(self._client.batch_get_item, RequestItems=pending)
            for items in reply["Responses"].values():
                found.update(map(_row, items))
            pending = dict(reply["UnprocessedKeys"])
        return [found.get(key) for key in keys]

    def snapshot(self, keys: Sequence[Key]) -> list[Item | None]:
        check_keys(keys)
        if not keys:
            return []
        asked = [{"Get": {"TableName": self._name(key.pk), "Key": _raw_key(key)}} for key in keys]
        reply = self._read(self._client.transact_get_items, SNAPSHOT_TRIES, TransactItems=asked)
        raws = [answer.get("Item") for answer in reply["Responses"]]
        return [None if raw is None else _row(raw)[1] for raw in raws]

    def query(
        self,
        pk: str,
        *,
        first: str = "",
        last: str = LAST,
        descending: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page:
        if not check_range(first, last, limit):
            return Page((), None)
        request = _range_request("pk", pk, "sk", first, last) | {
            "TableName": self._name(pk),
            "ConsistentRead": True,
            "ScanIndexForward": not descending,
        }
        if cursor is not None:
            request["ExclusiveStartKey"] = _raw_key(Key(pk, parse_key_cursor(cursor, pk, first, last)))
        if limit is not None:
            # One more than asked for tells whether this is the last page.
            request["Limit"] = limit + 1
        reply = self._read(self._client.query, **request)
        rows = [_row(raw) for raw in reply["Items"]]
        if limit is not None and len(rows) > limit:
            rows = rows[:limit]
            return Page(tuple(rows), key_cursor(rows[-1][0]))
        end = reply.get("LastEvaluatedKey")
        return Page(tuple(rows), None if end is None else key_cursor(_row(end)[0]))

    def query_view(
        self,
        view: str,
        *,
        first: str = "",
        last: str = LAST,
        equals: Mapping[str, Value] = {},
        descending: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page:
        if not check_range(first, last, limit):
            return Page((), None)
        request = self._view_request(view, first, last, equals) | {"ScanIndexForward": not descending}
        if cursor is not None:
            view_at, key = parse_view_cursor(cursor, view, first, last)
            request["ExclusiveStartKey"] = _raw_key(key) | _raw_item({"view": view, "view_at": view_at})
        if limit is not None:
            request["Limit"] = max(limit + 1, FILTERED_PAGE) if equals else limit + 1
        rows: list[tuple[Key, Item]] = []
        for _ in range(FILTERED_PAGES):
            reply = self._read(self._client.query, **request)
            rows += [_row(raw) for raw in reply["Items"]]
            if limit is not None and len(rows) > limit:
                rows = rows[:limit]
                key, item = rows[-1]
                return Page(tuple(rows), view_cursor(view, str(item["view_at"]), key))
            end = reply.get("LastEvaluatedKey")
            if end is None:
                return Page(tuple(rows), None)
            request["ExclusiveStartKey"] = end
            if limit is None or not equals:
                # What is not filtered is one request a page, which ends at 1 MB.
                break
        key, item = _row(request["ExclusiveStartKey"])
        return Page(tuple(rows), view_cursor(view, str(item["view_at"]), key))

    def count_view(
        self,
        view: str,
        *,
        first: str = "",
        last: str = LAST,
        equals: Mapping[str, Value] = {},
    ) -> int:
        if not check_range(first, last, None):
            return 0
        request = self._view_request(view, first, last, equals) | {"Select": "COUNT"}
        count = 0
        while True:
            reply = self._read(self._client.query, **request)
            count += reply["Count"]
            if "LastEvaluatedKey" not in reply:
                return count
            request["ExclusiveStartKey"] = reply["LastEvaluatedKey"]

    def write(self, *writes: Write) -> None:
        check_writes(writes)
        for write in writes:
            check_item(write)
        requests = [_write_request(write) | {"TableName": self._name(write.key.pk)} for write in writes]
        try:
            if len(writes) > 1:
                self._client.transact_write_items(
                    TransactItems=[
                        {_TRANSACTION_NAMES[type(write)]: request}  # type: ignore[misc]
                        for write, request in zip(writes, requests, strict=True)
                    ],
                    ClientRequestToken=str(uuid.uuid4()),
                )
            elif isinstance(writes[0], Put):
                self._client.put_item(**requests[0])
            elif isinstance(writes[0], Update):
                self._client.update_item(**requests[0])
            else:
                self._client.delete_item(**requests[0])
        except ClientError as error:
            raise _store_error(error) from error
        except _NO_ANSWER as error:
            raise OutcomeUnknown(f"no answer: {type(error).__name__}") from error

    def _name(self, pk: str) -> str:
        return self._audit_table if pk.startswith(AUDIT) else self._table

    def _view_request(self, view: str, first: str, last: str, equals: Mapping[str, Value]) -> _Raw:
        request = _range_request("view", view, "view_at", first, last)
        request |= {"TableName": self._table, "IndexName": INDEX}
        if equals:
            placeholders = _Placeholders(request)
            request["FilterExpression"] = placeholders.all_of(Equals(*pair) for pair in equals.items())
        return request

    def _read(self, operation: Callable[..., _T], tries: int = READ_TRIES, /, **request: object) -> _T:
        for attempt in range(1, tries + 1):
            try:
                return operation(**request)
            except ClientError as error:
                refusal = _store_error(error)
                if not isinstance(refusal, OutcomeUnknown):
                    raise refusal from error
                cause: Exception = error
            except _NO_ANSWER as error:
                cause = error
            if attempt < tries:
                self._back_off(min(attempt, READ_TRIES))
        raise OutcomeUnknown(f"no answer to a read: {type(cause).__name__}") from cause

    def _back_off(self, attempt: int) -> None:
        self._sleep(random.uniform(0, BACK_OFF_SECONDS * 2**attempt))  # noqa: S311 - jitter


_TRANSACTION_NAMES: Mapping[type, str] = {
    Put: "Put",
    Update: "Update",
    Delete: "Delete",
    Check: "ConditionCheck",
}


class _Placeholders:
    """Names and values of a request's expressions: DynamoDB reserves some 570 words, `view` among them."""

    def __init__(self, request: _Raw) -> None:
        self._names: dict[str, str] = request.setdefault("ExpressionAttributeNames", {})
        self._request = request

    def name(self, attribute: str) -> str:
        placeholder = f"#{len(self._names)}"
        self._names[placeholder] = attribute
        return placeholder

    def value(self, value: Value) -> str:
        values = self._request.setdefault("ExpressionAttributeValues", {})
        placeholder = f":{len(values)}"
        values[placeholder] = _raw(value)
        return placeholder

    def all_of(self, conditions: Iterable[Condition]) -> str:
        return " AND ".join(self._term(condition) for condition in conditions)

    def _term(self, condition: Condition) -> str:
        name = self.name(condition.attribute)
        if isinstance(condition, Equals):
            return f"{name} = {self.value(condition.value)}"
        if isinstance(condition, GreaterThan):
            return f"{name} > {self.value(condition.value)}"
        return f"attribute_not_exists({name})"


def _range_request(hash_name: str, hash_value: str, range_name: str, first: str, last: str) -> _Raw:
    request: _Raw = {}
    on = _Placeholders(request)
    expression = f"{on.name(hash_name)} = {on.value(hash_value)} AND {on.name(range_name)} "
    # An empty text is no key value, not even as a bound.
    expression += f"BETWEEN {on.value(first)} AND {on.value(last)}" if first else f"<= {on.value(last)}"
    request["KeyConditionExpression"] = expression
    return request


def _write_request(write: Write) -> _Raw:
    request: _Raw = {}
    if isinstance(write, Put):
        request["Item"] = _raw_key(write.key) | _raw_item(write.item)
    else:
        request["Key"] = _raw_key(write.key)
    if not isinstance(write, Update) and not write.conditions:
        return request
    on = _Placeholders(request)
    if isinstance(write, Update):
        parts = []
        if write.set:
            sets = (f"{on.name(name)} = {on.value(value)}" for name, value in write.set.items())
            parts.append("SET " + ", ".join(sets))
        if write.remove:
            parts.append("REMOVE " + ", ".join(on.name(name) for name in write.remove))
        request["UpdateExpression"] = " ".join(parts)
    if write.conditions:
        request["ConditionExpression"] = on.all_of(write.conditions)
        request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    return request


def _store_error(error: ClientError) -> Exception:
    """What a refusal means to the engine. Not ours to translate: no permission, no such table."""
    response: _Raw = dict(error.response)
    code = response["Error"].get("Code", "")
    if code == "ConditionalCheckFailedException":
        return ConditionFailed({0: _old(response)})
    if code == "TransactionCanceledException":
        return _cancelled(response.get("CancellationReasons", []))
    if code == "ValidationException":
        return ValueError(f"refused by DynamoDB: {response['Error'].get('Message', '')[:200]}")
    if code in _UNKNOWN_OUTCOME or response["ResponseMetadata"]["HTTPStatusCode"] >= 500:
        return OutcomeUnknown(code)
    return error


def _cancelled(reasons: Sequence[_Raw]) -> Exception:
    failed = {
        position: _old(reason)
        for position, reason in enumerate(reasons)
        if reason.get("Code") == "ConditionalCheckFailed"
    }
    if failed:
        # Also beside a conflict: a transaction that was cancelled wrote nothing, and a condition that failed
        # was judged on a committed item, so whoever lost learns it from this answer.
        return ConditionFailed(failed)
    codes = sorted({str(reason.get("Code")) for reason in reasons} - {"None"})
    if "ValidationError" in codes:
        return ValueError("refused by DynamoDB: an item of the transaction is not valid")
    return OutcomeUnknown(", ".join(codes))


def _old(failure: _Raw) -> Item:
    raw = failure.get("Item")
    return _row(raw)[1] if raw else {}


def _raw(value: Value) -> _Raw:
    # A truth value is an int to Python, so it is asked for first.
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": str(value)}
    return {"S": value} if isinstance(value, str) else {"B": value}


def _raw_item(item: Mapping[str, Value]) -> _Raw:
    return {name: _raw(value) for name, value in item.items()}


def _raw_key(key: Key) -> _Raw:
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}


def _row(raw: Mapping[str, Any]) -> tuple[Key, Item]:
    item: Item = {}
    for name, typed in raw.items():
        ((kind, value),) = typed.items()
        item[name] = int(value) if kind == "N" else value
    return Key(str(item.pop("pk")), str(item.pop("sk"))), item
