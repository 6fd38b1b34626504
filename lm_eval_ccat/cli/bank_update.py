"""``lm-eval-ccat bank update``: new calibration models in a bank, or in every bank of a suite."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .parsing import REQUIRED, Opt, Options, add_command, warn
from .reading import is_folder, scores_for

if TYPE_CHECKING:
    from ..bank import ItemBank

EPILOG = """\
examples:
  lm-eval-ccat bank update my_task.bank.json --scores new_logs/ --calibrated_on old_logs/ \\
      -o my_task.v2.bank.json
  lm-eval-ccat bank update kept.bank.json --scores new_logs/ -o kept.v2.bank.json
  lm-eval-ccat bank update mmlu.banks --scores new_logs/ --retire mmlu_law=17,23 -o mmlu2.banks

The bank is calibrated again on all scores: the new ones, and those it was calibrated on, which it
keeps (calibrate --keep_scores) or --calibrated_on names.  A bank of method "default" also learns
from run directories and logs of adaptive runs; it accounts for how their items were chosen.

--retire removes leaked items.  --new_version removes documents that a new version of the task
changed or dropped, and learns the new ones.
"""


OPTIONS: Options = {
    "BANK": "a bank, or the folder of a suite",
    "--scores LOGS_OR_TABLE": Opt("results of the new models, full or of adaptive runs", REQUIRED),
    "--calibrated_on LOGS_OR_TABLE": "scores of its calibration (default: those it keeps)",
    "-o --output BANK": Opt("where to write", REQUIRED),
    "--retire IDS,": "doc_ids to remove, by commas; for a suite TASK=IDS, once per task",
    "--new_version": "the scores are of a new version of the task: retire documents that "
    "changed or are gone, and learn new ones",
}


def add_action(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``update``."""
    add_command(
        actions, "update", run, OPTIONS, "calibrate a bank again with further models", EPILOG
    )


def run(args: argparse.Namespace) -> int:
    """Add models and write the new bank, or every bank of a suite."""
    from ..bank import SuiteBank
    from ..upkeep.renew import to_retire

    suite = SuiteBank.load(args.bank)
    retired = to_retire(suite, args.retire or [])
    tasks: dict[str, dict[str, ItemBank]] = {}
    for task, outcome, bank in suite.banks():
        name = f"{task} {outcome}" if is_folder(args.bank) else args.output
        updated = tasks.setdefault(task, {})[outcome] = _updated(bank, retired[task], args, name)
        if not is_folder(args.bank):
            updated.save(args.output)
            return 0
    SuiteBank(tasks).save(args.output)
    return 0


def _updated(bank: ItemBank, retired: list[Any], args: argparse.Namespace, name: str) -> ItemBank:
    """One bank with the new models; a line says what became of it."""
    from ..upkeep.update import update
    from ..upkeep.words import dated

    table = scores_for(bank, args.scores, partial=True)
    before = args.calibrated_on and scores_for(bank, args.calibrated_on)
    new = dated(update(bank, table, before, retired=retired, new_version=args.new_version))
    added = len([m for m in new.models if m not in set(bank.models)])
    print(
        f"{name}: {added} models added to {len(bank.models)}, "
        f"{int(new.kept.sum())} items kept of {new.n_items} (sha256 {new.short_hash})"
    )
    for warning in (*table.warnings, *(w for w in new.warnings if w not in bank.warnings)):
        warn(warning)
    return new
