"""``lm-eval-ccat complete``: top an adaptive run up to the full benchmark."""

from __future__ import annotations

import argparse
from typing import Any

from .parsing import JSON, Opt, Options, add_command, prints_json, write_json

EPILOG = """\
example:
  lm-eval-ccat rank models.yaml                  some documents decide the order
  lm-eval-ccat complete models.run --name best   all documents of the winner
  lm-eval-ccat complete logs                     of the models in the output of `run --adaptive`

No document is asked twice. RUN_DIR/full (for a folder of logs: logs.run/full) then holds what
lm_eval gives for the same answers. If interrupted, run the command again to continue.
"""


OPTIONS: Options = {
    "RUN_DIR": "run directory of `rank`, or output folder of `run --adaptive --log_samples`",
    "--name NAME,": "model to complete (default: all)",
    "--config FILE": "the run's YAML file, if it holds credentials",
    "--include_path DIR,": Opt(
        "folder of task configurations, for an output folder of `run --adaptive`", []
    ),
    **JSON,
}


def add_parser(subparsers: Any) -> None:
    """Add ``complete`` to the command line."""
    what = "Ask a ranking's models the remaining documents; score all as lm_eval does."
    add_command(subparsers, "complete", run, OPTIONS, what, EPILOG)


def run(args: argparse.Namespace) -> int:
    """Complete a run."""
    from ..live.complete import FOLDER, complete, directory_of
    from .live import Display

    watcher = Display(quiet=True)
    completed = complete(
        args.run_dir, args.name, args.config, watcher, include_path=args.include_path
    )
    content = {
        name: {
            task: {one.key: one.estimate[0] for one in (run, *run.beside)}
            for task, run in runs.items()
        }
        for name, runs in completed.items()
    }
    write_json(args.json, content)
    if not prints_json(args.json):
        for name, tasks in content.items():
            for task, scores in tasks.items():
                scores_in_words = ", ".join(f"{key} = {score:.4g}" for key, score in scores.items())
                print(f"{name}, all documents of {task}: {scores_in_words}")
        print(f"Results and samples files are in {directory_of(args.run_dir)}/{FOLDER}.")
    return 0
