"""`complete`: the remaining documents of a run."""

from __future__ import annotations

import argparse

from .live import Display
from .parsing import JSON, Opt, Options, emit

OPTIONS: Options = {
    "RUN_DIR": "run directory of `rank`, or output folder of `run --adaptive --log_samples`",
    "--name NAME,": "model to complete (default: all)",
    "--config FILE": "the run's YAML file, if it holds credentials",
    "--include_path DIR,": Opt(
        "folder of task configurations, for an output folder of `run --adaptive`", []
    ),
    **JSON,
}


def complete(args: argparse.Namespace) -> int:
    """Ask a ranking's models the remaining documents; score all as lm_eval does.

    example:
      lm-eval-ccat rank models.yaml                  some documents decide the order
      lm-eval-ccat complete models.run --name best   all documents of the winner
      lm-eval-ccat complete logs                     of the models in the output of `run --adaptive`

    No document is asked twice. RUN_DIR/full (for a folder of logs: logs.run/full) then holds what
    lm_eval gives for the same answers. If interrupted, run the command again to continue.
    """
    from ..live.complete import FULL_FOLDER, complete, directory_of

    completed = complete(
        args.run_dir, args.name, args.config, Display(quiet=True), include_path=args.include_path
    )
    # The harness's score by outcome, by task and by model.
    content = {
        name: {
            task: {
                outcome_run.key: outcome_run.estimate.score for outcome_run in (run, *run.further)
            }
            for task, run in runs.items()
        }
        for name, runs in completed.items()
    }
    lines = [
        f"{name}, all documents of {task}: "
        + ", ".join(f"{key} = {score:.4g}" for key, score in scores.items())
        for name, tasks in content.items()
        for task, scores in tasks.items()
    ]
    where = f"Results and samples files are in {directory_of(args.run_dir)}/{FULL_FOLDER}."
    emit(args.json, content, [*lines, where])
    return 0
