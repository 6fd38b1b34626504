"""``save_bank:``: what a ranking observed, kept for the next one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from ..bank import ItemBank
from ..bank.observations import Observation
from ..bank.suite import SuiteBank
from ..errors import UsageError
from ..runs.journaled import JournaledRanker
from ..upkeep.grow import grow, readiness, require_growing
from .outcomes import banks_of
from .plan import Plan


def growing(plan: Plan, path: str | Path) -> dict[str, ItemBank]:
    """The banks that will grow, by outcome: those of the file if it exists, else the run's own.

    Raises
    ------
    UsageError
        The file is of other items or metrics, or several tasks are ranked.
    BankError
        It cannot be read, or a bank cannot take in observations.
    """
    if len(plan.measured) > 1:
        raise UsageError("save_bank: is for one task; the run directory keeps the answers of all")
    [outcomes] = plan.measured.values()
    place = Path(path)
    if not place.exists():
        found = {name: outcome.bank for name, outcome in outcomes.items()}
    else:
        found = banks_of(place, plan.outcome.task)
        if len(outcomes) == len(found) == 1:
            found = dict(zip(outcomes, found.values()))
    for name, outcome in outcomes.items():
        own, bank = outcome.bank, found.get(name)
        if bank is None or (bank.metric, bank.doc_ids, bank.scale) != (
            own.metric,
            own.doc_ids,
            own.scale,
        ):
            raise UsageError(
                f"{place} holds no bank of {name} on the items of this run, so what is observed "
                "cannot be added to it; name another file for save_bank:"
            )
        require_growing(bank)
    return {name: found[name] for name in outcomes}


def keep(
    plan: Plan,
    ranker: JournaledRanker,
    path: str | Path,
    settings: Mapping[str, Any],
    names: Mapping[str, str] | None = None,
) -> str:
    """Add what a ranking observed to its growing bank; what was kept, in words.

    Parameters
    ----------
    plan : Plan
    ranker : JournaledRanker
    path : path
        A file, or a folder where answers have several outcomes.
    settings : mapping
        Evaluation settings of the run.
    names : mapping, optional
        What the models of the ranking are called in the bank.

    Raises
    ------
    BankError
        The file cannot be written, or every model is in the bank already.
    """
    today = date.today().isoformat()
    banks = growing(plan, path)
    made: dict[str, ItemBank] = {}
    stated = {k: v for k, v in settings.items() if k != "chat_template_sha"}
    for join in (True, False):  # banks of several outcomes are of one method
        for name, bank in banks.items():
            own = replace(bank, settings=bank.settings or stated)
            seen = _observed(plan, ranker, name, bank, today, names or {})
            made[name] = grow(own, seen, today, join)
        if len({bank.method for bank in made.values()}) == 1:
            break
    if plan.single:
        next(iter(made.values())).save(path)
    else:
        SuiteBank({plan.outcome.task: made}).save(path)
    first = next(iter(made.values()))
    return f"Kept in {path}: answers of {len(first.models)} models; {readiness(first)}."


def _observed(
    plan: Plan,
    ranker: JournaledRanker,
    name: str,
    bank: ItemBank,
    today: str,
    names: Mapping[str, str],
) -> list[Observation]:
    by_model: dict[str, list[tuple[int, float, float]]]
    by_model = {entry.name: [] for entry in plan.config.models}
    for (model, item), record in ranker.answers.items():
        score = record.get("score")
        if isinstance(score, Mapping):
            score = score.get(name)
        doc = item if plan.single else item[1]
        if score is None or doc not in bank.index:
            continue
        draw = ranker.ranker.probability(model, item)
        row = (bank.index[doc], float(score), np.nan if draw is None else draw)
        by_model[model].append(row)
    found = []
    for model, rows in ((m, r) for m, r in by_model.items() if r):
        items = np.array([row[0] for row in rows], dtype=np.intp)
        scores, p = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
        drawn = bool(np.isfinite(p).all())
        if len(items) == bank.n_items:  # all of them, in the bank's order
            order = np.argsort(items)
            items, scores, p = items[order], scores[order], np.full(len(items), np.nan)
        chosen = "all" if len(items) == bank.n_items else "drawn" if drawn else "adaptive"
        known = p if np.isfinite(p).any() else None
        found.append(Observation(names.get(model, model), chosen, items, scores, known, "", today))
    return found
