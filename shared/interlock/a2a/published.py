"""A card as it is served: with its interfaces, and signed."""

from functools import lru_cache

from interlock.a2a.address import Address
from interlock.a2a.card import AgentCard
from interlock.a2a.signing import Signer, signatures

ADDRESSES = 16
"""For so many addresses it is kept."""


class PublishedCard:
    """`v0_3`: the interface of A2A 0.3 is served too. May be used by several threads."""

    def __init__(self, card: AgentCard, *, v0_3: bool = False, signer: Signer | None = None) -> None:
        self._card = card
        self._v0_3 = v0_3
        self._signer = signer
        # Apart: made-up addresses must not drive out ours, whose signatures cost a call of the signer.
        self._ours = lru_cache(ADDRESSES)(self._made)
        self._called = lru_cache(ADDRESSES)(self._made)

    def at(self, address: Address) -> AgentCard:
        """Signed only where the address is ours: a signature says who is to be found there.

        Raises `Unavailable` where the signer does.
        """
        return (self._ours if address.ours else self._called)(address)

    def _made(self, address: Address) -> AgentCard:
        card = self._card.served_at(address.url, v0_3=self._v0_3)
        if self._signer is None or not address.ours:
            return card
        return card.model_copy(update={"signatures": signatures(card, self._signer, address.url)})
