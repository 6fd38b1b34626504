"""Scripts that put no spaces between words: metrics that split texts at spaces are noise there."""

from __future__ import annotations

from collections.abc import Iterable

from .pairs import PAIR_METRICS, parts_of
from .rouge import KINDS

#: Blocks of letters, by language, and the metric that sacrebleu has for it.
_BLOCKS: dict[str, tuple[tuple[int, int], ...]] = {
    "Japanese": ((0x3040, 0x30FF),),
    "Chinese": ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0x20000, 0x2FA1F)),
    "Thai": ((0x0E00, 0x0E7F),),
    "Lao": ((0x0E80, 0x0EFF),),
    "Tibetan": ((0x0F00, 0x0FFF),),
    "Burmese": ((0x1000, 0x109F),),
    "Khmer": ((0x1780, 0x17FF),),
}
_LEAST_SHARE = 0.3  # of a text's letters and marks
_KANA = 0.05  # Japanese is written with Chinese characters, too
_FITTING = {
    ("bleu", "Chinese"): "bleu@zh",
    ("bleu", "Japanese"): "bleu@ja-mecab",
    ("ter", "Chinese"): "ter@asian",
    ("ter", "Japanese"): "ter@asian",
}


def script_of(texts: Iterable[str]) -> str | None:
    """The language without spaces that texts are in, by their letters; None for any other.

    Examples
    --------
    >>> script_of(["今天天气很好。"]), script_of(["こんにちは世界"]), script_of(["hello, 世界"])
    ('Chinese', 'Japanese', None)
    """
    whole = "".join(texts)
    count = {
        language: sum(any(low <= ord(c) <= high for low, high in blocks) for c in whole)
        for language, blocks in _BLOCKS.items()
    }
    letters = sum(c.isalnum() for c in whole)
    total = max(letters, sum(count.values()), 1)
    if count["Japanese"] > _KANA * total:
        count["Japanese"] += count["Chinese"]
    language = max(count, key=lambda name: count[name])
    return language if count[language] > _LEAST_SHARE * total else None


def script_warning(metric: str, targets: Iterable[str]) -> str:
    """What to say of a metric that is noise on the targets of a task; empty where it is not.

    Parameters
    ----------
    metric : str
    targets : iterable of str
        Some of the task's references.

    Examples
    --------
    >>> script_warning("bleu", ["今天天气很好。"]).split("; ")[1]
    'use bleu@zh, or chrf for any script'
    >>> script_warning("chrf", ["今天天气很好。"])
    ''
    """
    base, tokenizer = parts_of(metric)
    if tokenizer or base not in (*PAIR_METRICS, *KINDS) or base.startswith("chrf"):
        return ""
    language = script_of(targets)
    if language is None:
        return ""
    fitting = _FITTING.get((base, language))
    use = f"use {fitting}, or chrf for any script" if fitting else "use chrf"
    return (
        f"the targets are {language}, which is written without spaces between words, and {metric} "
        f"splits texts at spaces: its scores are noise here; {use}"
    )
