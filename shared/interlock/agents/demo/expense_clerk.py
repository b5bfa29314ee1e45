"""An expense clerk: asks for what it needs to know, one question after the other."""

from interlock.agents import Agent, Turn
from interlock.agents.demo.matching import text_begins_with

agent = Agent(
    "expense-clerk", "Books an expense after asking for its amount, its category and a confirmation."
)


def _one(name: str, schema: dict[str, object]) -> dict[str, object]:
    return {"type": "object", "properties": {name: schema}, "required": [name], "additionalProperties": False}


QUESTIONS = (
    (
        "How much was it, in euros?",
        _one("amount", {"type": "number", "exclusiveMinimum": 0, "maximum": 100000}),
    ),
    ("Which category?", _one("category", {"enum": ["travel", "meals", "equipment", "other"]})),
    ("Book it?", _one("confirmed", {"type": "boolean"})),
)


@agent.skill(
    "expense",
    "Books an expense, asking for what is missing",
    examples=["expense taxi to the airport"],
    matches=text_begins_with("expense "),
)
async def expense(turn: Turn) -> None:
    answers = [answer.payload for answer in turn.answers]
    if len(answers) < len(QUESTIONS):
        prompt, schema = QUESTIONS[len(answers)]
        await turn.ask(prompt, schema)
        return
    amount, category, confirmed = answers[0]["amount"], answers[1]["category"], answers[2]["confirmed"]
    if not confirmed:
        await turn.reject("The expense was not booked.")
        return
    purpose = turn.text.removeprefix("expense ").strip()
    booking = {"purpose": purpose, "amount": amount, "category": category, "id": turn.effect_key("booking")}
    await turn.artifact(booking, name="booking")
    await turn.complete(f"Booked {amount} euros for {purpose} under {category}.")
