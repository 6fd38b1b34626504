"""``save_bank:``: keep what a ranking observed for the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np

from ..bank import ItemBank
from ..bank.bank import Observation
from ..bank.suite import SuiteBank
from ..errors import BankError, UsageError
from ..runs.book import Book
from ..upkeep.update import grow, readiness, require_growing
from .models import HarnessModel
from .observer import Observer
from .plan import Plan, banks_of


def growing(plan: Plan, path: str | Path) -> dict[str, dict[str, ItemBank]]:
    """The banks that will grow, by task and outcome: those of the file, else the run's own.

    Raises
    ------
    UsageError
        The file is of other items or metrics, or of one task where several are ranked.
    BankError
        It cannot be read, or a bank cannot take in observations.
    """
    place, growing = Path(path), {}
    if len(plan.measured) > 1:
        refuse_file(place)
    for task, outcomes in plan.measured.items():
        banks = {name: outcome.bank for name, outcome in outcomes.items()}
        if place.exists() and (place.is_file() or task in _banks_in(place)):
            banks = banks_of(place, task)
            if len(outcomes) == len(banks) == 1:
                banks = dict(zip(outcomes, banks.values()))
        for name, outcome in outcomes.items():
            blank, bank = outcome.bank, banks.get(name)
            if bank is None or any(
                getattr(bank, what) != getattr(blank, what)
                for what in ("metric", "doc_ids", "scale")
            ):
                raise UsageError(
                    f"{place} holds no bank of {name} on the items of this run, so what is "
                    "observed cannot be added to it; name another file for save_bank:"
                )
            require_growing(bank)
        growing[task] = {name: banks[name] for name in outcomes}
    return growing


def refuse_file(place: Path) -> None:
    """Refuse a file where banks of several tasks are to be kept.

    Raises
    ------
    UsageError
    """
    if place.is_file():
        raise UsageError(
            f"{place} is a file, and banks of several tasks are a folder; name another for "
            "save_bank:"
        )


def keep(
    plan: Plan,
    book: Book,
    models: Sequence[HarnessModel],
    observer: Observer,
    names: Mapping[str, str],
) -> None:
    """Add what a ranking observed to its growing banks; problems with them become warnings.

    The place of ``save_bank:`` is a file; a folder where there are several tasks or outcomes, or
    where it is one already. Banks of other tasks in it stay.

    Parameters
    ----------
    plan : Plan
    book : Book
    models : sequence of HarnessModel
    observer : Observer
    names : mapping
        What models of the ranking are called in the bank, where it is something else.
    """
    if not any("score" in answer for answer in book.answers.values()):
        return
    opened = next((model.sessions for model in models if model.sessions), plan.sessions)
    path, today = str(plan.spec.save_bank), date.today().isoformat()
    try:
        banks, place = growing(plan, path), Path(path)
        old = {task: of for task, of in _banks_in(place).items() if task not in banks}
        for join in (True, False):  # banks of several tasks and outcomes are of one method
            grown: dict[str, dict[str, ItemBank]] = {}
            for task, of in banks.items():
                stated = {
                    k: v for k, v in opened[task].settings.items() if k != "chat_template_sha"
                }
                for name, bank in of.items():
                    base = replace(bank, settings=bank.settings or stated)
                    seen = _observed(plan, book, task, name, bank, names)
                    grown.setdefault(task, {})[name] = (
                        grow(base, seen, today, join) if seen or base.observations else base
                    )
            every = [b for of in (*grown.values(), *old.values()) for b in of.values()]
            if len({bank.method for bank in every}) == 1:
                break
        least = min((b for of in grown.values() for b in of.values()), key=lambda b: len(b.models))
        if isinstance(plan.banks, ItemBank) and not place.is_dir():
            least.save(path)
        else:
            SuiteBank({**old, **grown}).save(path)
    except BankError as error:
        observer.warn(f"save_bank: {error}")
        return
    observer.note(f"Saved {len(least.models)} models to {path}. {readiness(least)}.")


def _banks_in(place: Path) -> Mapping[str, Mapping[str, ItemBank]]:
    """Banks of a folder by task and outcome; none where it is no folder, or an empty one."""
    if not place.is_dir() or not any(place.glob("*.json")):
        return {}
    return SuiteBank.load(place)


def _observed(
    plan: Plan, book: Book, task: str, outcome: str, bank: ItemBank, names: Mapping[str, str]
) -> list[Observation]:
    """What a run observed of one outcome, an observation for each model."""
    by_model: dict[str, list[tuple[int, float, float]]]
    by_model = {entry.name: [] for entry in plan.spec.models}
    for (model, item), record in book.answers.items():
        score, (of, doc) = record.get("score"), item
        if isinstance(score, Mapping):
            score = score.get(outcome)
        if of == task and score is not None and doc in bank.index:
            draw = book.ranker.probability(model, item)
            row = (bank.index[doc], float(score), np.nan if draw is None else draw)
            by_model[model].append(row)
    observations, today = [], date.today().isoformat()
    for model, rows in ((m, r) for m, r in by_model.items() if r):
        items, scores, p = np.array(rows).T
        chosen = "drawn" if np.isfinite(p).all() else "adaptive"
        if len(rows) == bank.n_items:  # in the bank's order
            chosen, order = "all", np.argsort(items)
            items, scores, p = items[order], scores[order], np.full_like(p, np.nan)
        known = p if np.isfinite(p).any() else None
        name, at = names.get(model, model), items.astype(np.intp)
        observations.append(Observation(name, chosen, at, scores, known, "", today))
    return observations
