"""Billing: refunds, each approved by one person, and by two from 100 on. Never by whoever asked for it."""

import re
from decimal import Decimal

from interlock.a2a.models import JsonObject
from interlock.agents import Agent, Gate, Turn
from interlock.agents.demo.matching import text_begins_with

APPROVERS = frozenset({"bearer:alice", "bearer:bob", "bearer:carol"})
FOUR_EYES_FROM = Decimal(100)

agent = Agent("billing", "Refunds orders, once the right people have approved exactly that.")

_REFUND = re.compile(r"refund (\d{1,12}) (\d{1,9}(?:\.\d{1,2})?)")


@agent.skill(
    "refund",
    "Refunds an order after approval; from 100 on it takes two",
    examples=["refund 1182 40.00"],
    matches=text_begins_with("refund "),
    gate=Gate(APPROVERS),
)
async def refund(turn: Turn) -> None:
    approval = turn.approval
    if approval is None:
        asked = _REFUND.fullmatch(turn.text.strip())
        if asked is None:
            await turn.reject("Say `refund <order> <amount>`.")
            return
        await ask(turn, int(asked[1]), Decimal(asked[2]))
    elif approval.changes_requested:
        await ask_again(turn, approval.edited)
    elif approval.approved:
        action = approval.action
        approval.consume(action)
        receipt = {**action, "approvedBy": list(approval.approvers), "id": turn.effect_key("refund")}
        await turn.artifact(receipt, name="receipt")
        await turn.complete(f"Refunded {action['amount']} to order {action['order']}.")
    else:
        await turn.reject(f"Not refunded: {approval.comment or 'no reason given'}.")


async def ask(turn: Turn, order: int, amount: Decimal) -> None:
    action = {"tool": "refund", "order": order, "amount": f"{amount:.2f}"}
    quorum = 2 if amount >= FOUR_EYES_FROM else 1
    await turn.request_approval(action, f"Refund {amount:.2f} to order {order}", quorum=quorum)


async def ask_again(turn: Turn, edited: JsonObject | None) -> None:
    """An edit is another action: it is asked for anew, of others than whoever edited it."""
    order, amount = (edited or {}).get("order"), str((edited or {}).get("amount"))
    if type(order) is int and _REFUND.fullmatch(f"refund {order} {amount}"):
        await ask(turn, order, Decimal(amount))
    else:
        await turn.reject("The changes that were asked for are no refund.")
