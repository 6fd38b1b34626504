"""`Method`: one way of calibrating and ranking, looked up by name.

The package's own methods are the folders next to this file that hold a ``method.py`` with an object
``METHOD``. Another package provides one as an entry point::

    [project.entry-points."lm_eval_ccat.methods"]
    mine = "my_package.my_method:METHOD"
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bank.bank import LARGEST, ItemBank
from ..errors import BankError, UsageError
from ..metrics.scale import Floats, Scale
from ..plugins import Plugins, did_you_mean
from ..scores.table import ScoreTable
from .curves import Curves
from .policy import Policy


@dataclass(frozen=True)
class Fitted:
    """Parameters of a response model fitted to a score table.

    Attributes
    ----------
    kept : ndarray of bool, shape (n_items,)
    parameters : dict of str to ndarray, first axis n_items
    constants : dict of JSON values
    report : dict
        Facts for the user who calibrates (items removed and why, spread of abilities).
    self_check : dict
        How well the bank predicts models left out of its calibration.
    warnings : tuple of str
    """

    kept: NDArray[np.bool_]
    parameters: dict[str, Floats]
    constants: dict[str, Any]
    report: dict[str, Any] = field(default_factory=dict)
    self_check: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def require_scores(table: ScoreTable) -> None:
    """Refuse a table in which an item or a model has no score at all.

    Raises
    ------
    BankError
        The message names the item or model.
    """
    empty = np.flatnonzero(table.overview.item_count == 0)
    if len(empty):
        raise BankError(
            f"no model has a score on doc_id {table.doc_ids[empty[0]]!r}"
            + (f" and {len(empty) - 1} more" if len(empty) > 1 else "")
            + ": calibrate on items that were run"
        )
    without_scores = np.flatnonzero(table.overview.model_count == 0)
    if len(without_scores):
        name = table.models[int(without_scores[0])]
        raise BankError(f"model {name!r} has no score at all: leave it out")


def require_parts(
    bank: ItemBank, parameters: Iterable[str], numbers: Iterable[str], positive: Iterable[str] = ()
) -> None:
    """Refuse a bank that lacks parameters with one number per item, or constants of a sound size.

    Parameters
    ----------
    bank : ItemBank
    parameters, numbers : iterable of str
        Names that `bank.parameters` and `bank.constants` must contain.
    positive : iterable of str
        Those of `numbers` that must be above 0.

    Raises
    ------
    BankError
        A part is missing, not a number, or absurdly large; the message names it.
    """
    for name in parameters:
        if name not in bank.parameters:
            raise BankError(f"damaged item bank: method {bank.method!r} needs parameter {name!r}")
        if bank.parameters[name].ndim != 1:
            raise BankError(f"damaged item bank: parameter {name!r} is not one number per item")
    for name in numbers:
        value = bank.constants.get(name)
        # A bank is a file that anybody may edit. In Python True is an integer: refuse it, too.
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise BankError(f"damaged item bank: constant {name!r} is not a number")
        if not math.isfinite(value) or abs(value) > LARGEST:
            raise BankError(f"damaged item bank: constant {name!r} is absurdly large")
        if name in positive and not value > 0:
            raise BankError(f"damaged item bank: constant {name!r} is not above 0")


def _needs_no_calibration(table: ScoreTable) -> Fitted:
    raise UsageError("this method needs no calibration; make a bank with ItemBank.blank(doc_ids)")


def _requires_nothing(bank: ItemBank) -> None:
    """Accept any bank."""


def _as_it_is(bank: ItemBank) -> ItemBank:
    """Return the bank unchanged, for methods without a prior that could be wider."""
    return bank


def _no_curves(bank: ItemBank) -> Curves:
    raise BankError(f"a bank of method {bank.method!r} has no item curves")


#: Keywords of a policy that the ranker sets, not the user.
_OF_RANKER = ("min_difference", "placing", "looks", "sampled")


@dataclass(frozen=True)
class Method:
    """One method. The rest of the package uses a method only through this object.

    Only `policy` is required. A method without item curves, say, leaves `curves` out, and features
    that need curves refuse its banks.

    Attributes
    ----------
    name : str
        Name in banks, commands and tables.
    summary : str
        One line for ``--help``.
    policy : callable
        ``(bank, n_models, *, seed=0, ...) -> Policy``: the ranking side. Its other keywords are
        options of `Ranker` for this method, except those that the ranker sets: ``min_difference``,
        ``looks``, ``placing`` (whether there are reference models) and ``sampled`` (whether an
        answer is one draw, so that a belief about the benchmark is about expected scores).
    repeats_policy : callable, optional
        ``(bank, n_models, first_pass, *, repeats, seed) -> Policy``: the ranking side of several
        answers to an item, of which `policy` makes the first pass. Answer ``r`` of an item is item
        ``item + n_items (r - 1)`` in every call but `Policy.expected`.
    calibrate : callable
        ``(table, *, ...) -> Fitted``: fits parameters to a score table. Its keywords are the
        options of a calibration.
    requires : callable
        ``(bank) -> None``: raises `BankError` naming what the bank lacks for the method.
    curves : callable
        ``(bank) -> Curves``: item curves for raw scores on [0, 1].
    test_curves : callable, optional
        As `curves`, but for stretched scores, if an adaptive test states abilities for these.
    test_scale : callable, optional
        ``(bank) -> Scale``: the part of [0, 1] that is stretched over [0, 1] for `test_curves`.
    doubted : callable
        ``(bank) -> ItemBank``: the bank with a wide prior, for models that were asked otherwise
        than those of its calibration.
    learns_from_chosen : bool
        Whether `calibrate` is valid if items were chosen depending on a model's earlier scores.

    Examples
    --------
    >>> "information" in method("paper").policy_options
    True
    """

    name: str
    summary: str
    policy: Callable[..., Policy]
    repeats_policy: Callable[..., Policy] | None = None
    calibrate: Callable[..., Fitted] = _needs_no_calibration
    requires: Callable[[ItemBank], object] = _requires_nothing
    curves: Callable[[ItemBank], Curves] = _no_curves
    test_curves: Callable[[ItemBank], Curves] | None = None
    test_scale: Callable[[ItemBank], Scale] | None = None
    doubted: Callable[[ItemBank], ItemBank] = _as_it_is
    learns_from_chosen: bool = False

    @property
    def calibrates(self) -> bool:
        """Whether the method has anything to calibrate."""
        return self.calibrate is not _needs_no_calibration

    @property
    def has_curves(self) -> bool:
        """Whether banks of the method have item curves."""
        return self.curves is not _no_curves

    def tested_curves(self, bank: ItemBank) -> Curves:
        """Return the item curves on the scale on which adaptive tests state abilities."""
        return (self.test_curves or self.curves)(bank)

    def tested_scores(self, bank: ItemBank, scores: Floats) -> Floats:
        """Return scores on [0, 1] as `tested_curves` expect them, of the same shape."""
        if self.test_scale is None:
            return scores
        scale = self.test_scale(bank)
        return np.asarray(scale.normalise(np.clip(scores, *scale.ends)))

    @property
    def calibration_options(self) -> tuple[str, ...]:
        """Names of the options of `calibrate`."""
        return _keywords(self.calibrate)

    @property
    def policy_options(self) -> tuple[str, ...]:
        """Names of the options of `policy`, without the arguments that the ranker passes itself."""
        return tuple(n for n in _keywords(self.policy) if n not in ("seed", *_OF_RANKER))

    def rank(
        self,
        bank: ItemBank,
        n_models: int,
        *,
        seed: int,
        min_difference: float,
        placing: bool = False,
        looks: str = "every",
        sampled: bool = False,
        repeats: int = 1,
        **options: Any,
    ) -> Policy:
        """Return the policy of a ranking; for the keywords see `policy` in `Method`.

        Raises
        ------
        UsageError
            Answers are sampled or repeated, and the method does not know how to treat these.
        """
        known = _keywords(self.policy)
        if sampled and "sampled" not in known:
            raise UsageError(
                f"method {self.name!r} takes a model's only answer to an item for its expected "
                "score, but answers are sampled here; ask about these very answers "
                "(question: run), or rank by another method"
            )
        if repeats > 1:
            self.require_repeats()
        # A method takes the arguments that it names, so that a simple one can ignore the others.
        of_ranker = zip(_OF_RANKER, (min_difference, placing, looks, sampled))
        options |= {name: value for name, value in of_ranker if name in known}
        policy = self.policy(bank, n_models, seed=seed, **options)
        if repeats == 1 or self.repeats_policy is None:  # `require_repeats` refuses the latter
            return policy
        return self.repeats_policy(bank, n_models, policy, repeats=repeats, seed=seed)

    def require_repeats(self) -> None:
        """Refuse repeats where the method knows none.

        Raises
        ------
        UsageError
            The message names methods that ask them.
        """
        if self.repeats_policy is None:
            raise UsageError(
                f"method {self.name!r} asks every item once; methods 'default' and 'sample' ask "
                "repeats"
            )

    def check_options(self, names: Iterable[str], known: Sequence[str]) -> None:
        """Refuse an option that the method does not have.

        Raises
        ------
        UsageError
            The message names it, and the option that may be meant.
        """
        for name in names:
            if name not in known:
                raise UsageError(
                    f"method {self.name!r} has no option {name!r}{did_you_mean(name, known)}"
                )


def _keywords(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's optional parameters."""
    parameters = inspect.signature(function).parameters.values()
    return tuple(
        parameter.name
        for parameter in parameters
        if parameter.kind is parameter.KEYWORD_ONLY or parameter.default is not parameter.empty
    )


