"""``lm-eval-ccat bank diff`` and ``bank update``."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from ..bank import ItemBank, SuiteBank, is_suite
from ..errors import UsageError
from .bank_check import as_of_bank
from .parsing import add_exclude, add_json, names_of, prints_json, warn, write_json
from .reading import add_reading_arguments, read_scores

if TYPE_CHECKING:
    from ..upkeep.diff import BankDiff

DIFF_EPILOG = """\
example:
  lm-eval-ccat bank diff old.bank.json new.bank.json
  lm-eval-ccat bank diff old.banks new.banks        two suites, bank by bank

Exit codes: 0 the same, 3 they differ, 2 usage, 1 error.
"""
UPDATE_EPILOG = """\
examples:
  lm-eval-ccat bank update my_task.bank.json --scores new_logs/ -o my_task.v2.bank.json
  lm-eval-ccat bank update my_task.bank.json --scores new_logs/ --calibrated_on old_logs/ \\
      -o my_task.v2.bank.json

Of a run directory, or of the logs of adaptive runs, a bank of method "default" takes what was asked
and accounts for how it was chosen.

Items that drifted are learned mostly from the new models; --retire takes leaked items out, and
--new_version documents that a new version of the task has changed or dropped; new ones are learned.

With the scores it was calibrated on, the bank is calibrated again on all of them.  Without, what
the bank knows stands for them: fast, but the self-check stays that of before.
"""
DIFFERENT = 3
_SHOWN = 8


def add_actions(actions: argparse._SubParsersAction) -> None:
    """Add ``diff`` and ``update``."""
    diff = actions.add_parser(
        "diff",
        help="print what differs between two banks",
        epilog=DIFF_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    diff.add_argument("old", metavar="OLD", help="a bank, or the folder of a suite")
    diff.add_argument("new", metavar="NEW", help="another of the same kind")
    add_json(diff, "what differs")
    diff.set_defaults(func=run_diff)
    update = actions.add_parser(
        "update",
        help="add calibration models to a bank without starting over",
        epilog=UPDATE_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    update.add_argument("bank", metavar="BANK", help="a bank, or the folder of a suite")
    update.add_argument(
        "--scores",
        metavar="LOGS_OR_TABLE",
        required=True,
        help="results of the new models, full or of adaptive runs",
    )
    update.add_argument(
        "--calibrated_on", metavar="LOGS_OR_TABLE", help="the scores the bank was calibrated on"
    )
    update.add_argument("-o", "--output", metavar="BANK", required=True, help="where to write")
    update.add_argument(
        "--retire", metavar="IDS", help="doc_ids that the bank shall no longer have, by commas"
    )
    update.add_argument(
        "--new_version",
        action="store_true",
        help="the scores are of a new version of the task: retire documents gone or changed, "
        "learn new ones",
    )
    add_exclude(update)
    add_reading_arguments(update)
    update.set_defaults(func=run_update)


def run_diff(args: argparse.Namespace) -> int:
    """Print what differs."""
    from ..upkeep.diff import diff_banks

    if is_suite(args.old) != is_suite(args.new):
        raise UsageError(f"{args.old} and {args.new}: one is a suite, the other a single bank")
    if is_suite(args.old):
        return _diff_suites(args)
    found = diff_banks(ItemBank.load(args.old), ItemBank.load(args.new))
    write_json(args.json, found.to_dict())
    if not prints_json(args.json):
        for line in _differences(found) or ["the banks are the same"]:
            print(line)
    return 0 if found.same else DIFFERENT


def _diff_suites(args: argparse.Namespace) -> int:
    """What differs between two suites, bank by bank."""
    from ..upkeep.diff import diff_suites

    found = diff_suites(SuiteBank.load(args.old), SuiteBank.load(args.new))
    write_json(args.json, found.to_dict())
    if prints_json(args.json):
        return 0 if found.same else DIFFERENT
    for word, names in (("added", found.added), ("removed", found.removed)):
        for task, outcome in names:
            print(f"{task} {outcome}: {word}")
    for (task, outcome), one in found.banks.items():
        for line in _differences(one):
            print(f"{task} {outcome}: {line}")
    if found.same:
        print(f"the suites are the same ({len(found.banks)} banks)")
    return 0 if found.same else DIFFERENT


def _differences(found: BankDiff) -> list[str]:
    """What differs between two banks, one thing a line."""
    lines = []
    for label, values in (
        ("items added", found.items_added),
        ("items removed", found.items_removed),
        ("documents changed", found.documents_changed),
        ("items kept now", found.kept_now),
        ("items left out now", found.removed_now),
        ("models added", found.models_added),
        ("models removed", found.models_removed),
    ):
        if values:
            shown = ", ".join(map(str, values[:_SHOWN]))
            lines.append(
                f"{label}: {len(values)} ({shown}{', ...' if len(values) > _SHOWN else ''})"
            )
    for name, p in found.parameters.items():
        if p["largest_change"]:
            r = p["correlation"]
            lines.append(
                f"{name}: changed by at most {p['largest_change']:.4g}, rms {p['rms_change']:.4g}"
                + ("" if r is None else f", correlation {r:.4f}")
            )
    for name, (old, new) in found.fields.items():
        lines.append(f"{name}: {_short(old)} -> {_short(new)}")
    return lines


def run_update(args: argparse.Namespace) -> int:
    """Add models and write the new bank, or every bank of a suite."""
    if not is_suite(args.bank):
        new = _updated(args.bank, args, args.output)
        new.save(args.output)
        return 0
    tasks: dict[str, dict[str, ItemBank]] = {}
    for (task, outcome), file in SuiteBank.files(args.bank).items():
        tasks.setdefault(task, {})[outcome] = _updated(str(file), args, f"{task} {outcome}")
    SuiteBank(tasks).save(args.output)
    return 0


def _updated(file: str, args: argparse.Namespace, name: str) -> ItemBank:
    """One bank with the new models, told of by `name`."""
    from ..upkeep.age import dated
    from ..upkeep.update import update

    bank = ItemBank.load(file)
    table = read_scores(args.scores, as_of_bank(args, bank), partial=True)
    if names := names_of(args.exclude):
        if set(names) >= set(table.models):
            raise UsageError("--exclude leaves no model to add")
        table.select(names)  # an unknown name is an error, not a silent nothing
        table = table.without(names)
    before = None
    if args.calibrated_on is not None:
        before = read_scores(args.calibrated_on, as_of_bank(args, bank))
    kind = type(bank.doc_ids[0])
    try:
        retired = [kind(d) for d in names_of(args.retire)]
    except ValueError:
        raise UsageError(f"--retire {args.retire}: the bank's doc_ids are numbers") from None
    new = dated(update(bank, table, before, retired=retired, new_version=args.new_version))
    added = [m for m in new.models if m not in set(bank.models)]
    print(
        f"{name}: {len(added)} models added to {len(bank.models)}, "
        f"{int(new.kept.sum())} items kept of {new.n_items} (sha256 {new.short_hash})"
    )
    for warning in (*table.warnings, *(w for w in new.warnings if w not in bank.warnings)):
        warn(warning)
    return new


def _short(value: Any, width: int = 60) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else json.dumps(value, default=str)
    return text if len(text) <= width else text[: width - 3] + "..."
