"""What may change while a ranking runs, checked before any of it is applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import UsageError
from .arguments import limits, price_of, stopping_rule
from .known import KnownModels
from .ledger import Ledger
from .stopping import StoppingRule


@dataclass(frozen=True)
class Change:
    """The arguments of `Ranker.change`, as the ranker uses them."""

    rule: StoppingRule
    budget: float
    max_items: int | None
    prices: dict[str, float]
    add: dict[str, float]

    @classmethod
    def of(
        cls,
        rule: StoppingRule,
        stop: StoppingRule | str | None,
        budget: float | None,
        max_items: int | None,
        prices: Mapping[str, float] | None,
        add: Mapping[str, float] | None,
    ) -> Change:
        """From what was given; the rule in force stays where no new one is."""
        new = rule if stop is None else stopping_rule(stop)
        return cls(
            new,
            *limits(new, budget, max_items),
            {name: price_of(name, price) for name, price in (prices or {}).items()},
            {name: price_of(name, price) for name, price in (add or {}).items()},
        )

    def check(self, ledger: Ledger, known: KnownModels | None) -> None:
        """Refuse models that join though they are there, and prices of models that are not."""
        for name in self.add:
            if name in ledger.position:
                raise UsageError(f"model {name!r} is in this ranking already")
        if known is not None:
            known.refuse(list(self.add))
        for name in self.prices:
            ledger.account(name)
