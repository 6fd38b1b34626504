r"""List, show, check, update and push item banks.

examples:
  lm-eval-ccat bank list
  lm-eval-ccat bank show my_task.bank.json
  lm-eval-ccat bank check my_task.bank.json --scores new_logs/
  lm-eval-ccat bank check old.bank.json new.bank.json
  lm-eval-ccat bank update my_task.bank.json --scores new_logs/ -o my_task.v2.bank.json

BANK is a file, the folder of a suite (a bank per task and metric), a public bank that comes with
this package (mmlu_pro; a file here of that name is ./mmlu_pro), or a name on the Hugging Face hub
(hub:OWNER/NAME).  Reading a bank never executes anything.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from ..bank import ItemBank, SuiteBank
from ..bank.file import bank_files, located, public_banks
from ..bank.suite import suites_in
from ..content import Facts
from ..errors import BankError, BankMismatchError, CcatError, UsageError
from ..plugins import existing
from ..shown import one_line_per_kind, plural
from ..upkeep import update as updating
from ..upkeep import words
from ..upkeep.check import Finding, check_documents, check_scores
from ..upkeep.forms import CONFIDENCE, form_of, load_forms, score_form, write_form
from .parsing import (
    INCLUDE_PATH,
    JSON,
    REQUIRED,
    Opt,
    Options,
    Run,
    columns,
    emit,
    prints_json,
    require_place,
    scores_for,
    warn,
)

#: Exit code of `check` where something is wrong, or differs.
WRONG = 3
#: Help of the argument that every action but `list` has.
BANK = "a bank, or the folder of a suite"


class OpenedBanks(NamedTuple):
    """The banks that an argument names, and whether it is a folder of them."""

    suite: SuiteBank
    several: bool

    @property
    def only_bank(self) -> ItemBank:
        """The bank, where the argument names a single one."""
        [entry] = self.suite.banks()
        return entry.bank


def opened(bank: str) -> OpenedBanks:
    """Open the banks that an argument names."""
    path = located(bank)
    return OpenedBanks(SuiteBank.load(path), path.is_dir())


# -- check ----------------------------------------------------------------------------------------


def check(args: argparse.Namespace) -> int:
    """Check a bank against documents or new full results, or compare it with another.

    examples:
      lm-eval-ccat bank check my_task.bank.json --scores new_logs/
      lm-eval-ccat bank check my_task.bank.json --documents_of my_task --include_path my_tasks
      lm-eval-ccat bank check mmlu.banks --scores new_logs/          every bank of a suite
      lm-eval-ccat bank check old.bank.json new.bank.json            what differs between two

    --scores are full results (harness logs or a score table), preferably of models that the bank
    was not calibrated on.  They reveal documents that changed, a bank that is joined to other
    documents, also in part (from two models on), difficulties that drifted, items that now
    discriminate negatively, contamination-like items, and a bank that is too easy or too hard.
    Without --scores and --documents_of only the file itself is checked.
    Exit codes: 0 nothing found (notes aside), or no difference; 3 warnings, problems or
    differences; 2 usage; 1 error.
    """
    if args.other is not None:
        return _compare(args)
    suite, is_suite = opened(args.bank)
    facts_of_tasks: dict[str, Facts] = {}
    facts_of_banks: dict[str, Facts] = {}
    for task, outcome, bank in suite.banks():
        name = f"{task} {outcome}"
        label = f"{args.bank}: {name}" if is_suite else args.bank
        # For a suite, --documents_of names a group of tasks; each bank has its own task.
        checked = _checked(bank, args, str(bank.task) if is_suite else args.documents_of)
        facts = {"bank": label, **checked}
        facts_of_tasks.setdefault(task, {})[outcome] = facts_of_banks[name] = facts
        # Each bank's lines come once it is checked: the next one may take long.
        if not prints_json(args.json):
            _print_findings(facts, is_suite, is_compared=bool(args.scores or args.documents_of))
    if not prints_json(args.json):
        _print_common(facts_of_banks, is_suite)
    are_sound = all(facts["ok"] for facts in facts_of_banks.values())
    suite_facts: Facts = {"suite": args.bank, "ok": are_sound} if is_suite else {}
    _emit_facts(args, facts_of_tasks, suite_facts)
    return 0 if are_sound else WRONG


def _is_common(finding: Facts, is_suite: bool) -> bool:
    """Whether a finding is usually one of every bank of a suite: no documents can be verified."""
    return is_suite and finding["kind"] == "unverified_documents"


def _print_findings(facts: Facts, is_suite: bool, is_compared: bool) -> None:
    """Print what was found in one bank; `is_compared` with documents or scores, or its file alone.

    Findings that banks of a suite have in common are left to `_print_common`.
    """
    print(f"{facts['bank']}: {facts['items']} items, {facts['models']} calibration models")
    for finding in facts["findings"]:
        if not _is_common(finding, is_suite):
            print(f"  {finding['severity']}: {finding['message']}")
    if facts["ok"]:
        print("  nothing wrong found" if is_compared else "  the file is sound")


def _print_common(facts_of_banks: dict[str, Facts], is_suite: bool) -> None:
    """Print once what several banks have in common: notes on findings, and warnings."""
    notes = {
        name: [finding["message"] for finding in facts["findings"] if _is_common(finding, is_suite)]
        for name, facts in facts_of_banks.items()
    }
    warnings = {name: facts["warnings"] for name, facts in facts_of_banks.items()}
    for severity, texts in (("note", notes), ("warning", warnings)):
        for text in one_line_per_kind(texts):
            print(f"  {severity}: {text}")


def _emit_facts(args: argparse.Namespace, facts: dict[str, Facts], suite: Facts) -> None:
    """Write facts about a suite and its banks, or about one bank, for ``--json``.

    Parameters
    ----------
    args : argparse.Namespace
    facts : dict of str to dict
        Of each bank, by task and by outcome.
    suite : dict
        Of the suite as a whole; empty for one bank, whose own facts are then all.
    """
    [first, *_] = facts.values()
    emit(args.json, {**suite, "tasks": facts} if suite else next(iter(first.values())))


def _checked(bank: ItemBank, args: argparse.Namespace, task: str) -> Facts:
    """Check one bank, perhaps against a task's documents; return the findings as JSON values."""
    findings: list[Finding] = []
    warnings: list[str] = [*bank.warnings]
    if args.documents_of:
        from ..harness import open_session

        # No model is asked, so no code that a model wrote is run.
        session = open_session(
            task, None, include_path=args.include_path, confirm_run_unsafe_code=True
        )
        findings += check_documents(bank, session.doc_ids, session.doc_hashes, session.filters)
    if args.scores:
        table = scores_for(bank, args.scores)
        warnings += table.warnings
        findings += check_scores(bank, table)
    return {
        "sha256": bank.sha256,
        "items": bank.n_items,
        "models": len(bank.models),
        "ok": all(finding.severity == "note" for finding in findings),
        "findings": [asdict(finding) for finding in findings],
        "warnings": warnings,
    }


