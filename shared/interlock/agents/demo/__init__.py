"""The demo deployment: three agents behind one endpoint."""

from interlock.agents import Agent, Turn
from interlock.agents.demo import billing, conformance, expense_clerk, release_desk

agent = Agent("interlock-demo", "A release desk and an expense clerk that ask people before they act.")
agent.include(release_desk.agent, expense_clerk.agent, billing.agent, conformance.agent)


@agent.skill("help", "Says what this deployment can be asked", examples=["help"])
async def help_(turn: Turn) -> None:
    await turn.complete("Say `release <version>`, `expense <purpose>` or `refund <order> <amount>`.")
