"""What an agent author imports."""

from interlock.agents.agent import Agent, AgentSkillFunction
from interlock.agents.approval import ActionChanged, Approval, ApprovalUsed
from interlock.agents.turn import Turn
from interlock.oversight.approvals import Gate

__all__ = ["ActionChanged", "Agent", "AgentSkillFunction", "Approval", "ApprovalUsed", "Gate", "Turn"]