def _compare(args: argparse.Namespace) -> int:
    """Print what differs between two banks, or two suites."""
    if args.scores or args.documents_of:
        raise UsageError("to compare two banks, leave out --scores and --documents_of")
    old, new = opened(args.bank), opened(args.other)
    if old.several != new.several:
        raise UsageError(f"{args.bank} and {args.other}: one is a suite, the other a single bank")
    difference: Any
    if old.several:
        difference = words.diff_suites(old.suite, new.suite)
        lines = [f"{task} {outcome}: added" for task, outcome in difference["banks_added"]]
        lines += [f"{task} {outcome}: removed" for task, outcome in difference["banks_removed"]]
        for task, outcomes in difference["tasks"].items():
            for name, diff in outcomes.items():
                lines += [f"{task} {name}: {line}" for line in words.diff_in_words(diff)]
    else:
        difference = words.diff_banks(old.only_bank, new.only_bank)
        lines = words.diff_in_words(difference)
    emit(args.json, difference, lines or ["no difference"])
    return 0 if difference["same"] else WRONG


# -- update ---------------------------------------------------------------------------------------


def update(args: argparse.Namespace) -> int:
    r"""Recalibrate a bank with more models.

    examples:
      lm-eval-ccat bank update my_task.bank.json --scores new_logs/ --calibrated_on old_logs/ \
          -o my_task.v2.bank.json
      lm-eval-ccat bank update kept.bank.json --scores new_logs/ -o kept.v2.bank.json
      lm-eval-ccat bank update mmlu.banks --scores new_logs/ --retire mmlu_law=17,23 -o mmlu2.banks

    The bank is recalibrated on all scores: the new ones and the earlier ones, which the bank keeps
    (calibrate --keep_scores) or --calibrated_on names.  A bank of method "default" also learns from
    run directories and logs of adaptive runs; it accounts for how their items were chosen.

    --retire removes leaked items.
    """
    suite, several = opened(args.bank)
    require_place(args.output, is_folder=several)
    retired = updating.to_retire(suite, args.retire or [])
    tasks: dict[str, dict[str, ItemBank]] = {}
    content: list[Facts] = []
    lines: list[str] = []
    warnings: dict[str, list[str]] = {}
    for task, outcome, bank in suite.banks():
        # Adaptive runs may be among the results: some methods learn from them, others refuse.
        table = scores_for(bank, args.scores, partial=True)
        calibrated_on = args.calibrated_on and scores_for(bank, args.calibrated_on)
        new = tasks.setdefault(task, {})[outcome] = words.dated(
            updating.update(bank, table, calibrated_on, retired=retired[task])
        )
        name = f"{task} {outcome}" if several else args.output
        added = [model for model in new.models if model not in bank.models]
        n_kept = int(new.kept.sum())
        facts = {"added": added, "kept": n_kept, "items": new.n_items, "sha256": new.sha256}
        content.append({"task": task, "outcome": outcome, **facts})
        lines.append(
            f"{name}: {plural(len(added), 'model')} added to {len(bank.models)}, "
            f"{n_kept} items kept of {new.n_items} (sha256 {new.short_hash})"
        )
        # Whoever updates a bank has read its earlier warnings.
        fresh = [text for text in new.warnings if text not in (*bank.warnings, *table.warnings)]
        warnings[name] = [*table.warnings, *fresh]
    warn(*one_line_per_kind(warnings))
    (SuiteBank(tasks) if several else new).save(args.output)
    emit(args.json, {"file": args.output, "banks": content}, lines)
    return 0


