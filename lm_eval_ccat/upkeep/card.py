"""A bank in words: what a reader of its page must know before using it, and what it reveals."""

from __future__ import annotations

from ..bank import ItemBank
from .age import age_in_words

_SHOWN = 40


def reveals(bank: ItemBank) -> list[str]:
    """What whoever has the bank's file learns beside the items' parameters."""
    found = []
    if bank.models and not bank.provenance.get("names_hashed"):
        found.append(f"the names of {len(bank.models)} models and how able they are")
    elif bank.models:
        found.append(f"hashes of the names of {len(bank.models)} models, which a guess can test")
    if bank.doc_hashes is not None:
        found.append("hashes of the documents, which show whether a text is among them")
    if bank.observations:
        found.append(f"every score of {len({o.model for o in bank.observations})} models")
    if bank.provenance.get("sources"):
        found.append("paths of the files that the scores came from")
    return found


def bank_card(bank: ItemBank, licence: str | None = None) -> str:
    """A bank's page in Markdown, for the hub.

    Parameters
    ----------
    bank : ItemBank
    licence : str, optional
        Identifier of the licence under which the bank is given away.

    Examples
    --------
    >>> bank_card(ItemBank.blank([1, 2], task="t", metric="bleu")).splitlines()[6]
    '# Item bank of t, bleu'
    """
    check = bank.self_check
    models = ", ".join(bank.models[:_SHOWN])
    if len(bank.models) > _SHOWN:
        models += f" and {len(bank.models) - _SHOWN} more"
    facts = [
        ("task", bank.task or "not stated"),
        ("metric", f"{bank.metric}, filter {bank.filter or 'none'}, {bank.scale.describe()}"),
        ("items", f"{int(bank.kept.sum()):,} of {bank.n_items:,} may be asked"),
        ("method", bank.method),
        ("age", age_in_words(bank)),
        ("SHA-256", bank.sha256),
        ("how well it replays", str(check.get("trust") or "not checked")),
        ("calibrated on", f"{len(bank.models)} models: {models}" if models else "no models"),
    ]
    settings = [f"| {k} | {v} |" for k, v in sorted(bank.settings.items()) if v is not None]
    head = ["---", "tags:", "- lm-eval-ccat", "- item-bank", f"license: {licence or 'unknown'}"]
    lines = [*head, "---", f"# Item bank of {bank.task or 'a task'}, {bank.metric}", ""]
    lines += ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in facts), ""]
    lines += [
        "It ranks models on this task with few items, if they are run as its calibration models "
        "were (few-shot number, prompts, generation settings). It is no replacement for full "
        "results where a score is to be published as one.",
        "",
    ]
    if settings:
        lines += [
            "## Settings of the calibration runs",
            "",
            "| | |",
            "| --- | --- |",
            *settings,
            "",
        ]
    if bank.warnings:
        lines += ["## Warnings", "", *(f"- {w}" for w in bank.warnings), ""]
    shown = reveals(bank)
    if shown:
        lines += ["## What the file reveals", "", *(f"- {one}" for one in shown), ""]
    return "\n".join(lines)
