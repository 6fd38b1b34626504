"""The methods a replay compares, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import UsageError
from ..methods.registry import method as registered
from ..methods.registry import names as registered_names
from ..plugins import did_you_mean


@dataclass(frozen=True)
class Method:
    """One way to spend a budget and rank the held-out models.

    Attributes
    ----------
    name : str
        What tables call it.
    kind : {"ranker", "fixed", "random", "common", "limit", "static", "paired", "paired_difference"}
        ``ranker`` drives :class:`~lm_eval_ccat.Ranker` as a live run does; ``fixed`` gives every
        model the same number of adaptively chosen items; the others are no rankers. The last two
        decide pairs by paired t-tests on common items.
    bank : str, optional
        The bank's method, for ``ranker``, ``fixed`` and ``paired_difference``.
    calibrate, rank : dict
        Options of the calibration and of the Ranker.
    own_budget : bool
        Spend up to the budget itself, not what the method "paper" spent.
    as_long_as : str, optional
        For ``fixed``: give every model as many items as the method of this name, which stands
        before it, gave the model it tested longest on the same fold with the same seed.
    holdout_range : bool
        Rescale by the range of the held-out models' own scores, as the paper's authors do. It
        looks at what is to be predicted; only for ``bank="paper"``, and only to compare.

    Examples
    --------
    >>> Method("paper, full information", "ranker", "paper", rank={"information": "full"}).name
    'paper, full information'
    """

    name: str
    kind: str
    bank: str | None = None
    calibrate: Mapping[str, Any] = field(default_factory=dict)
    rank: Mapping[str, Any] = field(default_factory=dict)
    own_budget: bool = False
    as_long_as: str | None = None
    holdout_range: bool = False

    @property
    def drives_ranker(self) -> bool:
        """Whether a `Ranker` asks for the items."""
        return self.kind in ("ranker", "fixed")

    @property
    def calibrates(self) -> bool:
        """Whether it needs the scores of models that are not held out."""
        if self.bank is None:
            return self.kind == "static"
        return registered(self.bank).calibrates

    @property
    def bank_key(self) -> tuple[str | None, str]:
        """Methods with equal keys share one calibration."""
        return self.bank, repr(sorted(self.calibrate.items()))


METHODS: dict[str, Method] = {
    "random": Method("random", "random"),
    "common": Method("common", "common"),
    "limit": Method("limit", "limit"),
    "static": Method("static", "static"),
    "paired": Method("paired", "paired"),
    "paired_difference": Method("paired_difference", "paired_difference", "default"),
    "fixed": Method("fixed", "fixed", "paper"),
    "fixed_default": Method("fixed_default", "fixed", "default"),
}


def named(name: str) -> Method:
    """A baseline, or any method of rankings that is registered or installed.

    Raises
    ------
    UsageError
        There is none of this name.
    """
    if name in METHODS:
        return METHODS[name]
    known = registered_names()
    if name not in known:
        everything = [*known, *METHODS]
        raise UsageError(f"no method {name!r}{did_you_mean(name, everything)}")
    return Method(name, "ranker", name)


def chosen_methods(methods: Sequence[str | Method]) -> tuple[Method, ...]:
    """Look names up; a :class:`Method` stands for itself.

    Raises
    ------
    UsageError
        An unknown name, a name that stands twice, or none at all.
    """
    chosen: list[Method] = []
    for method in methods:
        if isinstance(method, str):
            method = named(method)
        if method.as_long_as is not None and method.as_long_as not in {m.name for m in chosen}:
            raise UsageError(f"{method.name!r} needs {method.as_long_as!r} before it")
        if method.name in {m.name for m in chosen}:
            raise UsageError(f"method {method.name!r} appears twice")
        chosen.append(method)
    if not chosen:
        raise UsageError("name at least one method")
    return tuple(chosen)
