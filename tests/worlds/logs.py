"""Files of the harness's own runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lm_eval.loggers import EvaluationTracker

from lm_eval_ccat import simple_evaluate


def logged(folder: Path, model: Any, evaluate: Any = simple_evaluate, **arguments: Any) -> Any:
    """Evaluate a model and write its logs, as the harness's command does; the sample rows."""
    tracker = EvaluationTracker(output_path=str(folder))
    results = evaluate(model, evaluation_tracker=tracker, **{"bootstrap_iters": 0, **arguments})
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for task in results["configs"]:
        tracker.save_results_samples(task, samples[task])
    return samples
