"""What the engine may rely on from a table and its views, whatever they are made of."""

from base64 import urlsafe_b64encode
from collections.abc import Sequence

import pytest
from tests.support.stores import Store, pages_of, pages_of_view, rows_of

from interlock.adapters import dynamodb
from interlock.adapters.sizes import ITEM_BYTES
from interlock.engine.ports import (
    Check,
    Condition,
    ConditionFailed,
    Delete,
    Equals,
    GreaterThan,
    Item,
    Key,
    Missing,
    Put,
    Update,
    Value,
    Write,
)

KEY = Key("T#acme#1", "META")
OTHER = Key("T#acme#2", "META")
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"


def fill(store: Store, rows: Sequence[tuple[Key, Item]]) -> None:
    for start in range(0, len(rows), 100):
        store.write(*(Put(key, item) for key, item in rows[start : start + 100]))


# Items


def test_an_absent_item_is_none(store: Store) -> None:
    assert store.get(KEY) is None


@pytest.mark.parametrize(
    "value",
    [
        "text",
        "",
        FAMILY,
        "a\x00b\n\u2028",
        0,
        -1,
        100,
        10**37,
        -(10**37) - 1,
        True,
        False,
        b"",
        bytes(range(256)),
    ],
)
def test_a_value_comes_back_as_it_went_in(store: Store, value: Value) -> None:
    store.write(Put(KEY, {"value": value}))
    item = store.get(KEY)
    assert item == {"value": value}
    assert type(item["value"]) is type(value)


def test_an_item_without_attributes_is_not_absent(store: Store) -> None:
    store.write(Put(KEY, {}))
    assert store.get(KEY) == {}
    with pytest.raises(ConditionFailed) as failure:
        store.write(Put(KEY, {}, (Missing("pk"),)))
    assert failure.value.old == {0: {}}


def test_what_was_written_and_read_is_nobody_elses(store: Store) -> None:
    written: Item = {"rev": 1}
    store.write(Put(KEY, written))
    written["rev"] = 2
    read = store.get(KEY)
    assert read == {"rev": 1}
    read["rev"] = 3
    store.query(KEY.pk).rows[0][1]["rev"] = 4
    assert store.get_many([KEY]) == [{"rev": 1}]


@pytest.mark.parametrize("name", ["view_", "status", "at", "size", "a.b", "a b", "#0", ":0", "a-b", "\u00fc"])
def test_any_name_is_an_attribute(store: Store, name: str) -> None:
    store.write(Put(KEY, {name: 1}, (Missing(name),)))
    store.write(Update(KEY, {name: 2}, conditions=(Equals(name, 1), GreaterThan(name, 0))))
    assert store.get(KEY) == {name: 2}
    store.write(Update(KEY, remove=(name,), conditions=(Equals(name, 2),)))
    assert store.get(KEY) == {}


def test_keys_may_be_long_and_of_any_script(store: Store) -> None:
    key = Key(FAMILY * 100, "\u00df" * 512)
    store.write(Put(key, {"rev": 1}))
    assert store.get(key) == {"rev": 1}
    assert store.query(key.pk, first=key.sk, last=key.sk).rows == ((key, {"rev": 1}),)


def test_many_items_come_in_the_order_asked_for(store: Store) -> None:
    keys = [Key("many", f"{n:03}") for n in range(100)]
    fill(store, [(key, {"n": n}) for n, key in enumerate(keys) if n % 3])
    asked = keys[::-1]
    expected = [{"n": n} if n % 3 else None for n in range(100)][::-1]
    assert store.get_many(asked) == expected
    assert store.get_many([]) == []
    assert store.snapshot(asked[:25]) == expected[:25]  # of which moto takes no more
    assert store.snapshot([]) == []


@pytest.mark.parametrize("keys", [[Key("a", f"{n}") for n in range(101)], [KEY, OTHER, KEY], [Key("", "x")]])
def test_a_batch_of_keys_that_can_not_be_read_is_refused(store: Store, keys: list[Key]) -> None:
    with pytest.raises(ValueError, match="key"):
        store.get_many(keys)
    with pytest.raises(ValueError, match="key"):
        store.snapshot(keys)


# Writes


def test_a_put_replaces_the_whole_item(store: Store) -> None:
    store.write(Put(KEY, {"a": 1, "b": 2}))
    store.write(Put(KEY, {"a": 3}))
    assert store.get(KEY) == {"a": 3}


