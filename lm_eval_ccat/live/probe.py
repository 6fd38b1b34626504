"""``rank --dry_run --probe``: one small request to each model, before anything is spent on more."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..harness import internals
from .failures import describe
from .models import HarnessModel, Item
from .plan import Plan


def probe(plan: Plan, models: Sequence[HarnessModel]) -> dict[str, dict[str, Any]]:
    """Ask each model its shortest document once.

    Models behind servers are asked at the same time; local ones are loaded one after the other.
    Nothing is tried again, and what a model answered or why it could not is told, not raised.

    Parameters
    ----------
    plan : Plan
    models : sequence of HarnessModel
        One per model; closed in the end.

    Returns
    -------
    dict of model to dict
        ``ok``, and either ``answer``, ``seconds`` and ``usd`` or ``error``.
    """
    internals.require_backends(str(entry.model) for entry in plan.config.models)
    item = _shortest(plan)
    found: dict[str, dict[str, Any]] = {}
    remote: list[HarnessModel] = []
    try:
        for model in models:
            try:
                model.open()
            except Exception as error:  # whatever a model type raises where it cannot be made
                found[model.name] = {"ok": False, "error": describe(error)}
                continue
            if model.remote:
                remote.append(model)
            else:
                found[model.name] = _ask(plan, model, item)
                model.close()
        with ThreadPoolExecutor(max(1, len(remote))) as threads:
            answers = threads.map(lambda model: _ask(plan, model, item), remote)
            found.update(zip((model.name for model in remote), answers))
    finally:
        for model in remote:
            model.close()
    return {model.name: found[model.name] for model in models}


def _shortest(plan: Plan) -> Item:
    docs = plan.bank.doc_ids
    doc = min(docs, key=lambda doc: sum(map(len, plan.session.prompts(doc))))
    return doc if plan.single else (plan.outcome.task, doc)


def _ask(plan: Plan, model: HarnessModel, item: Item) -> dict[str, Any]:
    try:
        [answer] = model.ask([item])
    except Exception as error:
        return {"ok": False, "error": describe(error)}
    said = " ".join(str(text) for group in answer.responses for text in group)
    till = plan.till(model.entry)
    _, usd = till.charge(answer.tokens, answer.seconds, answer.judge_usd)
    return {"ok": True, "answer": said[:200], "seconds": answer.seconds, "usd": usd}
