"""What an agent author imports."""

from interlock.agents.agent import Agent, AgentSkillFunction
from interlock.agents.approval import ActionChanged, Approval, ApprovalUsed
from interlock.agents.delegation import Delegation
from interlock.agents.turn import Turn
from interlock.engine.delegate import Settled
from interlock.oversight.approvals import Gate
from interlock.oversight.delegation import Outcome
from interlock.oversight.modes import Mode

__all__ = [
    "ActionChanged",
    "Agent",
    "AgentSkillFunction",
    "Approval",
    "ApprovalUsed",
    "Delegation",
    "Gate",
    "Mode",
    "Outcome",
    "Settled",
    "Turn",
]