def test_an_update_changes_only_what_it_names(store: Store) -> None:
    store.write(Put(KEY, {"a": 1, "b": 2, "c": 3}))
    store.write(Update(KEY, {"a": 4, "d": 5}, ("b", "never")))
    assert store.get(KEY) == {"a": 4, "c": 3, "d": 5}


def test_an_update_creates_the_item_unless_a_condition_says_otherwise(store: Store) -> None:
    store.write(Update(KEY, {"a": 1}))
    assert store.get(KEY) == {"a": 1}
    with pytest.raises(ConditionFailed):
        store.write(Update(OTHER, {"a": 1}, conditions=(Equals("rev", 1),)))
    assert store.get(OTHER) is None


def test_deleting_what_is_not_there_succeeds_unless_a_condition_says_otherwise(store: Store) -> None:
    store.write(Delete(KEY))
    with pytest.raises(ConditionFailed) as failure:
        store.write(Delete(KEY, (Equals("rev", 1),)))
    assert failure.value.old == {0: {}}
    store.write(Put(KEY, {"rev": 1}))
    store.write(Delete(KEY, (Equals("rev", 1),)))
    assert store.get(KEY) is None


CONDITIONS: list[tuple[Item | None, Condition, bool]] = [
    (None, Missing("a"), True),
    (None, Missing("pk"), True),
    (None, Equals("a", 1), False),
    (None, GreaterThan("a", 1), False),
    ({}, Missing("a"), True),
    ({}, Missing("pk"), False),
    ({}, Missing("sk"), False),
    ({}, Equals("pk", KEY.pk), True),
    ({}, Equals("a", ""), False),
    ({}, GreaterThan("a", ""), False),
    ({"a": 1}, Missing("a"), False),
    ({"a": ""}, Missing("a"), False),
    ({"a": False}, Missing("a"), False),
    ({"a": 1}, Equals("a", 1), True),
    ({"a": 1}, Equals("a", 2), False),
    ({"a": True}, Equals("a", True), True),
    ({"a": "x"}, Equals("a", "x"), True),
    ({"a": b"x"}, Equals("a", b"x"), True),
    ({"a": 2}, GreaterThan("a", 1), True),
    ({"a": 2}, GreaterThan("a", 2), False),
    ({"a": 10}, GreaterThan("a", 9), True),
    ({"a": -10}, GreaterThan("a", -9), False),
    ({"a": "10"}, GreaterThan("a", "9"), False),
    ({"a": "b"}, GreaterThan("a", "a"), True),
    ({"a": "\U0001f600"}, GreaterThan("a", "\uffee"), True),
    ({"a": b"\xff"}, GreaterThan("a", b"\x00\xff"), True),
]


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "in a transaction"])
@pytest.mark.parametrize(("old", "condition", "holds"), CONDITIONS)
def test_a_condition_is_about_the_item_as_it_was(
    store: Store, old: Item | None, condition: Condition, holds: bool, alone: bool
) -> None:
    if old is not None:
        store.write(Put(KEY, old))
    writes: list[Write] = [Put(KEY, {"new": 1}, (condition,))]
    if not alone:
        writes.insert(0, Put(OTHER, {"new": 1}))
    if holds:
        store.write(*writes)
        assert store.get(KEY) == {"new": 1}
    else:
        with pytest.raises(ConditionFailed) as failure:
            store.write(*writes)
        assert failure.value.old == {len(writes) - 1: old or {}}
        assert store.get(KEY) == old
        assert store.get(OTHER) is None


@pytest.mark.parametrize(
    ("old", "condition"),
    [
        (1, Equals("a", "1")),
        (1, Equals("a", True)),
        (True, Equals("a", 1)),
        (False, Equals("a", 0)),
        ("x", Equals("a", b"x")),
        ("2", GreaterThan("a", 1)),
        (2, GreaterThan("a", "1")),
        (True, GreaterThan("a", 0)),
    ],
)
def test_values_of_two_types_are_never_equal_and_have_no_order(
    exact_store: Store, old: Value, condition: Condition
) -> None:
    exact_store.write(Put(KEY, {"a": old}))
    with pytest.raises(ConditionFailed):
        exact_store.write(Delete(KEY, (condition,)))


