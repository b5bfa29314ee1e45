"""The demo deployment: several agents behind one endpoint."""

from interlock.agents import Agent, Turn
from interlock.agents.demo import (
    billing,
    conformance,
    delegating,
    expense_clerk,
    newsroom,
    release_desk,
    worker,
)

agent = Agent("interlock-demo", "A release desk and an expense clerk that ask people before they act.")
agent.include(
    release_desk.agent,
    expense_clerk.agent,
    billing.agent,
    worker.agent,
    delegating.agent,
    newsroom.agent,
    conformance.agent,
)


@agent.skill("help", "Says what this deployment can be asked", examples=["help"])
async def help_(turn: Turn) -> None:
    await turn.complete(
        "Say `release <version>`, `expense <purpose>`, `refund <order> <amount>`, `work <seconds>`, "
        "`stubborn <seconds>`, `delegate <width> <depth> <seconds>`, `sitrep`, `open pr <title>`, "
        "`merge pr <number>`, `deploy <version>` or `publish <title>`."
    )
