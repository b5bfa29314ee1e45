"""What an agent author imports."""

from interlock.agents.agent import Agent, AgentSkillFunction
from interlock.agents.turn import Turn

__all__ = ["Agent", "AgentSkillFunction", "Turn"]