def test_all_conditions_of_a_write_must_hold(store: Store) -> None:
    store.write(Put(KEY, {"a": 1, "b": 2}))
    with pytest.raises(ConditionFailed):
        store.write(Delete(KEY, (Equals("a", 1), Equals("b", 1))))
    with pytest.raises(ConditionFailed):
        store.write(Delete(KEY, (Equals("a", 2), Equals("b", 2))))
    store.write(Delete(KEY, (Equals("a", 1), Equals("b", 2), Missing("c"))))
    assert store.get(KEY) is None


@pytest.mark.parametrize(
    "write",
    [
        Put(KEY, {"a": 2}, (Missing("a"),)),
        Update(KEY, {"a": 2}, conditions=(Missing("a"),)),
        Delete(KEY, (Missing("a"),)),
    ],
)
def test_whoever_loses_is_told_the_item_as_it_was(store: Store, write: Write) -> None:
    winner: Item = {"a": 1, "by": "bearer:alice", "late": False, "digest": b"\x00\xff", "said": FAMILY}
    store.write(Put(KEY, winner))
    with pytest.raises(ConditionFailed) as failure:
        store.write(write)
    assert failure.value.old == {0: winner}
    assert type(failure.value.old[0]["late"]) is bool
    assert store.get(KEY) == winner


def test_a_transaction_writes_all_or_nothing_and_tells_each_that_failed(store: Store) -> None:
    keys = [Key("tx", f"{n}") for n in range(6)]
    before: list[Item | None] = [{"rev": 1}, {"rev": 1, "x": b"\x01"}, {"rev": 1}, {"rev": 1}, None, None]
    fill(store, [(key, item) for key, item in zip(keys, before, strict=True) if item is not None])
    with pytest.raises(ConditionFailed) as failure:
        store.write(
            Update(keys[0], {"rev": 2}, conditions=(Equals("rev", 1),)),
            Update(keys[1], {"rev": 2}, conditions=(Equals("rev", 2),)),
            Delete(keys[2]),
            Check(keys[3], (GreaterThan("rev", 0),)),
            Check(keys[4], (Equals("rev", 1),)),
            Put(keys[5], {"rev": 1}, (Missing("rev"),)),
        )
    assert failure.value.old == {1: {"rev": 1, "x": b"\x01"}, 4: {}}
    assert store.get_many(keys) == before


def test_a_transaction_that_holds_writes_all(store: Store) -> None:
    keys = [Key("tx", f"{n}") for n in range(4)]
    fill(store, [(key, {"rev": 1}) for key in keys[:3]])
    store.write(
        Update(keys[0], {"rev": 2}, conditions=(Equals("rev", 1),)),
        Delete(keys[1]),
        Check(keys[2], (Equals("rev", 1),)),
        Put(keys[3], {"rev": 1}, (Missing("rev"),)),
    )
    assert store.get_many(keys) == [{"rev": 2}, None, {"rev": 1}, {"rev": 1}]


def test_what_is_looked_at_for_less_is_as_what_is_read(store: Store) -> None:
    fill(store, [(KEY, {"n": 1}), (OTHER, {"n": 2})])
    keys = [OTHER, Key("none", "none"), KEY]
    assert store.peek(keys) == store.get_many(keys) == [{"n": 2}, None, {"n": 1}]


def test_a_check_of_what_is_absent_leaves_it_absent(store: Store) -> None:
    store.write(Put(KEY, {}), Check(OTHER, (Missing("pk"),)))
    assert store.get(OTHER) is None
    assert store.query(OTHER.pk).rows == ()


