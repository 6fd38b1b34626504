"""Describes banks in words and figures: what one holds and reveals, and how two differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import date

import numpy as np

from ..bank import ItemBank, SuiteBank
from ..content import Facts
from ..scores import ScoreTable
from ..shown import first_of, in_markdown, plural, short, some

#: Tags of a bank's page on the hub, by which banks are found there.
TAGS = ("lm-eval-ccat", "item-bank")
#: Largest number of models or sources that are named, and of items that calibration removed.
_MAX_NAMES, _MAX_REMOVED = 40, 10
#: Quantiles of each parameter that facts state, by name.
_QUANTILES = {"min": 0.0, "p05": 0.05, "median": 0.5, "p95": 0.95, "max": 1.0}
#: Days after which models have changed so much that a bank should be checked on new ones.
RENEW_AFTER = 365


def facts_of(bank: ItemBank) -> Facts:
    """Return what a bank holds, as JSON values.

    Examples
    --------
    >>> facts_of(ItemBank.blank(range(3), task="t"))["items_kept"]
    3
    """
    return {
        "sha256": bank.sha256,
        "method": bank.method,
        "task": bank.task,
        "metric": bank.metric,
        "filter": bank.filter,
        "scale": bank.scale.describe(),
        "items": bank.n_items,
        "items_kept": int(bank.kept.sum()),
        "calibration_models": list(bank.models),
        "settings": dict(bank.settings),
        "constants": dict(bank.constants),
        "parameters": {
            name: dict(zip(_QUANTILES, np.quantile(finite, list(_QUANTILES.values())).tolist()))
            for name, values in bank.parameters.items()
            if (finite := values[np.isfinite(values)]).size
        },
        "provenance": bank.provenance,
        "self_check": bank.self_check,
        "warnings": list(bank.warnings),
        "made": bank.made,
        "age": age_in_words(bank),
        "observations": len(bank.observations),
        "trust": trust(bank),
    }


def report(table: ScoreTable, bank: ItemBank) -> Facts:
    """Report on a calibration, as JSON values on the metric's own scale."""
    means = table.scale.restore(table.overview.model_mean)
    # The best model first, whichever way its metric goes.
    order = np.argsort(-means if table.scale.higher_is_better else means, kind="stable")
    removed = (bank.provenance.get("report") or {}).get("removed", {})
    return {
        **facts_of(bank),
        "models": {table.models[i]: float(means[i]) for i in order},
        "configs": len(table.row_model),
        "removed": {str(doc_id): why for doc_id, why in removed.items()},
        "missing_scores": int(np.isnan(table.raw).sum()),
    }


def trust(bank: ItemBank) -> str:
    """Say in plain words whether the bank can be trusted."""
    judgement = bank.self_check.get("trust") or bank.provenance.get("report", {}).get("trust")
    # The method itself knows best what its self-check means.
    if isinstance(judgement, str):
        return judgement
    if not bank.models:
        return "it rests on no other models: documents are drawn at random"
    opening = (
        f"read the {plural(len(bank.warnings), 'warning')} before you rely on this bank"
        if bank.warnings
        else "no problem was found in the scores"
    )
    return f"{opening}; `lm-eval-ccat simulate` on the same scores tests how it ranks"


def in_lines(facts: Facts) -> list[tuple[str, str]]:
    """Return the facts of a bank, for terminal and page, as pairs of name and text; trust first.

    Parameters
    ----------
    facts : dict
        From `facts_of`, or from `report` below, which adds the models' means, the items removed
        and the number of missing scores.

    Examples
    --------
    >>> dict(in_lines(facts_of(ItemBank.blank(range(20)))))["items"]
    '20 kept of 20'
    """
    missing = f"; {facts['missing_scores']} scores missing" if facts.get("missing_scores") else ""
    lines = [
        ("trust", facts["trust"]),
        ("task", f"{facts['task'] or 'not stated'}, filter {facts['filter'] or 'not stated'}"),
        ("metric", f"{facts['metric']} ({facts['scale']})"),
        ("method", facts["method"]),
        ("models", _models_in_words(facts)),
        ("items", f"{facts['items_kept']} kept of {facts['items']}{missing}"),
    ]
    removed = [f"doc_id {doc_id}: {why}" for doc_id, why in facts.get("removed", {}).items()]
    # A bank of thousands would fill the screen with what it does not ask.
    if len(removed) > _MAX_REMOVED:
        removed[_MAX_REMOVED:] = [f"{len(removed) - _MAX_REMOVED} more, listed in the bank"]
    lines += [("  removed", text) for text in removed]
    provenance = facts["provenance"]
    # "prompts" stands there if the calibration models answered other ones than the task's.
    lines += [(name, provenance[name]) for name in ("license", "prompts") if provenance.get(name)]
    # Scores that others published have a licence, and their sources must be named.
    if provenance.get("license") and (sources := provenance.get("sources")):
        lines.append(("source", first_of(sources, _MAX_NAMES)))
    # Settings that were not stated say nothing.
    settings = {key: value for key, value in facts["settings"].items() if value is not None}
    if settings:
        texts = (f"{key}={json.dumps(value)}" for key, value in settings.items())
        lines.append(("settings", ", ".join(texts)))
    return [*lines, ("age", facts["age"]), ("sha256", facts["sha256"])]


