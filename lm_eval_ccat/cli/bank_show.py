"""``lm-eval-ccat bank show``: what an item bank holds and whether to trust it."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any

from ..bank.suite import SuiteBank, is_suite
from ..upkeep.findings import plural
from .parsing import WIDTH, add_json, prints_json, write_json

EPILOG = """\
example:
  lm-eval-ccat bank show my_task.bank.json
  lm-eval-ccat bank show my_task.bank.json --json
  lm-eval-ccat bank show my_task.bank.json --count
  lm-eval-ccat bank show mmlu.banks             each bank of a suite in one line
"""
_MOST_USED = 5


def add_action(actions: argparse._SubParsersAction) -> None:
    """Add ``show``."""
    parser = actions.add_parser(
        "show",
        help="say what a bank was calibrated on, whether to trust it, and what runs asked",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bank", metavar="BANK", help="a bank, or the folder of a suite")
    parser.add_argument(
        "--count",
        action="store_true",
        help="count from now on which documents runs ask, in NAME.bank.usage.json beside the bank",
    )
    add_json(parser, "what the bank holds, parameters included,")
    parser.set_defaults(func=run)


def summary(path: str) -> dict[str, Any]:
    """What ``bank show`` prints, as JSON values."""
    import numpy as np

    from ..bank import ItemBank
    from ..upkeep.age import age_in_words
    from ..upkeep.usage import read_usage

    bank = ItemBank.load(path)
    spread = {}
    for name, values in bank.parameters.items():
        array = np.asarray(values, dtype=float)
        finite = array[np.isfinite(array)]
        if finite.size:
            low, middle, high = np.quantile(finite, [0.0, 0.5, 1.0])
            spread[name] = {"min": float(low), "median": float(middle), "max": float(high)}
    usage = read_usage(path)
    most = sorted(usage.counts.items(), key=lambda pair: -pair[1])
    return {
        "file": path,
        "sha256": bank.sha256,
        "method": bank.method,
        "task": bank.task,
        "metric": bank.metric,
        "filter": bank.filter,
        "scale": bank.scale.describe(),
        "items": len(bank.doc_ids),
        "items_kept": int(np.count_nonzero(bank.kept)),
        "calibration_models": list(bank.models),
        "settings": dict(bank.settings),
        "constants": dict(bank.constants),
        "parameters": spread,
        "provenance": bank.provenance,
        "self_check": bank.self_check,
        "warnings": [*bank.warnings, *bank.notes],
        "made": bank.made,
        "age": age_in_words(bank),
        "observations": len(bank.observations),
        "usage": {
            "tests": usage.tests,
            "items_used": sum(d in bank.index for d in usage.counts),
            "counts": [{"doc_id": d, "tests": n} for d, n in most if d in bank.index],
        },
    }


def run(args: argparse.Namespace) -> int:
    """Print one bank, or a line for each bank of a suite."""
    if args.count:
        from ..upkeep.usage import start_usage

        for file in SuiteBank.files(args.bank).values() if is_suite(args.bank) else [args.bank]:
            start_usage(file)
    if is_suite(args.bank):
        return _run_suite(args)
    facts = summary(args.bank)
    write_json(args.json, facts)
    if prints_json(args.json):
        return 0
    from ..bank import ItemBank
    from ..upkeep.told import told

    print(f"{facts['file']}  (sha256 {facts['sha256'][:12]})")
    sentences = [*told(ItemBank.load(args.bank)), _use(facts["usage"], facts["items_kept"])]
    for text in sentences:
        print(textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="    "))
    for warning in facts["warnings"]:
        print(f"  warning: {warning}")
    return 0


def _run_suite(args: argparse.Namespace) -> int:
    found = {key: summary(str(file)) for key, file in SuiteBank.files(args.bank).items()}
    tasks: dict[str, dict[str, Any]] = {}
    for (task, outcome), facts in found.items():
        tasks.setdefault(task, {})[outcome] = facts
    write_json(args.json, {"suite": args.bank, "tasks": tasks})
    if prints_json(args.json):
        return 0
    kept = sum(f["items_kept"] for f in found.values())
    print(f"{args.bank}: {len(found)} banks of {len(tasks)} tasks, {kept} items")
    width = max(len(f"{task} {outcome}") for task, outcome in found)
    for (task, outcome), facts in found.items():
        name, warnings = f"{task} {outcome}", len(facts["warnings"])
        doubts = f"; {plural(warnings, 'warning')}" if warnings else ""
        print(
            f"  {name:<{width}}  {facts['method']}, {facts['items_kept']} of {facts['items']} "
            f"items, {len(facts['calibration_models'])} models, {facts['age']}, "
            f"{facts['usage']['tests']} tests{doubts}"
        )
    return 0


def _use(usage: dict[str, Any], kept: int) -> str:
    tests, counts = usage["tests"], usage["counts"]
    if not tests:
        return "No adaptive test is recorded; --count starts counting which documents are asked."
    top = ", ".join(f"doc_id {c['doc_id']} in {c['tests']}" for c in counts[:_MOST_USED])
    always = sum(c["tests"] > tests / 2 for c in counts)
    advice = (
        f"; {always} documents were asked in more than half of them, --exposure K spreads them"
        if always and tests >= 4
        else ""
    )
    return (
        f"{plural(tests, 'test')} asked {usage['items_used']} of {kept} documents, most often "
        f"{top}{advice}."
    )
