"""How large DynamoDB takes an item to be, and what it refuses.

Amazon DynamoDB Developer Guide, "DynamoDB item sizes and formats" and "Constraints in Amazon DynamoDB".
Both tables ask here, so that what production refuses is refused on the in-memory twin too.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from interlock.engine.ports import Check, Condition, GreaterThan, Item, Key, Missing, Put, Update, Write

ITEM_BYTES = 400 * 1024
TRANSACTION_BYTES = 4 * 1024 * 1024
TRANSACTION_WRITES = 100
BATCH_KEYS = 100
PAGE_BYTES = 1024 * 1024
PARTITION_KEY_BYTES = 2048
SORT_KEY_BYTES = 1024
NUMBER_BOUND = 10**38


def text_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def number_size(number: int) -> int:
    """Two significant digits a byte, one byte for the exponent, one for a minus sign."""
    if not -NUMBER_BOUND < number < NUMBER_BOUND:
        raise ValueError("a number has at most 38 digits")
    digits = str(abs(number))
    significant = digits.rstrip("0")
    if not significant:
        return 1
    # Digits are packed in pairs from the decimal point: an odd number of trailing zeros shifts the pairs.
    shifted = (len(digits) - len(significant)) % 2
    return 1 + (len(significant) + shifted + 1) // 2 + (number < 0)


_SIZE_OF: Mapping[type, Callable[[Any], int]] = {
    str: text_size,
    int: number_size,
    bool: lambda _: 1,
    bytes: len,
}


def value_size(value: object) -> int:
    """Bytes of a value. Raises `ValueError` for a type that is not stored (subclasses such as enums too)."""
    size_of = _SIZE_OF.get(type(value))
    if size_of is None:
        raise ValueError(f"a {type(value).__name__} can not be stored")
    return size_of(value)


def item_size(key: Key, item: Item) -> int:
    """Bytes of an item, names and keys included. Raises `ValueError` for what can not be an item."""
    size = len("pk") + len("sk") + check_key(key)
    for name, value in item.items():
        size += len(name) if name.isascii() else text_size(name)
        # This loop is most of what the in-memory twin does, and most values are ASCII text or small numbers.
        if type(value) is str and value.isascii():
            size += len(value)
        elif type(value) is int and 0 < value < 100:
            size += 2
        else:
            size += value_size(value)
    if "pk" in item or "sk" in item:
        raise ValueError("the keys are not attributes of the item")
    if "view" in item:
        _check_index_key("view", item["view"], PARTITION_KEY_BYTES)
    if "view_at" in item:
        _check_index_key("view_at", item["view_at"], SORT_KEY_BYTES)
    return size


def check_size(size: int) -> None:
    if size > ITEM_BYTES:
        raise ValueError(f"an item has at most {ITEM_BYTES} bytes, this one {size}")


def _check_index_key(name: str, value: object, bound: int) -> None:
    if type(value) is not str or not 0 < text_size(value) <= bound:
        raise ValueError(f"{name} is a text of 1 to {bound} bytes")


def check_key(key: Key) -> int:
    """Bytes of both key values. Raises `ValueError` for an empty or an oversize one."""
    pk, sk = text_size(key.pk), text_size(key.sk)
    if not 0 < pk <= PARTITION_KEY_BYTES:
        raise ValueError(f"a partition key has 1 to {PARTITION_KEY_BYTES} bytes")
    if not 0 < sk <= SORT_KEY_BYTES:
        raise ValueError(f"a sort key has 1 to {SORT_KEY_BYTES} bytes")
    return pk + sk


def check_keys(keys: Iterable[Key]) -> None:
    """Raises `ValueError` where a batch read would be refused."""
    asked = list(keys)
    if len(asked) > BATCH_KEYS:
        raise ValueError(f"at most {BATCH_KEYS} keys in one read")
    if len(set(asked)) < len(asked):
        raise ValueError("the keys of one read are distinct")
    for key in asked:
        check_key(key)


def check_writes(writes: tuple[Write, ...]) -> None:
    """Raises `ValueError` for a call that DynamoDB refuses whatever its items are."""
    if not 1 <= len(writes) <= TRANSACTION_WRITES:
        raise ValueError(f"1 to {TRANSACTION_WRITES} writes in one call")
    if len(writes) > 1:
        if len({write.key for write in writes}) < len(writes):
            raise ValueError("two writes on one key in one call")
    elif isinstance(writes[0], Check):
        raise ValueError("a check stands only beside other writes")
    for write in writes:
        if isinstance(write, Update):
            _check_update(write)
        if write.conditions:
            _check_conditions(write.conditions)
        elif isinstance(write, Check):
            raise ValueError("a check has a condition")


def check_item(write: Write) -> None:
    """Raises `ValueError` where what is written has a type or a size that DynamoDB refuses."""
    if isinstance(write, Put):
        check_size(item_size(write.key, write.item))
    elif isinstance(write, Update):
        check_size(item_size(write.key, write.set))
    else:
        check_key(write.key)


def _check_update(update: Update) -> None:
    if not update.set and not update.remove:
        raise ValueError("an update changes something")
    if not update.set.keys().isdisjoint(update.remove) or len(set(update.remove)) < len(update.remove):
        raise ValueError("an update names an attribute once")
    if "pk" in update.remove or "sk" in update.remove:
        raise ValueError("the keys are not attributes of the item")
    if not update.set and all(isinstance(condition, Missing) for condition in update.conditions):
        # Whether removing from an absent item creates it is nowhere documented.
        raise ValueError("an update that only removes has a condition that the item exists")


def _check_conditions(conditions: Iterable[Condition]) -> None:
    for condition in conditions:
        if isinstance(condition, Missing):
            continue
        value_size(condition.value)
        if isinstance(condition, GreaterThan) and isinstance(condition.value, bool):
            raise ValueError("a truth value has no order")  # noqa: TRY004 - refused as the other limits are
