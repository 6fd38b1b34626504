"""`Charges`: what the answers of a run are expected to cost, and what they do cost.

A *forecast* is what a document is expected to cost a model, by the lengths of prompts and
references, before anything is asked. A *charge* is what an answer counts as once it has come, or a
*lost attempt*: a request without an answer, which the server may bill all the same. Money stands in
three *columns*: billed for sure, assumed to be, or unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..bank import ItemBank
from ..bank.outcome import Outcome
from ..errors import UsageError
from ..harness import TaskSession, internals
from ..harness.judge import expected_judge_usd
from ..harness.task_metrics import leading
from ..money import UNKNOWN, Tokens, estimate_tokens
from ..records import Item
from ..runs.tally import Tally
from .spec import ModelSpec, Spec


@dataclass(frozen=True)
class Forecast:
    """Expected cost of one model's documents.

    ``mean`` is the cost of a document whose answer is as long as the reference, ``largest`` that of
    the dearest one with an answer at the token limit, both in the budget's currency; ``known`` is
    False if the model has no price.
    """

    mean: float
    largest: float
    known: bool


class ExpectedTokens(NamedTuple):
    """Tokens of a document if its answer is as long as its reference, and at the token limit."""

    usual: Tokens
    at_limit: Tokens


class ExpectedJudging(NamedTuple):
    """Dollars of judging a document's answer: as `ExpectedTokens`, and with the longest replies."""

    usual: float
    at_limit: float


class Charge(NamedTuple):
    """What an answer or a lost attempt counts as: cost in `Charges.currency`, and dollars.

    The dollars are None without a known price.
    """

    cost: float
    usd: float | None