def _models_in_words(facts: Facts) -> str:
    """Say how many models calibrated a bank, and which; right after it, the best and the worst."""
    means = list(facts.get("models", {}).items())
    if means:
        several = f" in {facts['configs']} configs" if facts["configs"] > len(means) else ""
        (best, highest), (worst, lowest) = means[0], means[-1]
        return f"{len(means)}{several}, from {best} ({highest:.4g}) to {worst} ({lowest:.4g})"
    names = facts["calibration_models"]
    return f"{len(names)}: {first_of(names, _MAX_NAMES)}" if names else "none"


def in_one_line(facts: Facts) -> str:
    """Return a bank's line in the list of a suite.

    Examples
    --------
    >>> in_one_line(facts_of(ItemBank.blank(range(3))))
    'sample, 3 items kept of 3, 0 models, made on an unrecorded date; 0 warnings'
    """
    n_models, n_warnings = len(facts["calibration_models"]), len(facts["warnings"])
    return (
        f"{facts['method']}, {plural(facts['items_kept'], 'item')} kept of {facts['items']}, "
        f"{plural(n_models, 'model')}, {facts['age']}; {plural(n_warnings, 'warning')}"
    )


def facts_of_suite(suite: SuiteBank) -> Facts:
    """Return what a list of banks says of one, as JSON values.

    A suite is as old as its oldest bank, which is one without a date if there is any; licences and
    prompts that differ are all named.

    Examples
    --------
    >>> facts_of_suite(SuiteBank({"t": ItemBank.blank(range(3))}))["items"]
    3
    """
    banks = [entry.bank for entry in suite.banks()]

    def named(field: str) -> str | None:
        """Return the distinct values that provenances state of a field; None if none does."""
        values = dict.fromkeys(str(bank.provenance.get(field) or "") for bank in banks)
        return "; ".join(filter(None, values)) or None

    return {
        "tasks": list(suite),
        "method": suite.method,
        "metrics": list(dict.fromkeys(bank.metric for bank in banks)),
        "items": sum(
            max(bank.n_items for bank in outcomes.values()) for outcomes in suite.values()
        ),
        "models": len({model for bank in banks for model in bank.models}),
        "age": age_in_words(min(banks, key=lambda bank: bank.made or "")),
        "license": named("license"),
        "prompts": named("prompts"),
    }


def suite_in_one_line(facts: Facts) -> str:
    """Return the line of a bank, or a suite, in a list, from its `facts_of_suite`.

    Examples
    --------
    >>> suite_in_one_line(facts_of_suite(SuiteBank({"t": ItemBank.blank(range(3))})))
    't, score, 3 items, 0 models (sample), made on an unrecorded date'
    """
    tasks = facts["tasks"]
    parts = [
        tasks[0] if len(tasks) == 1 else f"{len(tasks)} tasks ({some(tasks, 2)})",
        " ".join(facts["metrics"]),
        plural(facts["items"], "item"),
        f"{plural(facts['models'], 'model')} ({facts['method']})",
        # After a colon `age_in_words` says what to do about an old bank.
        facts["age"].partition(":")[0],
    ]
    if facts["license"]:
        parts.append(f"licence {facts['license']}")
    if facts["prompts"]:
        parts.append(f"prompts {facts['prompts']}")
    return ", ".join(parts)


