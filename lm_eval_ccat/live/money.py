"""The cost of documents: a run's currency, forecasts before and charges after.

The only place that turns tokens and seconds into money.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..harness import internals
from ..harness.prices import Price, Tokens, estimate_tokens
from .entries import ModelSpec
from .spec import Spec

if TYPE_CHECKING:
    from ..harness import TaskSession


@dataclass(frozen=True)
class Till:
    """Charges one model's documents.

    Parameters
    ----------
    price : Price
    judge : float or None
        Dollars of judging one answer, where that is stated; else what the judge measured.
    currency : {"items", "usd"}
        What the Ranker's budget counts.
    """

    price: Price
    judge: float | None
    currency: str

    def charge(
        self, tokens: Tokens | None, seconds: float, judged: float = 0.0
    ) -> tuple[float, float | None]:
        """(cost in the currency, dollars or None) of one document, for whose judging was paid."""
        usd = None
        if self.price.known:
            judge = judged if self.judge is None else self.judge
            usd = self.price.cost(tokens, seconds) + judge
        return (1.0 if self.currency == "items" or usd is None else usd), usd

    def charge_judge(self, judged: float) -> tuple[float, float | None]:
        """As `charge`, of an answer that was paid for before: what judging it cost just now."""
        usd = judged if self.price.known else None
        return (usd or 0.0) if self.currency == "usd" else 0.0, usd


@dataclass(frozen=True)
class Forecast:
    """What one model's documents are expected to take.

    ``mean`` and ``largest`` are costs of one document in the budget's currency; ``known`` is
    False where the price is not stated.
    """

    mean: float
    largest: float
    known: bool


def currency_of(spec: Spec) -> str:
    """Dollars where every price is known and the budget is not one of items.

    Raises
    ------
    UsageError
        A budget in money, and a model without a price.
    """
    if "items" in spec.budget:
        return "items"
    for model in spec.models:
        if not model.price.known:
            if "usd" not in spec.budget:
                return "items"
            raise UsageError(
                f"the budget is in money and the price of model {model.name} is unknown; add "
                "price: {input: .., output: ..} ($ per million tokens), {item: ..} or {hour: ..}"
            )
    return "usd"


def expected_tokens(session: TaskSession, docs: Sequence[Any]) -> dict[Any, Tokens]:
    """What each document is expected to take, from the lengths of its prompt and its reference."""
    documents = internals.documents(session.task)
    generates = internals.output_type(session.task) == "generate_until"
    expected = {}
    for doc in docs:
        prompts = session.prompts(doc)
        repeats = session.n_requests(doc) / len(prompts)
        written = 0.0
        if generates:
            target = internals.target(session.task, documents[doc])
            text = target[0] if isinstance(target, list) and target else target
            written = max(1.0, estimate_tokens(str(text))) * session.n_requests(doc)
        read = sum(map(estimate_tokens, prompts)) * repeats
        expected[doc] = Tokens(read, written, "estimate")
    return expected


def forecast_of(model: ModelSpec, spec: Spec, expected: Mapping[Any, Tokens]) -> Forecast:
    """What one model's documents are expected to cost."""
    if not model.price.known:
        return Forecast(1.0, 1.0, False)
    judge = spec.judge.item or 0.0
    # One second for a document stands for a time not measured yet; costs told correct it.
    costs = [model.price.cost(tokens, 1.0) + judge for tokens in expected.values()]
    return Forecast(sum(costs) / len(costs), max(costs), True)


def sizes_of(spec: Spec, expected: Mapping[Any, Tokens]) -> dict[Any, float] | None:
    """Relative size of each document where every model is paid by the token; mean 1."""
    if not all(m.price.by_tokens for m in spec.models):
        return None
    read = sum(m.price.input or 0.0 for m in spec.models)
    written = sum(m.price.output or 0.0 for m in spec.models)
    sizes = {doc: read * t.input + written * t.output for doc, t in expected.items()}
    mean = sum(sizes.values()) / len(sizes)
    if mean <= 0.0:
        return None
    return {doc: max(size / mean, 1e-3) for doc, size in sizes.items()}