@dataclass(frozen=True)
class Charges:
    """The money of a run: prices, and what an answer or a lost attempt is counted as.

    Attributes
    ----------
    spec : Spec
    forecasts : dict of model to Forecast
    prices : dict of model to float
        Price of one unit, in `currency`.
    units : dict of item to float, or None
        Size of each item beside the others, whose mean is 1; None if all count alike.
    currency : {"items", "usd", "tokens"}
    judge_usd : float
        Dollars that judging an answer is expected to cost, on average.
    """

    spec: Spec
    forecasts: dict[str, Forecast] = field(default_factory=dict)
    prices: dict[str, float] = field(default_factory=dict)
    units: dict[Item, float] | None = None
    currency: str = "items"
    judge_usd: float = 0.0

    @classmethod
    def of(
        cls,
        spec: Spec,
        outcomes_by_task: Mapping[str, Mapping[str, Outcome]],
        sessions: Mapping[str, TaskSession],
    ) -> Charges:
        """Return the prices of a run's models, and estimates of what the items of its tasks cost.

        Raises
        ------
        UsageError
            A money budget with a model whose price is unknown.
        """
        currency = currency_of(spec)
        expected: dict[Item, ExpectedTokens] = {}
        judging: list[ExpectedJudging] = []
        # To count tokens takes the prompt of every document, so it is left out where no price needs
        # them.
        if currency == "tokens" or any(model.price.known for model in spec.models):
            for task, outcomes in outcomes_by_task.items():
                bank = leading(outcomes).bank
                lengths = expected_tokens(sessions.get(task), bank, bank.doc_ids)
                expected |= {Item((task, doc_id)): tokens for doc_id, tokens in lengths.items()}
                judging += _judging(spec, sessions.get(task), lengths.values())
        forecasts = {
            model.name: _forecast(model, expected.values(), judging) for model in spec.models
        }
        # Without prices every item of every model counts as one unit.
        prices, units = dict.fromkeys(forecasts, 1.0), None
        if currency == "usd":
            prices = {name: forecast.mean for name, forecast in forecasts.items()}
            # A price per item or per hour does not follow the length of a document.
            if all(model.price.by_tokens for model in spec.models):
                units = _sizes(spec, expected)
        elif currency == "tokens":
            tokens = {item: tokens.usual.total for item, tokens in expected.items()}
            prices = dict.fromkeys(forecasts, sum(tokens.values()) / len(tokens))
            units = _relative(tokens)
        judge_usd = sum(usual for usual, _ in judging) / len(judging) if judging else 0.0
        return cls(spec, forecasts, prices, units, currency, judge_usd)

    @property
    def shows_at_answers(self) -> bool:
        """Whether only answers show what one counts as: by its tokens, or those of its judge."""
        prices = (model.price for model in self.spec.models)
        is_judge_measured = self.spec.judge.item is None and self.judge_usd > 0.0
        in_dollars = "usd" in self.spec.budget
        by_tokens = any(price.by_tokens for price in prices) or is_judge_measured
        return "tokens" in self.spec.budget or (in_dollars and by_tokens)

    @property
    def budget(self) -> float | None:
        """The Ranker's budget, in `currency`; a budget in seconds is not among its arguments."""
        return self.spec.budget.get(self.currency)

    def of_lost_attempt(self, model: str, item: Item, column: str, tally: Tally) -> Charge:
        """Return what an attempt without an answer counts as.

        It costs as much as an answer of the model did on average, or at most if nobody knows
        whether it was billed (`column` is `UNKNOWN`); before the first answer, as much as is
        expected. It is not counted as an item.
        """
        usd = self._usd_of_lost(model, item, column, tally)
        if self.currency == "tokens":
            tokens = tally.lengths[model].of_lost_attempt(column)
            return Charge(self.expected(model, item) if tokens is None else tokens, usd)
        return Charge((usd or 0.0) if self.currency == "usd" else 0.0, usd)

    def expected(self, model: str, item: Item) -> float:
        """Return the expected cost of one item in `currency`."""
        return self.prices[model] * self._size(item)

    def expected_usd(self, model: str, item: Item) -> float | None:
        """Return the expected dollars of one item; None without a known price."""
        forecast = self.forecasts[model]
        return forecast.mean * self._size(item) if forecast.known else None

    def _size(self, item: Item) -> float:
        """Return how large an item is beside the others, whose mean is 1."""
        return 1.0 if self.units is None else self.units[item]

    def _usd_of_lost(self, model: str, item: Item, column: str, tally: Tally) -> float | None:
        """Return the dollars of an attempt without an answer; None without a known price."""
        if (usd := tally.costs[model].of_lost_attempt(column)) is not None:
            return usd
        assumed = self.expected_usd(model, item)
        if column == UNKNOWN and assumed is not None:
            return self.forecasts[model].largest
        return assumed

    def of_answered_request(self, model: str, tokens: Tokens) -> Charge:
        """Return what an answered request of a lost document counts as."""
        charge = self.charge(model, tokens, seconds=0.0, judge_usd=0.0)
        # The document is no item that counts, and is asked again.
        return charge._replace(cost=0.0) if self.currency == "items" else charge

    def charge(
        self,
        model: str,
        tokens: Tokens | None,
        *,
        seconds: float,
        judge_usd: float,
        prior: bool = False,
    ) -> Charge:
        """Return what one answer counts as, including its judging.

        An answer that was paid for before (`prior`) costs only what judging it costs now, and
        nothing in a budget of items or tokens.
        """
        price, judge_price = self.spec.model(model).price, self.spec.judge.item
        usd = None
        # Without a price, a server may still say what an answer costs.
        if price.known or (tokens is not None and tokens.usd is not None):
            usd = judge_usd if judge_price is None else judge_price
            usd += 0.0 if prior else price.cost(tokens, seconds)
        if self.currency == "usd" and usd is not None:
            return Charge(usd, usd)
        # An answer whose tokens nobody counted has as many as were expected on average.
        if self.currency == "tokens" and not prior:
            return Charge(self.prices[model] if tokens is None else tokens.total, usd)
        return Charge(0.0 if prior else 1.0, usd)


def _judging(
    spec: Spec, session: TaskSession | None, expected: Collection[ExpectedTokens]
) -> list[ExpectedJudging]:
    """Return what judging the answers to documents of some lengths is expected to cost."""
    if (stated := spec.judge.item) is not None:
        return [ExpectedJudging(stated, stated)] * len(expected)
    if session is None or not session.judged:
        return [ExpectedJudging(0.0, 0.0)] * len(expected)
    return [
        ExpectedJudging(
            expected_judge_usd(tokens.usual), expected_judge_usd(tokens.at_limit, at_limit=True)
        )
        for tokens in expected
    ]


