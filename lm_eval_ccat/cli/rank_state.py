"""``lm-eval-ccat rank RUN_DIR``: the state of a run, from its directory alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from ..metrics.scale import Scale
from ..runs.rebuild import rebuild
from .rank_output import TIES, print_result, to_json


def show_state(folder: Path, as_json: bool) -> int:
    """Print where a ranking stands.

    Returns
    -------
    int
        The ranking's exit code; 3 rather than 0 while it has not ended.
    """
    from rich.console import Console

    ranker, header = rebuild(folder)
    facts = header["report"]
    ranking = replace(ranker.ranker.result(), scale=Scale.from_dict(facts["scale"]))
    content = to_json(
        ranking,
        ranker.tally,
        task=header["task"]["name"],
        metric=facts["metric"],
        key=facts["key"],
        estimand=facts["estimand"],
        currency=facts["currency"],
        elapsed=ranker.tally.elapsed,
        interrupted=False,
        lm_eval=header["versions"]["lm_eval"],
        bank=header["bank_sha256"],
        run_dir=str(folder),
    )
    content["finished"] = ranker.done
    if not ranker.done:  # pairs that are decided so far need not stay so
        content["exit_code"] = content["exit_code"] or TIES
    content["in_flight"] = [
        {"model": model, "doc_id": doc, "by": claim.owner}
        for (model, doc), claim in ranker.claims.items()
    ]
    if as_json:
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        print_result(Console(highlight=False), content)
        if not ranker.done:
            print(f"Not finished; {len(ranker.claims)} document(s) in flight.")
    return int(content["exit_code"])