# -- form -----------------------------------------------------------------------------------------


def form(args: argparse.Namespace) -> int:
    r"""Choose a fixed subset of items (a form), or score the logs of a form.

    examples:
      lm-eval-ccat bank form gsm8k.bank.json --items 40 --scores logs/ -o gsm8k.form
      lm_eval run --model hf --model_args pretrained=gpt2 --tasks gsm8k_form1_40 \
          --include_path gsm8k.form --log_samples --output_path out
      lm-eval-ccat bank form gsm8k.form out

    If you cannot run adaptively, use a form: a fixed subset chosen to predict the full score.  Its
    estimate is a regression on the scores of its items, not their mean.  If few models are known,
    an adaptive test of as many items is more precise.
    """
    if args.logs is not None:
        return _score_form(args)
    if args.output is None:
        raise UsageError("name a folder to write the form to: -o DIR")

    facts: dict[str, Facts] = {}
    suite, several = opened(args.bank)
    for task, outcome, bank in suite.banks():
        folder = f"{args.output}/{task}.{outcome}" if several else args.output
        table = scores_for(bank, args.scores) if args.scores else None
        form = form_of(bank, args.items, table)
        form_facts, why_no_task = write_form(form, folder, args.include_path)
        facts.setdefault(task, {})[outcome] = form_facts
        # The form itself is made; a harness without the task cannot run it.
        if why_no_task:
            warn(f"no task for lm_eval: {why_no_task}; run the doc_ids by other means")
        if prints_json(args.json):
            continue
        error = form.scale.restore_error(form.error)
        print(
            f"form 1: {len(form.items)} of {bank.n_items} items; root mean squared error "
            f"{error:.3g} over models left out ({form.models} models)\n"
            f"  doc_ids {','.join(map(str, form.items))}"
        )
        # Without a task there is no command to name.
        if not why_no_task:
            print(
                f"{folder}: run with lm_eval --tasks {form.name} --include_path {folder} "
                f"--log_samples, then lm-eval-ccat bank form {folder} LOGS"
            )
    _emit_facts(args, facts, {"suite": args.output} if several else {})
    return 0


def _score_form(args: argparse.Namespace) -> int:
    """Estimate full scores from a form's logs, and print them."""
    existing(args.logs)
    content: list[Facts] = []
    lines: list[str] = []
    refused: UsageError | None = None
    for form in load_forms(args.bank):
        try:
            models = score_form(form, args.logs)
        # Logs of other documents would be taken for logs of another form.
        except BankMismatchError:
            raise
        except UsageError as error:  # the logs may hold only some of a suite's forms
            refused = error
            continue
        content.append({
            "estimand": form.estimand,
            "metric": form.metric,
            "filter": form.filter,
            "scale": form.scale.describe(),
            "confidence": CONFIDENCE,
            "models": models,
        })  # fmt: skip
        lines.append(f"{form.estimand}, estimated; intervals at {100 * CONFIDENCE:g}%")
        width = max(map(len, models))
        for model, estimates in models.items():
            for facts in estimates:
                low, high = facts["interval"]
                lines.append(
                    f"  {model:<{width}}  {facts['estimate']:.4g} ± {facts['standard_error']:.2g}  "
                    f"({low:.4g} to {high:.4g})  form {facts['form']}, {facts['items']} items"
                )
    if refused is not None and not content:
        raise refused
    emit(args.json, content[0] if len(content) == 1 else {"forms": content}, lines)
    return 0


# -- list, show, push -----------------------------------------------------------------------------


