"""``lm-eval-ccat bank form``: the few items from which a score is told best, for all models."""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import CcatError, UsageError
from .parsing import add_json, prints_json, warn, write_json
from .reading import add_reading_arguments, read_scores

EPILOG = """\
examples:
  lm-eval-ccat bank form gsm8k.bank.json --items 40 --scores logs/ -o gsm8k.form
  lm_eval run --model hf --model_args pretrained=gpt2 --tasks gsm8k_form1_40 \\
      --include_path gsm8k.form --log_samples --output_path out
  lm-eval-ccat score-form gsm8k.form out

For those who cannot ask a model one item after the other.  With few known models an adaptive
test tells more with as many items.  A form's score is a regression on the scores of its items,
not their mean.
"""


def add_action(actions: argparse._SubParsersAction) -> None:
    """Add ``form``."""
    parser = actions.add_parser(
        "form", help="choose a fixed list of items, and how to score it", epilog=EPILOG
    )
    parser.add_argument("bank", metavar="BANK", help="a bank file made by `calibrate`")
    parser.add_argument("--items", type=int, default=40, metavar="N", help="of each form")
    parser.add_argument(
        "--parallel", type=int, default=1, metavar="K", help="so many forms without a common item"
    )
    parser.add_argument(
        "--scores",
        metavar="LOGS_OR_TABLE",
        help="full results of many models (default: those that the bank keeps)",
    )
    add_reading_arguments(parser)
    parser.add_argument("--include_path", metavar="DIR", help="folder with further task files")
    add_json(parser, "the doc_ids of each form and its expected error")
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="folder to write")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Make forms, write them and the tasks that run them."""
    from ..bank import ItemBank, SuiteBank, is_suite
    from ..harness.documents import task_file
    from ..upkeep.form_files import forms_of, write_tasks
    from .bank_check import as_of_bank

    if is_suite(args.bank):
        names = ", ".join(str(file) for file in SuiteBank.files(args.bank).values())
        raise UsageError(f"{args.bank}: a form is of one bank, and this folder has {names}")
    bank = ItemBank.load(args.bank)
    table = read_scores(args.scores, as_of_bank(args, bank)) if args.scores else None
    forms = forms_of(bank, args.items, args.parallel, table)
    forms.save(args.output)
    tasks = [forms.name(n + 1) for n in range(len(forms.forms))]
    try:
        if not bank.task:
            raise CcatError("the bank does not name its task")
        write_tasks(forms, args.output, *task_file(bank.task, args.include_path))
    except CcatError as error:
        warn(f"no task for lm_eval: {error}; run the doc_ids by other means")
        tasks = []
    facts: list[dict[str, Any]] = [
        {
            "task": tasks[n] if tasks else None,
            "doc_ids": list(form.items),
            "error": float(bank.scale.restore_error(form.error)),
            "models": form.models,
        }
        for n, form in enumerate(forms.forms)
    ]
    write_json(args.json, {"folder": args.output, "forms": facts})
    if prints_json(args.json):
        return 0
    for n, one in enumerate(facts, start=1):
        print(
            f"form {n}: {len(one['doc_ids'])} of {bank.n_items} items; models left out were told "
            f"to {one['error']:.3g} (root mean squared error, {one['models']} models)"
        )
        print(f"  doc_ids {','.join(map(str, one['doc_ids']))}")
    if tasks:
        print(f"{args.output}: run with lm_eval --tasks {','.join(tasks)} --include_path "
              f"{args.output} --log_samples, then lm-eval-ccat score-form")  # fmt: skip
    return 0