def _builtin() -> dict[str, str]:
    """Return where the package's own methods stand, by name."""
    folders = sorted(file.parent.name for file in Path(__file__).parent.glob("*/method.py"))
    return {name: f"{__package__}.{name}.method:METHOD" for name in folders}


METHODS: Plugins[Method] = Plugins("method", Method, _builtin)


def names() -> tuple[str, ...]:
    """Return the names of all methods: the package's own, then those registered or installed.

    Examples
    --------
    >>> {"default", "paper"} <= set(names())
    True
    """
    return METHODS.names()


def register(method: Method) -> Method:
    """Register a method in this process, for programs and tests.

    Raises
    ------
    UsageError
        A method of the package already has this name.
    """
    return METHODS.register(method)


def method(name: str) -> Method:
    """Return the method of this name.

    Raises
    ------
    UsageError
        There is no such method, or the one installed cannot be used.

    Examples
    --------
    >>> method("papre")
    Traceback (most recent call last):
    lm_eval_ccat.errors.UsageError: unknown method 'papre'; did you mean paper?
    """
    return METHODS.get(name)


def method_of(bank: ItemBank) -> Method:
    """Return the method of a bank, after checking that the bank has what the method needs.

    Raises
    ------
    BankError
        The method is not installed here, or the bank lacks something that it needs.
    """
    try:
        definition = method(bank.method)
    except UsageError as e:
        raise BankError(f"the bank cannot be used: {e}") from None
    # Check each bank only once: simulations build thousands of rankings.
    if bank.__dict__.get("_checked_for") is not definition:
        definition.requires(bank)
        bank.__dict__["_checked_for"] = definition
    return definition
