"""``rank --dry_run --probe``: one small request to each model, before anything is spent on more."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..harness import internals
from .failures import describe
from .models import HarnessWorker
from .plan import Plan
from .worker import Item


def probe(plan: Plan, workers: Sequence[HarnessWorker]) -> dict[str, dict[str, Any]]:
    """Ask each model its shortest document once.

    Models behind servers are asked at the same time; local ones are loaded one after the other.
    Nothing is tried again, and what a model answered or why it could not is told, not raised.

    Parameters
    ----------
    plan : Plan
    workers : sequence of HarnessWorker
        One per model; closed in the end.

    Returns
    -------
    dict of model to dict
        ``ok``, and either ``answer``, ``seconds`` and ``usd`` or ``error``.
    """
    internals.require_backends(str(entry.model) for entry in plan.config.models)
    item = _shortest(plan)
    found: dict[str, dict[str, Any]] = {}
    remote: list[HarnessWorker] = []
    try:
        for worker in workers:
            try:
                worker.open()
            except Exception as error:  # whatever a model type raises where it cannot be made
                found[worker.name] = {"ok": False, "error": describe(error)}
                continue
            if worker.remote:
                remote.append(worker)
            else:
                found[worker.name] = _ask(worker, item)
                worker.close()
        with ThreadPoolExecutor(max(1, len(remote))) as threads:
            answers = threads.map(lambda worker: _ask(worker, item), remote)
            found.update(zip((worker.name for worker in remote), answers))
    finally:
        for worker in remote:
            worker.close()
    return {worker.name: found[worker.name] for worker in workers}


def _shortest(plan: Plan) -> Item:
    docs = plan.bank.doc_ids
    doc = min(docs, key=lambda doc: sum(map(len, plan.session.prompts(doc))))
    return doc if plan.single else (plan.outcome.task, doc)


def _ask(worker: HarnessWorker, item: Item) -> dict[str, Any]:
    try:
        [answer] = worker.administer([item])
    except Exception as error:
        return {"ok": False, "error": describe(error)}
    said = " ".join(str(text) for group in answer.responses for text in group)
    return {"ok": True, "answer": said[:200], "seconds": answer.seconds, "usd": answer.usd}