def test_a_hundred_writes_are_one_transaction(store: Store) -> None:
    keys = [Key("tx", f"{n:03}") for n in range(100)]
    store.write(*(Put(key, {"n": 1}, (Missing("n"),)) for key in keys))
    assert len(store.query("tx").rows) == 100
    with pytest.raises(ConditionFailed) as failure:
        store.write(*(Put(key, {"n": 2}, (Missing("n"),)) for key in keys))
    assert failure.value.old == {n: {"n": 1} for n in range(100)}


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "writes",
    [
        [],
        [Put(Key("a", f"{n}"), {}) for n in range(101)],
        [Put(KEY, {"a": 1}), Delete(KEY)],
        [Check(KEY, (Missing("a"),))],
        [Put(OTHER, {}), Check(KEY, ())],
        [Update(KEY)],
        [Update(KEY, {"a": 1}, ("a",))],
        [Update(KEY, {}, ("a",), (Missing("b"),))],
        [Update(KEY, {"a": 1}, ("sk",))],
        [Put(KEY, {"pk": "b"})],
        [Put(KEY, {"view": 1})],
        [Put(KEY, {"view": ""})],
        [Put(KEY, {"view_at": "x" * 1025})],
        [Put(Key("", "a"), {})],
        [Delete(Key("a", ""))],
        [Put(Key("a" * 2049, "a"), {})],
        [Put(Key("a", "\u00fc" * 513), {})],
        [Put(KEY, {"a": 10**38})],
        [Put(KEY, {"a": Text("a")})],
        [Put(KEY, {"a": 1.5})],  # type: ignore[dict-item]
        [Put(KEY, {"a": None})],  # type: ignore[dict-item]
        [Put(KEY, {"a": "\ud800"})],
        [Put(KEY, {}, (GreaterThan("a", True),))],
        [Put(KEY, {}, (Equals("a", Text("a")),))],
        [Put(KEY, {"a": "x" * ITEM_BYTES})],
        [Put(KEY, {"a": "x"}), Put(OTHER, {"a": "\u00fc" * (ITEM_BYTES // 2)})],
    ],
)
def test_what_can_not_be_written_is_refused_before_anything_is(store: Store, writes: list[Write]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - by many hands, with as many texts
        store.write(*writes)
    assert store.get_many([KEY, OTHER]) == [None, None]


def test_an_item_as_large_as_allowed_is_written(exact_store: Store) -> None:
    room = ITEM_BYTES - len("pk" + KEY.pk + "sk" + KEY.sk + "a")
    exact_store.write(Put(KEY, {"a": "x" * room}))
    with pytest.raises(ValueError, match=str(ITEM_BYTES)):
        exact_store.write(Put(KEY, {"a": "x" * (room + 1)}))


def test_an_item_can_not_grow_beyond_what_is_allowed(exact_store: Store) -> None:
    exact_store.write(Put(KEY, {"a": "x" * 300_000}))
    with pytest.raises(ValueError):  # noqa: PT011 - of DynamoDB's own
        exact_store.write(Update(KEY, {"b": "x" * 200_000}))
    with pytest.raises(ValueError):  # noqa: PT011
        exact_store.write(Update(KEY, {"b": "x" * 200_000}), Put(OTHER, {}))
    assert exact_store.get_many([KEY, OTHER]) == [{"a": "x" * 300_000}, None]


def test_a_transaction_can_not_be_larger_than_four_megabytes(exact_store: Store) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        exact_store.write(*(Put(Key("tx", f"{n}"), {"a": "x" * 400_000}) for n in range(11)))
    assert exact_store.query("tx").rows == ()


# Queries


def test_a_partition_is_in_the_order_of_utf8(store: Store) -> None:
    names = ["", "!", "0", "00", "A", "a", "aa", "a\u0000", "\u00fc", "\ud7ff", "\uffee", "\U0001f600", "~"]
    names = sorted(names[1:], key=lambda name: name.encode())
    fill(store, [(Key("p", name), {"n": n}) for n, name in reversed(list(enumerate(names)))])
    fill(store, [(Key("p2", "x"), {}), (Key("o", "x"), {})])
    assert [key.sk for key, _ in store.query("p").rows] == names
    assert [item["n"] for _, item in store.query("p", descending=True).rows] == [*range(len(names))][::-1]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("", "\U0010ffff", "bdf"),
        ("b", "f", "bdf"),
        ("c", "e", "d"),
        ("d", "d", "d"),
        ("c", "c", ""),
        ("", "b", "b"),
        ("f", "\U0010ffff", "f"),
        ("g", "z", ""),
        ("", "a", ""),
        ("f", "b", ""),
        ("", "", ""),
    ],
)
def test_a_range_includes_its_ends(
    store: Store, first: str, last: str, expected: str, descending: bool
) -> None:
    fill(store, [(Key("p", sk), {"view": "v", "view_at": sk}) for sk in "bdf"])
    wanted = list(expected[::-1] if descending else expected)
    page = store.query("p", first=first, last=last, descending=descending)
    assert [key.sk for key, _ in page.rows] == wanted
    assert page.cursor is None
    viewed = store.query_view("v", first=first, last=last, descending=descending)
    assert [key.sk for key, _ in viewed.rows] == wanted
    assert store.count_view("v", first=first, last=last) == len(expected)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 8])