def _forecast(
    model: ModelSpec, expected: Collection[ExpectedTokens], judging: Collection[ExpectedJudging]
) -> Forecast:
    """Return what documents of some lengths are expected to cost of one model, with its judge."""
    # Without a price every document counts as 1.
    if not model.price.known:
        return Forecast(1.0, 1.0, known=False)
    # Where time is paid, one second per document is assumed until it is measured.
    both = list(zip(expected, judging, strict=True))
    costs = [model.price.cost(tokens.usual, 1.0) + judge.usual for tokens, judge in both]
    costs_at_limit = [
        model.price.cost(tokens.at_limit, 1.0) + judge.at_limit for tokens, judge in both
    ]
    # A reference may be longer than the token limit.
    return Forecast(sum(costs) / len(costs), max(*costs_at_limit, *costs), known=True)


def currency_of(spec: Spec) -> str:
    """Return "items" or "tokens" if the budget is in these; else "usd" if every price is known.

    Without all prices it is "items".

    Raises
    ------
    UsageError
        A budget in money, and a model without a price.
    """
    for currency in ("items", "tokens"):
        if currency in spec.budget:
            return currency
    for model in spec.models:
        if not model.price.known:
            if "usd" not in spec.budget:
                return "items"
            raise UsageError(
                f"the budget is in money and the price of model {model.name} is unknown; add "
                "price: {input: .., output: ..} ($ per million tokens), {item: ..} or {hour: ..}"
            )
    return "usd"


def expected_tokens(
    session: TaskSession | None, bank: ItemBank, doc_ids: Sequence[Any]
) -> dict[Any, ExpectedTokens]:
    """Estimate the tokens of each document, from the lengths of its prompt and its reference.

    Without the task's documents all are the mean that its bank states.
    """
    # A plan by banks loads no documents.
    if session is None:
        assert bank.tokens is not None
        mean = Tokens(*bank.tokens, "estimate")
        return dict.fromkeys(doc_ids, ExpectedTokens(mean, mean))
    documents = internals.documents(session.task)
    generates = internals.output_type(session.task) == "generate_until"
    expected = {}
    for doc_id in doc_ids:
        prompts, n_requests = session.prompts(doc_id), session.n_requests(doc_id)
        # Each prompt may be sent several times, as for repeats.
        read = sum(map(estimate_tokens, prompts)) * (n_requests / len(prompts))
        written = limit = 0.0
        # A model that only rates the likelihood of texts writes nothing.
        if generates:
            target = internals.target(session.task, documents[doc_id])
            # Of several references the first one counts; where it is empty, a token is written.
            text = target[0] if isinstance(target, list) and target else target
            written = max(1.0, estimate_tokens(str(text))) * n_requests
            limit = float(session.token_limit * n_requests)
        expected[doc_id] = ExpectedTokens(
            Tokens(read, written, "estimate"), Tokens(read, limit, "estimate")
        )
    return expected


def _sizes(spec: Spec, expected: Mapping[Item, ExpectedTokens]) -> dict[Item, float] | None:
    """Return the cost of each document of models paid by the token, relative to the mean.

    None if no token costs anything.
    """
    input_prices = sum(model.price.input or 0.0 for model in spec.models)
    output_prices = sum(model.price.output or 0.0 for model in spec.models)
    return _relative(
        {
            item: input_prices * tokens.usual.input + output_prices * tokens.usual.output
            for item, tokens in expected.items()
        }
    )


def _relative(sizes: Mapping[Item, float]) -> dict[Item, float] | None:
    """Return sizes divided by their mean; None if all are 0."""
    mean = sum(sizes.values()) / len(sizes)
    # A ranker takes no size of 0, as an empty prompt has.
    return {item: max(size / mean, 1e-3) for item, size in sizes.items()} if mean > 0.0 else None
