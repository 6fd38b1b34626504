"""The arguments of a `Ranker`, checked: their types, their ranges, and what they mean together."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from functools import reduce
from operator import and_
from typing import Any

import numpy as np

from ..bank import ItemBank
from ..errors import UsageError
from ..methods.policy import Policy
from ..methods.registry import method_of
from .stopping import (
    AllDecided,
    Budget,
    MaxItems,
    Percentile,
    RankWidth,
    StoppingRule,
    TargetError,
    Unlimited,
    rule_of,
)

_NUMBER = (int, float, np.integer, np.floating)
_WHOLE = (int, np.integer)


def make_policy(bank: ItemBank, n_models: int, seed: int, options: dict[str, Any]) -> Policy:
    """The policy of the bank's method; options that it does not take are an error."""
    chosen = method_of(bank)
    given = {k: v for k, v in options.items() if v is not None}
    chosen.check_options(given, chosen.policy_options)
    parameters = inspect.signature(chosen.policy).parameters
    for name, value in given.items():
        _same_kind(name, value, parameters[name].default)
    return chosen.policy(bank, n_models, seed=seed, **given)


def _same_kind(name: str, value: Any, default: Any) -> None:
    """Refuse an option that is of another type than its default."""
    if isinstance(default, bool):
        flag(value, name)
    elif isinstance(default, int):
        whole(value, name)
    elif isinstance(default, float):
        number(value, name)
    elif isinstance(default, str) and not isinstance(value, str):
        raise UsageError(f"{name} {value!r} is not a text")


def number(
    value: Any, name: str, low: float = -math.inf, high: float = math.inf, above: bool = False
) -> float:
    """A finite number of at least (or `above`) `low` and below `high`.

    Examples
    --------
    >>> number("0.9", "confidence", 0.5, 1.0)
    Traceback (most recent call last):
    lm_eval_ccat.errors.UsageError: confidence '0.9' is not a number
    """
    if isinstance(value, bool) or not isinstance(value, _NUMBER) or math.isnan(value):
        raise UsageError(f"{name} {value!r} is not a number")
    if not (low < value if above else low <= value) or not value < high:
        raise UsageError(f"{name} {value!r} is not {_range(low, high, above)}")
    return float(value)


def _range(low: float, high: float, above: bool) -> str:
    if math.isfinite(high):
        return f"in {'(' if above else '['}{low:g}, {high:g})"
    if math.isfinite(low):
        return f"a number {'above' if above else 'of at least'} {low:g}"
    return "a finite number"


def whole(value: Any, name: str, low: int | None = None) -> int:
    """A whole number of at least `low`.

    Examples
    --------
    >>> whole(3.5, "max_items", 1)
    Traceback (most recent call last):
    lm_eval_ccat.errors.UsageError: max_items 3.5 is not a whole number
    """
    if isinstance(value, bool) or not isinstance(value, _WHOLE):
        raise UsageError(f"{name} {value!r} is not a whole number")
    if low is not None and value < low:
        raise UsageError(f"{name} {value!r} is below {low}")
    return int(value)


def flag(value: Any, name: str) -> bool:
    """True or False, not something that is as good as."""
    if not isinstance(value, bool | np.bool_):
        raise UsageError(f"{name} {value!r} is neither True nor False")
    return bool(value)


def prices_of(models: Any) -> dict[str, float]:
    """Prices of one unit, by model."""
    if not isinstance(models, Mapping):
        raise UsageError(f"models {models!r} has no prices: give {{name: price}}")
    if not models:
        raise UsageError("a ranking needs at least one model")
    return {name: price_of(name, price) for name, price in models.items()}


def price_of(name: Any, price: Any) -> float:
    """The price of one unit of a model."""
    if not isinstance(name, str):
        raise UsageError(f"model {name!r} is not a name")
    return number(price, f"price of model {name!r}:", 0.0)


def stopping_rule(
    stop: StoppingRule | str | None,
    target_se: float | None = None,
    stop_when_decided: bool = True,
    rank_width: int | None = None,
    percentile: float | None = None,
) -> StoppingRule:
    """What a ranking stops by, beside its limits."""
    told = {"target_se": target_se, "rank_width": rank_width, "percentile": percentile}
    given = [name for name, value in told.items() if value is not None]
    if isinstance(stop, str):
        stop = rule_of(stop)
    if stop is not None:
        if not isinstance(stop, StoppingRule):
            raise UsageError(f"stop {stop!r} is not a stopping rule")
        if given or not stop_when_decided:
            raise UsageError(
                f"give stop= alone, or {given[0] if given else 'stop_when_decided'}= without it"
            )
        return stop
    if not flag(stop_when_decided, "stop_when_decided"):
        return Unlimited()
    goals: list[StoppingRule] = []
    if rank_width is not None:
        goals.append(RankWidth(rank_width))
    if percentile is not None:
        goals.append(Percentile(percentile))
    if not goals:
        goals.append(AllDecided(alone=target_se is None))
    if target_se is not None:
        goals.append(TargetError(number(target_se, "target_se", 0.0, above=True)))
    return reduce(and_, goals)


def limits(
    rule: StoppingRule, budget: float | None, max_items: int | None
) -> tuple[float, int | None]:
    """Budget and items per model, the tighter of those given and those of the rule."""
    budgets = [r.amount for r in rule.limits() if isinstance(r, Budget)]
    if budget is not None and budget != math.inf:
        budgets.append(number(budget, "budget", 0.0, above=True))
    items = [r.n for r in rule.limits() if isinstance(r, MaxItems)]
    if max_items is not None:
        items.append(whole(max_items, "max_items", 1))
    return float(min(budgets, default=math.inf)), min(items, default=None)
