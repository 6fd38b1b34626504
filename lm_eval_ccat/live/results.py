"""What a ranking leaves in its run directory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .config import mask_secrets

if TYPE_CHECKING:
    from ..ranker import Ranking
    from ..runs.directory import RunDirectory
    from ..runs.journaled import JournaledRanker
    from .models import HarnessWorker
    from .plan import Plan


def result_content(
    plan: Plan,
    ranking: Ranking,
    ranker: JournaledRanker,
    directory: RunDirectory,
    interrupted: bool,
) -> dict[str, Any]:
    """The content of ``result.json``."""
    from ..cli.rank_output import to_json
    from ..harness import internals

    return to_json(
        ranking,
        ranker.tally,
        task=plan.probe.name,
        metric=plan.metric.label,
        key=plan.metric.key(plan.filter),
        estimand=plan.estimand,
        currency=plan.currency,
        elapsed=ranker.elapsed(),
        interrupted=interrupted,
        lm_eval=internals.harness_version(),
        bank=plan.bank.sha256,
        run_dir=str(directory.path),
    )


def write_model_results(
    plan: Plan,
    directory: RunDirectory,
    ranker: JournaledRanker,
    workers: Sequence[HarnessWorker],
    ranking: Ranking,
    console: Any,
) -> None:
    """The harness's results and samples files of each model, beside the journal."""
    from .save import save_model

    for worker in workers:
        answers = {doc: a for (name, doc), a in ranker.answers.items() if name == worker.name}
        if not answers:
            continue
        try:
            worker.restore(answers)
            assert worker.session is not None
            save_model(
                directory.path,
                worker.name,
                worker.session,
                plan.bank,
                plan.metric,
                plan.filter,
                {int(doc): worker.administered[doc] for doc in answers},
                ranking,
                model=str(worker.entry.model),
                model_args=mask_secrets(worker.entry.model_args),
                seconds=ranker.tally.seconds.get(worker.name, 0.0),
                usd=ranker.tally.costs.get(worker.name) if plan.currency == "usd" else None,
            )
        except OSError as error:
            console.print(f"warning: no results files for {worker.name}: {error}", markup=False)
