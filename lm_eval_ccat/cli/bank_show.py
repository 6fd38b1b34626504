"""``lm-eval-ccat bank show``: what an item bank holds and whether to trust it."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ..bank.suite import SuiteBank, is_suite
from .parsing import add_json, prints_json, write_json

EPILOG = """\
example:
  lm-eval-ccat bank show my_task.bank.json
  lm-eval-ccat bank show my_task.bank.json --json
  lm-eval-ccat bank show mmlu.banks             each bank of a suite in one line
"""
_MOST_USED = 5


def add_action(actions: argparse._SubParsersAction) -> None:
    """Add ``show``."""
    parser = actions.add_parser(
        "show",
        help="print what a bank was calibrated on, its parameters, self-check and items' use",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bank", metavar="BANK", help="a bank, or the folder of a suite")
    add_json(parser, "what the bank holds")
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
    if is_suite(args.bank):
        return _run_suite(args)
    facts = summary(args.bank)
    write_json(args.json, facts)
    if prints_json(args.json):
        return 0
    models = facts["calibration_models"]
    print(f"{facts['file']}  (sha256 {facts['sha256'][:12]})")
    print(f"  task         {facts['task'] or 'not stated'}")
    print(f"  metric       {facts['metric']}, filter {facts['filter'] or 'none'}")
    print(f"  scale        {facts['scale']}")
    print(f"  method       {facts['method']}")
    print(f"  age          {facts['age']}")
    print(f"  items        {facts['items_kept']} kept of {facts['items']}")
    print(f"  models       {len(models)}: {', '.join(map(str, models[:12]))}", end="")
    print(", ..." if len(models) > 12 else "")
    for name, value in facts["constants"].items():
        print(f"  {name:<12} {_short(value)}")
    for name, value in facts["parameters"].items():
        print(
            f"  {name:<12} {value['min']:.4g} to {value['max']:.4g} over the items, "
            f"median {value['median']:.4g}"
        )
    provenance = {k: v for k, v in facts["provenance"].items() if k not in ("report", "sources")}
    if "rows" in provenance:  # of the score table: each is one model in one configuration
        provenance["model configs"] = provenance.pop("rows")
    provenance["sources"] = len(facts["provenance"].get("sources") or [])
    for title, block in (
        ("settings", facts["settings"]),
        ("provenance", provenance),
        ("self-check", facts["self_check"]),
    ):
        if block:
            print(f"  {title}")
            for name, value in block.items():
                print(f"    {name}: {_short(value)}")
    print(f"  use          {_use(facts['usage'], facts['items_kept'])}")
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
        told = f"; {warnings} warning{'' if warnings == 1 else 's'}" if warnings else ""
        print(
            f"  {name:<{width}}  {facts['method']}, {facts['items_kept']} of {facts['items']} "
            f"items, {len(facts['calibration_models'])} models, {facts['age']}, "
            f"{facts['usage']['tests']} tests{told}"
        )
    return 0


def _use(usage: dict[str, Any], kept: int) -> str:
    tests, counts = usage["tests"], usage["counts"]
    if not tests:
        return "no adaptive test recorded yet"
    top = ", ".join(f"doc_id {c['doc_id']} in {c['tests']}" for c in counts[:_MOST_USED])
    always = sum(c["tests"] > tests / 2 for c in counts)
    advice = (
        f"; {always} items were asked in more than half of the tests, --exposure K spreads them"
        if always and tests >= 4
        else ""
    )
    return (
        f"{tests} test{'' if tests == 1 else 's'} asked {usage['items_used']} of {kept} items; "
        f"most often {top}{advice}"
    )


def _short(value: object, width: int = 100) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else json.dumps(value, default=str)
    return text if len(text) <= width else text[: width - 3] + "..."
