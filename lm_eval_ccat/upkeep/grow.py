"""A bank that grows: what rankings observed, kept, until a response model can be made of it.

A ranking without a bank leaves answers of its models on random items. They are kept in a bank of
the method "sample", whose estimates next time allow for how easy items were for the models seen.
Once `MODELS` models have answered, and every item has `ANSWERS` answers, the method "default" is
calibrated on them, again each time that something is added.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np

from .. import __version__
from ..bank import ItemBank
from ..bank.names import hashed_name
from ..bank.observations import Observation
from ..errors import BankError, CcatError
from ..methods.calibration import calibrate
from ..wording import some
from .tables import table_of

#: From so many models on a response model is made of what was observed,
MODELS = 8
#: where every item has so many answers.
ANSWERS = 3


def grow(
    bank: ItemBank, new: Sequence[Observation], date: str | None = None, join: bool = True
) -> ItemBank:
    """Add observations to a bank.

    Parameters
    ----------
    bank : ItemBank
        Blank, grown before, or calibrated on logs with ``keep_scores``.
    new : sequence of Observation
        Of the bank's items. Where a model answered an item before, the new score counts.
    date : str, optional
        ISO 8601, of the bank that is made.
    join : bool, optional
        Whether the response model may join in.

    Raises
    ------
    BankError
        The bank cannot take in observations.

    Examples
    --------
    >>> import numpy as np
    >>> one = Observation("a", "drawn", np.array([2, 0]), np.array([1.0, 0.5]))
    >>> bank = grow(ItemBank.blank(range(3)), [one])
    >>> bank.models, readiness(bank)[-37:]
    (('a',), '(now 1, and 0 for the least answered)')
    """
    require_growing(bank)
    return _made(bank, merged(bank.observations, new), date, join)


def require_growing(bank: ItemBank) -> None:
    """Refuse a bank that cannot take in what a ranking observes.

    Raises
    ------
    BankError
    """
    if bank.method != "sample" and not (bank.observations and bank.method == "default"):
        raise BankError(
            f"a bank of method {bank.method!r} without its scores cannot grow: save_bank needs one "
            "of method 'default' that keeps them (calibrate --keep_scores), or none"
        )


def merged(old: Iterable[Observation], new: Iterable[Observation]) -> list[Observation]:
    """Observations by model and configuration, one each; later scores replace earlier ones."""
    by_model: dict[tuple[str, str], Observation] = {}
    for one in [*old, *new]:
        before = by_model.get((one.model, one.config))
        if before is not None:
            kept = ~np.isin(before.items, one.items)
            either = before.probabilities is not None or one.probabilities is not None
            earlier, later = (
                np.full(len(o.items), np.nan) if o.probabilities is None else o.probabilities
                for o in (before, one)
            )
            one = Observation(
                one.model,
                one.chosen if one.chosen == before.chosen or not kept.any() else "adaptive",
                np.concatenate([before.items[kept], one.items]),
                np.concatenate([before.scores[kept], one.scores]),
                np.concatenate([earlier[kept], later]) if either else None,
                one.config,
                one.date or before.date,
            )
        by_model[one.model, one.config] = one
    return list(by_model.values())


def readiness(bank: ItemBank) -> str:
    """In words, whether the response model takes part, and when it will."""
    if bank.method != "sample":
        return f"Adaptive selection uses {len(bank.models)} models"
    models, least = _counts(bank, bank.observations)
    return (
        f"Adaptive selection starts at {MODELS} models and {ANSWERS} answers per item (now "
        f"{models}, and {least} for the least answered)"
    )


def _counts(bank: ItemBank, observations: Sequence[Observation]) -> tuple[int, int]:
    """Models, and answers to the item that has the fewest."""
    count = np.zeros(bank.n_items, dtype=np.intp)
    for one in observations:
        count[one.items] += 1
    return len({o.model for o in observations}), int(count.min())


def _made(
    bank: ItemBank, observations: Sequence[Observation], date: str | None, join: bool
) -> ItemBank:
    parts = ("task", "metric", "filter", "scale", "doc_hashes", "settings")
    blank = ItemBank.blank(bank.doc_ids, **{part: getattr(bank, part) for part in parts})
    grown = blank
    models, least = _counts(bank, observations)
    if join and models >= MODELS and least >= ANSWERS:
        grown = calibrate(table_of(blank, observations), "default")
        provenance = {**grown.provenance, "package": __version__, "grown": True}
        grown = replace(grown, settings=dict(bank.settings), provenance=provenance)
    return replace(
        grown,
        models=tuple(dict.fromkeys(o.model for o in observations)),
        observations=tuple(observations),
        made=date,
    )


# -- a bank as if the models that it is to test had not calibrated it ----------------------


def of_others(bank: ItemBank, models: Collection[str]) -> tuple[ItemBank, str]:
    """Leave out what a bank knows of models that are to be ranked by it.

    Parameters
    ----------
    bank : ItemBank
    models : collection of str
        Names, which the bank may hold as hashes.

    Returns
    -------
    bank : ItemBank
        Made again of the others' scores, where the bank holds scores (``keep_scores``); else as
        it is.
    warning : str
        What a person should know of it; empty where no such model is in the bank.

    Examples
    --------
    >>> of_others(ItemBank.blank(range(3)), ["a"])[1]
    ''
    """
    names = {hashed_name(m): m for m in models} | {m: m for m in models}
    ranked = [m for m in bank.models if m in names]
    if not ranked or bank.method == "sample":
        return bank, ""
    shown = some([names[m] for m in ranked], 3)
    what = f"the bank{f' of {bank.task}' if bank.task else ''} was calibrated on {shown} too"
    if bank.observations:
        rest = [o for o in bank.observations if o.model not in ranked]
        options = bank.provenance.get("options") or {}
        try:
            if bank.provenance.get("grown"):  # goes on as it grows
                others = _made(bank, rest, bank.made, True)
            else:
                others = calibrate(table_of(bank, rest), bank.method, keep_scores=True, **options)
                others = replace(others, settings=dict(bank.settings), made=bank.made)
            return others, f"{what}: its scores of them are left out of this ranking"
        except CcatError as error:
            what = f"{what}, and cannot do without them ({error})"
    return bank, (
        f"{what}: its estimates of them are too certain; calibrate with --exclude, or with "
        "--keep_scores, which lets rankings leave them out"
    )