def test_pages_join_without_a_gap_and_the_last_one_says_so(
    store: Store, limit: int, descending: bool
) -> None:
    rows: list[tuple[Key, Item]] = [
        (Key("p", f"{n}"), {"n": n, "view": "v", "view_at": f"{n}"}) for n in range(1, 7)
    ]
    fill(store, [*rows, (Key("p", "0"), {"view": "w", "view_at": "0"}), (Key("p", "9"), {})])
    rows = rows[::-1] if descending else rows
    whole = [rows[start : start + limit] for start in range(0, len(rows), limit)]
    options = {"first": "1", "last": "6", "limit": limit, "descending": descending}
    assert [list(page.rows) for page in pages_of(store, "p", **options)] == whole
    assert [list(page.rows) for page in pages_of_view(store, "v", **options)] == whole


def test_a_cursor_outlives_the_row_it_was_taken_at(store: Store) -> None:
    fill(store, [(Key("p", f"{n}"), {"view": "v", "view_at": f"{n}"}) for n in range(4)])
    page, viewed = store.query("p", limit=2), store.query_view("v", limit=2)
    store.write(Delete(Key("p", "1")))
    assert [key.sk for key, _ in store.query("p", cursor=page.cursor).rows] == ["2", "3"]
    assert [key.sk for key, _ in store.query_view("v", cursor=viewed.cursor).rows] == ["2", "3"]


def test_a_page_ends_before_it_grows_too_large(store: Store) -> None:
    rows: list[tuple[Key, Item]] = [
        (Key("p", f"{n}"), {"fill": "x" * 300_000, "view": "v", "view_at": f"{n}", "odd": n % 2})
        for n in range(8)
    ]
    for key, item in rows:
        store.write(Put(key, item))
    for pages in (list(pages_of(store, "p")), list(pages_of_view(store, "v"))):
        assert len(pages) > 1
        assert rows_of(iter(pages)) == rows
    assert rows_of(pages_of_view(store, "v", equals={"odd": 1}, limit=3)) == rows[1::2]
    assert store.count_view("v", equals={"odd": 1}) == 4


def _cursors(store: Store) -> dict[str, str]:
    fill(store, [(Key(pk, sk), {"view": pk, "view_at": sk}) for pk in "pq" for sk in "123"])
    own, other = store.query("p", limit=1).cursor, store.query("q", limit=1).cursor
    view, other_view = store.query_view("p", limit=1).cursor, store.query_view("q", limit=1).cursor
    assert own
    assert other
    assert view
    assert other_view
    return {"own": own, "other": other, "view": view, "other view": other_view}


def test_a_cursor_is_safe_in_a_url(store: Store) -> None:
    fill(store, [(Key(FAMILY + "?", sk), {}) for sk in "\xfb\xff"])
    cursor = store.query(FAMILY + "?", limit=1).cursor
    assert cursor is not None
    assert set(cursor) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize("foreign", ["other", "view", "other view"])
def test_a_cursor_of_another_query_is_refused(store: Store, foreign: str) -> None:
    cursors = _cursors(store)
    with pytest.raises(ValueError, match="cursor"):
        store.query("p", cursor=cursors[foreign])
    with pytest.raises(ValueError, match="cursor"):
        store.query_view("p", cursor=cursors["own" if foreign == "view" else foreign])


def test_a_cursor_beyond_the_range_is_refused(store: Store) -> None:
    cursors = _cursors(store)
    with pytest.raises(ValueError, match="cursor"):
        store.query("p", first="2", cursor=cursors["own"])
    with pytest.raises(ValueError, match="cursor"):
        store.query_view("p", first="2", cursor=cursors["view"])


@pytest.mark.parametrize(
    "text",
    ["", "x", "?", "\u00fc", "e30", "bnVsbA", "A" * 20_000]
    + [
        urlsafe_b64encode(raw).decode()
        for raw in (
            b'["p"]',
            b'["p",1]',
            b'["p",null]',
            b'["p",""]',
            b'["p","1","2"]',
            b'{"p":"1"}',
            b'{"p":"1","1":"2"}',
            b'"p1"',
            b'"p1p1"',
            b'["p","\\ud800"]',
            b"[" * 9_000,
            b'["p","' + b"1" * 1025 + b'"]',
        )
    ],
)
def test_what_is_no_cursor_is_refused(store: Store, text: str) -> None:
    with pytest.raises(ValueError, match="cursor"):
        store.query("p", cursor=text)
    with pytest.raises(ValueError, match="cursor"):
        store.query_view("p", cursor=text)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_without_rows_is_refused(store: Store, limit: int) -> None:
    with pytest.raises(ValueError, match="row"):
        store.query("p", limit=limit)
    with pytest.raises(ValueError, match="row"):
        store.query_view("p", limit=limit)