def reveals(bank: ItemBank) -> list[str]:
    """Return what a bank's file reveals besides the items' parameters."""
    contents = []
    if bank.models:
        contents.append(f"names and abilities of {plural(len(bank.models), 'model')}")
    if bank.doc_hashes is not None:
        contents.append("hashes of the documents, which show whether a text is among them")
    # Scores reveal more than parameters: whoever has the documents can see which ones a model
    # fails.
    if bank.observations:
        contents.append(
            f"every score of {plural(len({entry.model for entry in bank.observations}), 'model')}"
        )
    if bank.provenance.get("sources"):
        contents.append("paths of the files that the scores came from")
    return contents


def page_of(suite: SuiteBank, licence: str | None = None) -> str:
    """Write the page of a bank, or of a suite, in Markdown, for the hub.

    Parameters
    ----------
    suite : SuiteBank
        A single bank is a suite of one.
    licence : str, optional
        Identifier of the licence under which it is published.

    Examples
    --------
    >>> page_of(SuiteBank({"t": ItemBank.blank([1, 2], metric="bleu")})).splitlines()[6]
    '# Item bank of t, bleu'
    """
    tags = [f"- {tag}" for tag in TAGS]
    head = ["---", "tags:", *tags, f"license: {licence or 'unknown'}"]
    lines = [*head, "---"]
    for task, outcome, bank in suite.banks():
        lines += [*_section(task, outcome, bank), ""]
    lines += [
        "It ranks models on these documents with few items, if they are run as its calibration "
        "models were (few-shot number, prompts, generation settings). It is no replacement for "
        "full results where a score is to be published as one.",
        "",
    ]
    return "\n".join(lines)


def _section(task: str, outcome: str, bank: ItemBank) -> list[str]:
    """Return the lines of the part of a page that describes one bank."""
    # Names of tasks, models and files are anybody's text; warnings quote them.
    title = f"# Item bank of {in_markdown(task)}, {in_markdown(outcome)}"
    lines = [title, "", "| | |", "| --- | --- |"]
    lines += [f"| {name} | {in_markdown(text)} |" for name, text in in_lines(facts_of(bank))]
    for title, texts in (("Warnings", bank.warnings), ("What the file reveals", reveals(bank))):
        if texts:
            lines += ["", f"## {title}", "", *(f"- {in_markdown(text)}" for text in texts)]
    return lines


def dated(bank: ItemBank, today: date | None = None) -> ItemBank:
    """Return a bank that is made today."""
    return replace(bank, made=(today or date.today()).isoformat())


def age_in_words(bank: ItemBank, today: date | None = None) -> str:
    """Say how old a bank is and whether to renew it.

    Examples
    --------
    >>> bank = dated(ItemBank.blank([1]), date(2025, 1, 1))
    >>> age_in_words(bank, date(2025, 1, 31))
    'made on 2025-01-01, 30 days ago'
    >>> age_in_words(bank, date(2025, 1, 1))
    'made on 2025-01-01, today'
    >>> age_in_words(bank, date(2024, 12, 31))  # made where it is tomorrow already
    'made on 2025-01-01'
    >>> age_in_words(bank, date(2026, 6, 1)).split("; ")[1]
    'renew it with `bank update` or a new calibration'
    """
    try:
        # The date is text of a file, which a stranger may have written.
        day_made = date.fromisoformat(bank.made or "")
    except ValueError:
        return "made on an unrecorded date"
    days = ((today or date.today()) - day_made).days
    text = f"made on {day_made.isoformat()}"
    # A clock that is ahead, or of another time zone, may have dated the bank.
    if days >= 0:
        text += f", {plural(days, 'day')} ago" if days else ", today"
    # Models of the same year are still like those that calibrated it.
    if days <= RENEW_AFTER:
        return text
    return (
        f"{text}: `bank check` on models of today says whether it still holds; renew it with "
        "`bank update` or a new calibration"
    )


# -- two banks -------------------------------------------------------------------------------------