def list_banks(args: argparse.Namespace) -> int:
    """List banks by name: those in a folder, public ones, and those on the hub.

    examples:
      lm-eval-ccat bank list
      lm-eval-ccat bank list my_banks --json

    Public banks come with this package; `--bank public` takes the one that has the task.
    """
    from ..integrations import hub

    folder = Path(args.folder or ".")
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    local = {str(path): path for path in (*bank_files(folder), *suites_in(folder))}
    listed: dict[str, Any] = {}
    lines: list[str] = []
    for kind, paths in (("local", local), ("public", public_banks())):
        lines.append(f"{kind}:")
        facts = listed[kind] = dict[str, Facts]()
        for name, path in paths.items():
            try:
                facts[name] = words.facts_of_suite(SuiteBank.load(path))
                lines.append(f"  {name}: {words.suite_in_one_line(facts[name])}")
            # A damaged bank must not hide the others.
            except CcatError as error:
                facts[name] = {"damaged": str(error)}
                lines.append(f"  {name}: damaged: {str(error).removeprefix(f'{name}: ')}")
    try:
        listed["hub"] = hub.names()
        lines += ["hub:", *(f"  {name}" for name in listed["hub"])]
    # Without a network the local and public banks are still listed.
    except BankError as error:
        listed["hub"] = None
        lines.append(f"hub: {error}")
    emit(args.json, listed, lines)
    return 0


def show(args: argparse.Namespace) -> int:
    """Say what a bank was calibrated on and whether to trust it.

    examples:
      lm-eval-ccat bank show my_task.bank.json
      lm-eval-ccat bank show my_task.bank.json --json
      lm-eval-ccat bank show mmlu.banks             each bank of a suite in one line
    """
    banks = opened(args.bank)
    if banks.several:
        tasks = {
            task: {outcome: words.facts_of(bank) for outcome, bank in outcomes.items()}
            for task, outcomes in banks.suite.items()
        }
        lines = [
            f"{task} {outcome}: {words.in_one_line(facts)}; trust: {facts['trust']}"
            for task, outcomes in tasks.items()
            for outcome, facts in outcomes.items()
        ]
        size = f"{plural(len(lines), 'bank')} of {plural(len(banks.suite), 'task')}"
        emit(args.json, {"suite": args.bank, "tasks": tasks}, [f"{args.bank}: {size}", *lines])
        return 0
    facts = words.facts_of(banks.only_bank)
    warnings = (("warning", text) for text in facts["warnings"])
    emit(args.json, {"file": args.bank, **facts}, columns([*words.in_lines(facts), *warnings]))
    return 0


def push(args: argparse.Namespace) -> int:
    """Put a bank and its page on the hub.

    examples:
      lm-eval-ccat bank push my_task.bank.json hub:my-name/my-task-bank --license cc-by-4.0

    Prints the page that goes with the bank and what the bank reveals, then asks.
    """
    from ..integrations import hub

    repository = f"hub:{hub.repository_of(args.name)}"
    print(words.page_of(SuiteBank.load(args.bank), args.license))
    print(f"{args.bank} goes to {repository} under licence {args.license}, as this page says")
    try:
        answer = "y" if args.yes else input("Push it? [y/N] ")
    # Where nobody can answer, nothing is published.
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        print("not pushed (--yes pushes without asking)")
        return 3
    name = hub.push(args.bank, repository, args.license)
    print(f"pushed; others use it with --bank {name}")
    return 0


ACTIONS: dict[str, tuple[Run, Options]] = {
    "check": (check, {
        "BANK": BANK,
        "OTHER?": "another bank or suite to compare it with",
        "--scores LOGS_OR_TABLE": "new full results",
        "--documents_of TASK": "load this task and compare its documents with the bank's",
        **INCLUDE_PATH,
        **JSON,
    }),
    "update": (update, {
        "BANK": BANK,
        "--scores LOGS_OR_TABLE": Opt(
            "results of the new models, full or of adaptive runs", REQUIRED
        ),
        "--calibrated_on LOGS_OR_TABLE": "scores it was calibrated on (default: those it keeps)",
        "-o --output BANK": Opt("where to write", REQUIRED),
        "--retire IDS,": "comma-separated doc_ids to remove; for a suite TASK=IDS, once per task",
        **JSON,
    }),
    "form": (form, {
        "BANK": f"{BANK}; with LOGS a form's folder",
        "LOGS?": "a form's logs, from which full scores are estimated",
        "--items N": Opt("number of items of the form", 40),
        "--scores LOGS_OR_TABLE": "full results of many models (default: those that the bank "
        "keeps)",
        **INCLUDE_PATH,
        "-o --output DIR": "folder to write",
        **JSON,
    }),
    "list": (list_banks, {"FOLDER?": "where to look for local banks (default: here)", **JSON}),
    "show": (show, {"BANK": BANK, **JSON}),
    "push": (push, {
        "BANK": BANK,
        "name=hub:OWNER/NAME": "where to put it",
        "--license ID": Opt("licence of the bank", REQUIRED),
        "--yes": "push without asking",
    }),
}  # fmt: skip