# Views


def test_a_view_shows_what_carries_both_of_its_attributes(store: Store) -> None:
    both: Item = {"view": "v", "view_at": "1", "n": 1}
    fill(store, [(KEY, both), (OTHER, {"view": "v"}), (Key("a", "a"), {"view_at": "1"})])
    assert store.query_view("v").rows == ((KEY, both),)
    assert store.query_view("w").rows == ()
    assert store.count_view("w") == 0


def test_a_view_follows_the_item(store: Store) -> None:
    def seen() -> dict[str, list[tuple[Key, Item]]]:
        return {view: list(store.query_view(view).rows) for view in "vw"}

    store.write(Put(KEY, {"view": "v", "view_at": "2"}), Put(OTHER, {"view": "v", "view_at": "1"}))
    assert [key for key, _ in seen()["v"]] == [OTHER, KEY]
    store.write(Update(KEY, {"view_at": "0"}))
    assert [key for key, _ in seen()["v"]] == [KEY, OTHER]
    store.write(Update(KEY, {"view": "w", "n": 1}))
    assert [key for key, _ in seen()["v"]] == [OTHER]
    assert seen()["w"] == [(KEY, {"view": "w", "view_at": "0", "n": 1})]
    store.write(Update(KEY, {"n": 2}), Delete(OTHER))
    assert seen() == {"v": [], "w": [(KEY, {"view": "w", "view_at": "0", "n": 2})]}
    store.write(Update(KEY, remove=("view_at",), conditions=(Equals("n", 2),)))
    assert seen() == {"v": [], "w": []}
    store.write(Put(KEY, {"view": "v", "view_at": "9"}))
    store.write(Put(KEY, {"n": 3}))
    assert seen() == {"v": [], "w": []}


@pytest.mark.parametrize("descending", [False, True])
def test_rows_at_one_time_are_neither_skipped_nor_doubled(store: Store, descending: bool) -> None:
    keys = {Key(f"p{n % 3}", f"{n}") for n in range(12)}
    fill(store, [(key, {"view": "v", "view_at": "same"}) for key in sorted(keys, key=lambda key: key.sk)])
    seen = [key for key, _ in rows_of(pages_of_view(store, "v", limit=5, descending=descending))]
    assert len(seen) == len(keys)
    assert set(seen) == keys


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 3, 50])
def test_a_filter_finds_every_match_once(
    store: Store, limit: int, descending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamodb, "FILTERED_PAGE", 4)
    rows: list[tuple[Key, Item]] = [
        (Key("p", f"{n:03}"), {"view": "v", "view_at": f"{n:03}", "state": "open" if n % 7 == 3 else "done"})
        for n in range(60)
    ]
    fill(store, rows)
    matches = rows[3::7][:: -1 if descending else 1]
    pages = list(pages_of_view(store, "v", equals={"state": "open"}, limit=limit, descending=descending))
    assert [list(page.rows) for page in pages] == [
        matches[start : start + limit] for start in range(0, len(matches), limit)
    ]
    assert store.count_view("v", equals={"state": "open"}) == len(matches)
    assert store.count_view("v", first="010", last="040", equals={"state": "open"}) == 5
    assert store.query_view("v", equals={"state": "open", "n": 1}, limit=limit).rows == ()
    assert store.query_view("v", equals={"state": True}, limit=limit).rows == ()


def test_a_search_that_ends_its_page_early_goes_on_where_it_was(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamodb, "FILTERED_PAGE", 4)
    monkeypatch.setattr(dynamodb, "FILTERED_PAGES", 2)
    rows: list[tuple[Key, Item]] = [
        (Key("p", f"{n:03}"), {"view": "v", "view_at": f"{n:03}", "open": n in (0, 30, 31, 59)})
        for n in range(60)
    ]
    fill(store, rows)
    found = rows_of(pages_of_view(store, "v", equals={"open": True}, limit=3))
    assert found == [rows[0], rows[30], rows[31], rows[59]]