def diff_suites(old: SuiteBank, new: SuiteBank) -> Facts:
    """Compare two suites bank by bank.

    Examples
    --------
    >>> old = SuiteBank({"t": ItemBank.blank(range(3)), "u": ItemBank.blank(range(2))})
    >>> new = SuiteBank({"t": ItemBank.blank(range(4))})
    >>> diff = diff_suites(old, new)
    >>> diff["banks_removed"], diff["tasks"]["t"]["score"]["items_added"]
    ([['u', 'score']], [3])
    """
    before, after = (
        {(task, outcome): bank for task, outcome, bank in suite.banks()} for suite in (old, new)
    )
    tasks: dict[str, dict[str, Facts]] = {}
    for (task, outcome), bank in before.items():
        if (task, outcome) in after:
            tasks.setdefault(task, {})[outcome] = diff_banks(bank, after[task, outcome])
    alike = all(diff["same"] for outcomes in tasks.values() for diff in outcomes.values())
    return {
        "same": set(before) == set(after) and alike,
        "banks_added": [list(name) for name in after if name not in before],
        "banks_removed": [list(name) for name in before if name not in after],
        "tasks": tasks,
    }


def diff_banks(old: ItemBank, new: ItemBank) -> Facts:
    """Compare two banks, the second against the first, as JSON values.

    ``fields`` are the method, what is scored and the settings (``settings.num_fewshot``); None
    where one bank has none. ``kept_now`` and ``removed_now`` are items that only the new bank asks,
    and that only the old one does; ``prompts_changed`` those with other prompts, where both say so.

    Examples
    --------
    >>> diff = diff_banks(ItemBank.blank(range(3)), ItemBank.blank(range(2)))
    >>> diff["same"], diff["items_removed"]
    (False, [2])
    """
    fields, new_fields = _fields(old), _fields(new)
    documents = old.compare(new.doc_ids, new.doc_hashes)
    asked, asked_by_new = (
        {doc_id for doc_id, is_kept in zip(bank.doc_ids, bank.kept.tolist()) if is_kept}
        for bank in (old, new)
    )
    asked_anew, asked_no_more = asked_by_new - asked, asked - asked_by_new
    in_both = [doc_id for doc_id in old.doc_ids if doc_id in new.index]
    old_models, new_models = set(old.models), set(new.models)
    diff: Facts = {
        "same": True,
        "fields": {
            name: {"old": fields.get(name), "new": new_fields.get(name)}
            for name in _differing(fields, new_fields)
        },
        "items_added": list(documents.new),
        "items_removed": list(documents.missing),
        "documents_changed": list(documents.changed),
        "prompts_changed": _prompts_changed(old, new),
        "kept_now": [doc_id for doc_id in in_both if doc_id in asked_anew],
        "removed_now": [doc_id for doc_id in in_both if doc_id in asked_no_more],
        "models_added": [model for model in new.models if model not in old_models],
        "models_removed": [model for model in old.models if model not in new_models],
        "parameters_changed": _differing(_parameters(old), _parameters(new)),
    }
    return {**diff, "same": not diff_in_words(diff)}


def _prompts_changed(old: ItemBank, new: ItemBank) -> list[object]:
    """Return the items of which two banks know the prompts, and know different ones."""
    marks, new_marks = old.marks, new.marks
    return [
        doc_id
        for doc_id in old.doc_ids
        if (mark := marks.get(doc_id)) is not None
        and (new_mark := new_marks.get(doc_id)) is not None
        and mark != new_mark
    ]


def _differing(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    """Return the names whose values differ, or that only one side has."""
    return [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]


def _parameters(bank: ItemBank) -> dict[str, object]:
    """Return constants and parameters of a bank by name, in values that can be compared."""
    return {
        **bank.constants,
        # Arrays are compared as bytes, in which NaN equals NaN.
        **{name: value.tobytes() for name, value in bank.parameters.items()},
    }


def diff_in_words(diff: Facts) -> list[str]:
    """Return one line per difference.

    Examples
    --------
    >>> diff_in_words(diff_banks(ItemBank.blank(range(3)), ItemBank.blank(range(2))))
    ['items removed: 1 (2)']
    """
    lines = [
        f"{name.replace('_', ' ')}: {len(values)} ({some(values, 8)})"
        for name, values in diff.items()
        if isinstance(values, list) and values
    ]
    for name, values in diff["fields"].items():
        old, new = (short(json.dumps(values[which])) for which in ("old", "new"))
        lines.append(f"{name}: {old} -> {new}")
    return lines


def _fields(bank: ItemBank) -> dict[str, object]:
    """Return the method, what is scored and the settings of a bank, by name."""
    return {
        **{name: getattr(bank, name) for name in ("method", "task", "metric", "filter")},
        "scale": bank.scale.describe(),
        **{f"settings.{name}": value for name, value in bank.settings.items()},
    }
