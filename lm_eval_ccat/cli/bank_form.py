"""``lm-eval-ccat bank form``: a fixed subset chosen to predict the full score, and its scoring."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from .parsing import INCLUDE_PATH, JSON, Opt, Options, add_command, prints_json, warn, write_json
from .reading import is_folder, scores_for, write_facts

if TYPE_CHECKING:
    from ..bank import ItemBank
    from ..scores import ScoreTable

EPILOG = """\
examples:
  lm-eval-ccat bank form gsm8k.bank.json --items 40 --scores logs/ -o gsm8k.form
  lm_eval run --model hf --model_args pretrained=gpt2 --tasks gsm8k_form1_40 \\
      --include_path gsm8k.form --log_samples --output_path out
  lm-eval-ccat bank form gsm8k.form --score out

If you cannot run adaptively, use a form: a fixed subset chosen to predict the full score.  Its
estimate is a regression on the scores of its items, not their mean.  With few known models an
adaptive test tells more with as many items.
"""

#: Of the intervals of estimates.
CONFIDENCE = 0.95


OPTIONS: Options = {
    "BANK": "a bank or the folder of a suite; with --score a form's folder",
    "--items N": Opt("items of the form", 40),
    "--scores LOGS_OR_TABLE": "full results of many models (default: those that the bank keeps)",
    **INCLUDE_PATH,
    "-o --output DIR": "folder to write",
    "--score LOGS": "estimate full scores from a form's logs",
    **JSON,
}


def add_action(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``form``."""
    what = "choose a fixed subset of items, or score the logs of one"
    add_command(actions, "form", run, OPTIONS, what, EPILOG)


def run(args: argparse.Namespace) -> int:
    """Make forms, or score the logs of one."""
    if args.score is not None:
        return _score(args)
    if args.output is None:
        raise UsageError("name a folder to write the form to: -o DIR")
    from ..bank import SuiteBank

    suite = SuiteBank.load(args.bank)
    forms: dict[tuple[str, str], object] = {}
    for task, outcome, bank in suite.banks():
        folder = f"{args.output}/{task}.{outcome}" if is_folder(args.bank) else args.output
        table = scores_for(bank, args.scores) if args.scores else None
        forms[task, outcome] = _made(bank, table, folder, args)
    write_facts(args.json, is_folder(args.bank), args.output, forms)
    return 0


def _made(
    bank: ItemBank, table: ScoreTable | None, folder: str, args: argparse.Namespace
) -> dict[str, object]:
    """One bank's forms, written; as JSON values."""
    from ..upkeep.form_files import forms_of, write_forms

    forms = forms_of(bank, args.items, 1, table)
    facts, lacking = write_forms(forms, folder, args.include_path)
    if lacking:
        warn(f"no task for lm_eval: {lacking}; run the doc_ids by other means")
    if prints_json(args.json):
        return facts
    for n, form in enumerate(forms.forms, start=1):
        error = forms.scale.restore_error(form.error)
        print(
            f"form {n}: {len(form.items)} of {bank.n_items} items; root mean squared error "
            f"{error:.3g} over models left out ({form.models} models)"
        )
        print(f"  doc_ids {','.join(map(str, form.items))}")
    if not lacking:
        tasks = ",".join(forms.name(n + 1) for n in range(len(forms.forms)))
        print(f"{folder}: run with lm_eval --tasks {tasks} --include_path {folder} --log_samples, "
              f"then lm-eval-ccat bank form {folder} --score LOGS")  # fmt: skip
    return facts


def _score(args: argparse.Namespace) -> int:
    """Estimate and print."""
    from ..upkeep.form_files import load_forms, score_forms

    if not Path(args.score).exists():
        raise UsageError(f"{args.score}: no such file or directory of scores")
    content: list[dict[str, Any]] = []
    why = None
    for f in load_forms(args.bank):
        try:
            models = score_forms(f, args.score, CONFIDENCE)
        except UsageError as error:  # of a suite the logs may be of some banks' forms
            why = error
            continue
        content.append({
            "estimand": f"mean {f.metric} over all {f.n_items} documents of {f.task}",
            "metric": f.metric,
            "filter": f.filter,
            "scale": f.scale.describe(),
            "confidence": CONFIDENCE,
            "models": models,
        })  # fmt: skip
    if why is not None and not content:
        raise why
    write_json(args.json, content[0] if len(content) == 1 else {"forms": content})
    if prints_json(args.json):
        return 0
    for facts in content:
        models = facts["models"]
        print(f"{facts['estimand']}, estimated; intervals at {100 * CONFIDENCE:g}%")
        width = max(map(len, models))
        for model, entries in models.items():
            for one in entries:
                low, high = one["interval"]
                print(
                    f"  {model:<{width}}  {one['estimate']:.4g} ± {one['standard_error']:.2g}  "
                    f"({low:.4g} to {high:.4g})  form {one['form']}, {one['items']} items"
                )
    return 0
