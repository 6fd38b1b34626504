"""What a run is, as the header of its journal says it: for readers, and to resume it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

from .. import __version__
from ..bank.outcome import Outcome
from ..grouping import grouped
from ..harness import internals
from ..methods.belief import POPULATION
from ..records import Header
from ..scores.prompts import hash_of
from ..shown import some
from .plan import Plan

#: Key of a run's identity that shows whether the same code scores the answers.
SCORING_HASH = "scoring_code_sha256"


def header_of_plan(plan: Plan) -> Header:
    """Return the header of a run with what its readers need; `identity_of` adds to it."""
    outcomes = {
        task: {key: facts_of_outcome(outcome) for key, outcome in outcomes.items()}
        for task, outcomes in plan.outcomes_by_task.items()
    }
    asking = [session.asking for session in plan.sessions.values()]
    accepted = grouped((difference.change, difference.text) for difference in plan.accepted)
    return Header(
        bank_sha256="+".join(outcome.bank.sha256 for outcome in plan.all_outcomes),
        task={
            "name": "+".join(plan.outcomes),
            "metric": plan.outcome.metric.name,
            "filter": plan.outcome.filter,
        },
        versions={"lm_eval_ccat": __version__, "lm_eval": internals.harness_version()},
        report={
            "metric": plan.label,
            "key": plan.key,
            "scale": plan.scale.to_dict(),
            "estimand": estimand_of(plan),
            "currency": plan.charges.currency,
            "asking": json.loads(json.dumps(asking, default=str)),
            **({"accepted": accepted} if accepted else {}),
            **({"warnings": list(plan.warnings)} if plan.warnings else {}),
            **({} if plan.only_outcome else {"outcomes": outcomes}),
        },
    )


def identity_of(plan: Plan) -> Header:
    """Return the journal's header: what readers need, and what a resumed run must not change."""
    header, sessions = header_of_plan(plan), plan.sessions
    doc_hashes = [doc_hash for session in sessions.values() for doc_hash in session.doc_hashes]
    settings: dict[str, Any] = {task: dict(session.settings) for task, session in sessions.items()}
    # A reader of one task's journal finds its settings without the task's name.
    if len(sessions) == 1:
        [settings] = settings.values()
    task = {
        **header.task,
        "documents": len(plan.documents()),
        "documents_sha256": hash_of("".join(map(str, doc_hashes))),
        "prompts": {task: list(session.marks.values()) for task, session in sessions.items()},
        SCORING_HASH: hash_of(
            "".join(internals.scoring_code(session.task) for session in sessions.values())
        ),
        # Their scales and weights must not change either.
        **{key: value for key, value in header.report.items() if key == "outcomes"},
        "settings": json.loads(json.dumps(settings, default=str)),
    }
    config, arguments = plan.spec.public(), plan.ranker_arguments()
    return replace(header, config=config, task=task, ranker=arguments)


def estimand_of(plan: Plan) -> str:
    """Say in words what the estimates estimate: the mean of which scores, over which documents."""
    what, *others = dict.fromkeys(outcome.metric.in_words for outcome in plan.weighted_outcomes)
    if others:
        means = " and the ".join(words.rstrip(",") for words in (what, *others))
        what = f"weighted mean of the {means}, each on [0, 1],"
    if plan.noisy:
        what = f"expected {what} as configured,"
    tasks = ", ".join(plan.outcomes)
    return f"Estimates are of the {what} over {_which_documents(plan)} of {tasks}{_weights(plan)}"


def _which_documents(plan: Plan) -> str:
    """Say which documents the estimates are about, or like which ones."""
    n_items = sum(outcome.bank.n_items for outcome in plan.outcomes.values())
    n_documents = len(plan.documents())
    population = plan.spec.question == POPULATION
    # A bank has the documents that it was calibrated on, which may be fewer than the task has.
    if n_items < n_documents:
        whose = "the bank's" if len(plan.outcomes) == 1 else "the banks'"
        if population:
            return f"documents like {whose} {n_items}"
        return f"{whose} {n_items} of {n_documents} documents"
    if n_items == 1:
        return "documents like the only one" if population else "the only document"
    return f"documents like these {n_items}" if population else f"all {n_items} documents"


def _weights(plan: Plan) -> str:
    """Say how tasks weigh; "" where all documents weigh the same, as in a mean over these."""
    sizes = {task: outcome.bank.n_items for task, outcome in plan.outcomes.items()}
    weights = [plan.weights.get(task, size) for task, size in sizes.items()]
    weights_of_documents = [weight / size for weight, size in zip(weights, sizes.values())]
    if math.isclose(min(weights_of_documents), max(weights_of_documents)):
        return ""
    if math.isclose(min(weights), max(weights)):
        return ", where all tasks weigh the same"
    shares = [f"{100 * weight / sum(weights):.3g}%" for weight in weights]
    return f", where tasks weigh {some(shares, 8)}"


def facts_of_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return what a reader of a run needs to know about one outcome."""
    return {
        "metric": outcome.metric.name,
        "filter": outcome.filter,
        "label": outcome.metric.label,
        "key": outcome.results_key,
        "scale": outcome.metric.scale.to_dict(),
        "weight": outcome.weight,
    }
