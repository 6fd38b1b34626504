"""Read ratings out of replies, reduce and compare them; find judges of a model's own family."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

LOWEST, HIGHEST = 1.0, 10.0

_NUMBER = r"(-?\d+(?:[.,]\d+)?)"
#: Not part of a longer number, a percentage, or a fraction of anything but ten.
_END = r"(?![\d%]|[.,]\d|\s*(?:/|out of)\s*(?!10(?:\D|$)))"
#: A hyphen before a digit is a minus.
_MARKS = r"(?:[\s\"'*_`#:=–—]|-(?!\d))*"
_RANGE = r"(?:[(\[]\s*(?:from\s+)?1\s*(?:-|–|to)\s*10\s*[)\]])?"
_PATTERNS = (
    # The form that the prompt asks for.
    re.compile(rf"\[\[\s*{_NUMBER}(?:\s*/\s*10)?\s*\]\]"),
    # "Rating: 7", "**Score** (1-10): 7/10", "my overall rating is 7 out of 10".
    re.compile(
        rf"\b(?:rating|score|grade)\b{_MARKS}{_RANGE}{_MARKS}(?:is|of|would be)?{_MARKS}"
        rf"{_NUMBER}{_END}",
        re.IGNORECASE,
    ),
    # "7/10", "7 out of 10".
    re.compile(rf"(?<![\d.,/-]){_NUMBER}\s*(?:/|out of)\s*10(?!\d)", re.IGNORECASE),
)
_BARE = re.compile(rf"^{_MARKS}{_NUMBER}(?:\s*/\s*10)?[\s.*_`]*$")
_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)


def grade(reply: str, pattern: str | None, grades: Mapping[str, float]) -> float | None:
    """The rating of a reply, by a given pattern or as `parse_rating` reads it.

    >>> grade("GRADE: C. No: GRADE: P", r"GRADE: (\\w)", {"C": 10, "P": 5.5, "I": 1})
    5.5
    """
    if pattern is None:
        return parse_rating(reply)
    matches = re.findall(pattern, _THOUGHT.sub(" ", reply))
    if not matches:
        return None
    word = matches[-1].strip()
    for name, value in grades.items():
        if word.lower() == str(name).lower():
            return float(value)
    try:
        return _within(float(word))
    except ValueError:
        return None


def parse_rating(reply: str) -> float | None:
    """The rating that a judge's reply states.

    Read are, in this order: ``[[7]]``; a JSON object with ``rating`` or ``score``; ``Rating: 7``;
    ``7/10``; a reply or last line that is nothing but a number. Of several in one form the last
    counts, since judges reason before they conclude. What stands in ``<think>`` is not a rating.

    Parameters
    ----------
    reply : str

    Returns
    -------
    float or None
        From 1 to 10; None if there is no rating, or it lies outside.

    Examples
    --------
    >>> parse_rating("Accurate, though brief. Rating: [[8]]")
    8.0
    >>> parse_rating("I cannot rate this.") is None
    True
    """
    text = _THOUGHT.sub(" ", reply).strip()
    matches = _PATTERNS[0].findall(text)
    if not matches:
        value = _from_json(text)
        if value is not None:
            return _within(value)
        for pattern in _PATTERNS[1:]:
            matches = pattern.findall(text)
            if matches:
                break
    if not matches:
        lines = [line for line in text.splitlines() if line.strip()]
        matches = [match[1] for line in lines[-1:] if (match := _BARE.match(line))]
    return _within(float(matches[-1].replace(",", "."))) if matches else None


def _within(value: float) -> float | None:
    return value if LOWEST <= value <= HIGHEST else None


def _from_json(text: str) -> float | None:
    match = re.search(r"\{[^{}]*\}", text, re.DOTALL)
    if match is None:
        return None
    try:
        content = json.loads(match[0])
    except json.JSONDecodeError:
        return None
    for key in ("rating", "score"):
        value = content.get(key)
        if isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?(\s*/\s*10)?", value.strip()):
            value = float(value.split("/")[0])
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    return None


def reduced(scores: Sequence[float], how: str) -> float:
    """One rating of several; NaN where there is none.

    A judge without a rating withholds its vote from a majority, and is left out of the others.

    >>> reduced([8, 8, 3], "majority"), reduced([8, 8, 3], "median")
    (8, 8.0)
    >>> reduced([8, float("nan"), 3], "majority")
    nan
    """
    rated = [score for score in scores if not math.isnan(score)]
    if not rated:
        return math.nan
    if how in ("majority", "mode"):
        score, votes = Counter(rated).most_common(1)[0]  # of equally many the one met first
        return score if how == "mode" or 2 * votes > len(scores) else math.nan
    return float(statistics.median(rated) if how == "median" else statistics.fmean(rated))


# -- how far ratings agree ------------------------------------------------------------------------


@dataclass(frozen=True)
class Agreement:
    """Agreement of the raters over the answers that at least two of them rated.

    Attributes
    ----------
    answers : int
        How many those are.
    alpha : float
        Krippendorff's alpha for interval data (Hayes and Krippendorff 2007): 1 is perfect, 0 what
        chance gives; NaN where all ratings are the same.
    spread : float
        Mean absolute difference of two ratings of one answer, on the scale of 1 to 10.
    same : float
        Share of pairs of ratings of one answer that are equal.
    """

    answers: int
    alpha: float
    spread: float
    same: float

    def describe(self) -> str:
        """One line for people."""
        alpha = "not defined" if math.isnan(self.alpha) else f"{self.alpha:.2f}"
        return (
            f"agreement over {self.answers} answers: Krippendorff's alpha {alpha}, "
            f"{self.same:.0%} equal, mean difference {self.spread:.2f}"
        )


def agreement(ratings: Sequence[Sequence[float]]) -> Agreement | None:
    """Agreement of ratings, one row for each answer, NaN where a rater gave none.

    Returns
    -------
    Agreement or None
        None where no answer has two ratings.

    Examples
    --------
    >>> agreement([[1, 1], [10, 10], [5, 6]]).alpha
    0.9897750511247444
    """
    rows = [[value for value in row if not math.isnan(value)] for row in ratings]
    rows = [row for row in rows if len(row) > 1]
    if not rows:
        return None
    pairs = [(a, b) for row in rows for a, b in combinations(row, 2)]
    values = [value for row in rows for value in row]
    n, mean = len(values), math.fsum(values) / len(values)
    # Mean squared difference within answers (each pair of a row of m counts 2/(m - 1)), and of all.
    within = math.fsum(
        2 * math.fsum((a - b) ** 2 for a, b in combinations(row, 2)) / (len(row) - 1)
        for row in rows
    ) / n  # fmt: skip
    between = 2 * math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    return Agreement(
        len(rows),
        1 - within / between if between > 0 else math.nan,
        math.fsum(abs(a - b) for a, b in pairs) / len(pairs),
        sum(a == b for a, b in pairs) / len(pairs),
    )


# -- is a judge one of the models it judges, or of their family? -----------------------------------

#: Words of model names -> the family. A judge tends to prefer texts like its own.
FAMILIES: dict[str, tuple[str, ...]] = {
    "OpenAI": ("gpt", "chatgpt", "davinci", "o1", "o3", "o4"),
    "Anthropic": ("claude",),
    "Google": ("gemini", "gemma", "palm", "bard"),
    "Llama": ("llama", "vicuna", "alpaca", "tulu"),
    "Qwen": ("qwen", "qwq", "qvq"),
    "Mistral": ("mistral", "mixtral", "ministral", "magistral", "codestral"),
    "DeepSeek": ("deepseek",),
    "Phi": ("phi",),
    "Cohere": ("command", "aya", "c4ai"),
    "Grok": ("grok",),
    "Nova": ("nova",),
    "Yi": ("yi",),
    "OLMo": ("olmo",),
    "Falcon": ("falcon",),
    "Granite": ("granite",),
    "GLM": ("glm", "chatglm"),
    "Kimi": ("kimi", "moonshot"),
    "Nemotron": ("nemotron",),
    "EleutherAI": ("pythia", "gptneo", "gptj", "neox"),
}

_DATE = re.compile(r"[-@:](?:20\d{2}-?\d{2}-?\d{2}|\d{4}|latest|preview)$")


def plain_name(name: str) -> str:
    """A model's name without its provider, release date and case.

    >>> plain_name("openai/GPT-4o-2024-08-06")
    'gpt-4o'
    """
    short = name.strip().rstrip("/").rsplit("/", 1)[-1].lower()
    while (cut := _DATE.sub("", short)) != short:
        short = cut
    return short


def families(name: str) -> set[str]:
    """The families of a model by its name; a distilled model may have two, an unknown one none.

    >>> families("meta-llama/Llama-3.1-8B-Instruct")
    {'Llama'}
    """
    words = re.findall(r"[a-z]+\d?", re.sub(r"gpt-(neo|j)", r"gpt\1", plain_name(name)))
    stems = {*words, *(word.rstrip("0123456789") for word in words)}
    return {label for label, members in FAMILIES.items() if stems & set(members)}


def same_models(judge: str, judged: Iterable[str]) -> list[str]:
    """Return the judged models that are the judge itself."""
    return [name for name in judged if plain_name(name) == plain_name(judge)]


def relatives(judge: str, judged: Iterable[str]) -> list[str]:
    """Return the judged models of the judge's family, except for the judge itself."""
    family = families(judge)
    return [
        name for name in judged if families(name) & family and plain_name(name) != plain_name(judge)
    ]
