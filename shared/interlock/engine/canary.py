"""What a drill halts: a skill of every deployment which works until it is stopped, in each tenant alone."""

from interlock.engine.context import Skill
from interlock.oversight.halts import Scope

CANARY = Skill("interlock", "interlock-canary")


def canary_scope(tenant: str) -> Scope:
    return Scope(tenant, skill=CANARY.id)
