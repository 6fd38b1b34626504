"""A judge's settings in its YAML file, the reading of its replies, and its model family."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ...errors import UsageError
from ...metrics import find_metric
from ...money import Price

_SCALE = find_metric("judge_score").scale
LOWEST, HIGHEST = _SCALE.low, _SCALE.high
REDUCERS = ("mean", "median", "majority", "mode")
#: Rubrics that come with the package, with the settings that read their grades.
SHIPPED_PROMPTS: dict[str, dict[str, object]] = {
    "truthfulness": {},
    "correctness": {
        "grade_pattern": r"GRADE\s*:\s*([CPI])\b",
        "grades": {"C": 10.0, "P": 5.5, "I": 1.0},
    },
}


_PROMPTS = Path(__file__).parent / "prompts"
#: Smallest value of each whole number.
_LEAST = {"retries": 0, "max_tokens": 1, "attempts": 1, "concurrency": 1, "repeats": 1}


@dataclass(frozen=True)
class JudgeSettings:
    """A judge, as its YAML file describes it.

    Parameters
    ----------
    model : str
        Name of the judge: sent to the endpoint, and compared with the judged models' names.
    base_url : str, optional
        OpenAI-compatible endpoint up to ``/v1``.
    api_key_env : str, optional
        Environment variable with the endpoint's key.
    lm : str, optional
        An lm-eval model type instead of an endpoint, with `lm_args`.
    lm_args : dict
    apply_chat_template : bool
        Whether the lm-eval model's chat template is applied.
    prompt : Path
        File with placeholders ``$question``, ``$correct``, ``$incorrect`` and ``$answer`` (or other
        fields of the task); in the judge's file also the name of a rubric that comes with the
        package: ``truthfulness`` (1 to 10) or ``correctness`` (C, P or I).
    temperature : float or None
        None leaves it to the server.
    max_tokens : int or None
        None leaves it to the server. If a server requires ``max_completion_tokens`` instead, or
        takes no temperature, the request is adapted and sent again.
    extra : dict
        Further fields of an endpoint's request.
    timeout : float
        Seconds for one request.
    retries : int
        Number of times a failed request is repeated.
    attempts : int
        Number of times a rating is requested until one can be read.
    concurrency : int
        Number of requests at once, if many answers are judged together.
    cache : Path, optional
        File of past ratings, which cost nothing again. A judge read from ``judge.yaml`` keeps them
        next to it in ``judge.ratings.jsonl``, unless the file says ``cache: false``.
    repeats : int
        Number of ratings of each answer by each judge; more than one needs a temperature.
    judges : tuple of JudgeSettings
        Several judges; in the file, each entry states what differs from the rest of the file.
    reducer : str
        How several ratings become one: ``mean``, ``median``, ``majority`` (the rating given by
        more than half of them, if any) or ``mode`` (the most frequent; of equally frequent ones
        that of the judge named first).
    grade_pattern : str, optional
        Regular expression with one group that holds the grade; the last match counts. By default
        `parse_rating` reads ratings.
    grades : dict of str to float
        Values of grades in words or letters, from 1 to 10, such as ``{C: 10, P: 5.5, I: 1}``.
    price : Price
        ``{input: , output: }`` in dollars per million tokens.
    judged : tuple of str
        Models under test that are known beforehand.
    allow_self : bool
        Whether a judge may judge itself.
    """

    model: str
    base_url: str | None = None
    api_key_env: str | None = None
    lm: str | None = None
    lm_args: dict[str, object] = field(default_factory=dict)
    apply_chat_template: bool = False
    prompt: Path = _PROMPTS / "truthfulness.txt"
    temperature: float | None = 0.0
    max_tokens: int | None = 512
    extra: dict[str, object] = field(default_factory=dict)
    timeout: float = 60.0
    retries: int = 4
    attempts: int = 3
    concurrency: int = 4
    cache: Path | None = None
    repeats: int = 1
    judges: tuple[JudgeSettings, ...] = ()
    reducer: str = "mean"
    grade_pattern: str | None = None
    grades: dict[str, float] = field(default_factory=dict)
    price: Price = field(default_factory=Price)
    judged: tuple[str, ...] = ()
    allow_self: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.model, str) or not self.model:
            raise UsageError("a judge needs `model:`, its name (or `judges:`, a list of several)")
        for trouble in self._troubles():
            raise UsageError(f"judge {self.model}: {trouble}")

    def _troubles(self) -> Iterator[str]:
        if not self.judges and (self.base_url is None) == (self.lm is None):
            yield (
                "state either `base_url:` (an OpenAI-compatible endpoint) or `lm:` (an lm-eval "
                "model type)"
            )
        for name, least in _LEAST.items():
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= least
            if not whole and not (name == "max_tokens" and value is None):
                yield f"`{name}` must be a whole number of at least {least}, not {value!r}"
        if self.reducer not in REDUCERS:
            yield f"`reducer` must be one of {', '.join(REDUCERS)}, not {self.reducer!r}"
        if self.repeats > 1 and self.temperature == 0:
            yield (
                f"{self.repeats} repeats at temperature 0 would be the same rating again; set "
                "`temperature:`, or `repeats: 1`"
            )
        for grade, value in self.grades.items():
            if not isinstance(value, int | float) or not LOWEST <= value <= HIGHEST:
                yield f"`grades.{grade}` must be from {LOWEST:g} to {HIGHEST:g}, not {value!r}"
        if self.grades and self.grade_pattern is None:
            yield "`grades` needs `grade_pattern`, which finds them"
        try:
            groups = re.compile(self.grade_pattern or "()").groups
        except re.error as error:
            yield f"`grade_pattern`: {error}"
        else:
            if groups != 1:
                yield f"`grade_pattern` must have one group, which holds the grade; it has {groups}"

    @classmethod
    def read(cls, path: str | Path) -> JudgeSettings:
        """Read a judge's file; paths in it are relative to it.

        Raises
        ------
        UsageError
            If there is no such file, or something in it is invalid.
        """
        path = Path(path)
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UsageError(f"cannot read the judge's file {path}: {error.strerror}") from error
        except yaml.YAMLError as error:
            raise UsageError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
        if not isinstance(content, dict):
            raise UsageError(f"{path} must hold the settings of a judge, such as `model: name`")
        several = content.pop("judges", None) or ()
        if isinstance(several, Mapping) or any(not isinstance(e, Mapping) for e in several):
            raise UsageError(f"{path}: `judges` must be a list of judges, each with its `model:`")
        known = {f.name for f in dataclasses.fields(cls)} - {"judges"}
        unknown = sorted(set(content).union(*several) - known)
        if unknown:
            raise UsageError(f"{path}: unknown {', '.join(unknown)}; known: {', '.join(known)}")
        members = tuple(cls._of({**content, **entry}, path) for entry in several)
        content.setdefault("model", " + ".join(member.model for member in members))
        return cls._of({**content, "judges": members}, path)

    @classmethod
    def _of(cls, content: dict[str, Any], path: Path) -> JudgeSettings:
        rubric = content.get("prompt")
        if rubric in SHIPPED_PROMPTS and not (path.parent / rubric).exists():
            content = {**SHIPPED_PROMPTS[rubric], **content, "prompt": _PROMPTS / f"{rubric}.txt"}
        elif rubric:
            content["prompt"] = path.parent / rubric
        cache = content.get("cache")
        cache_file = (
            path.with_suffix(".ratings.jsonl") if cache is None else path.parent / str(cache)
        )
        judged = content.get("judged") or ()
        return cls(
            **{
                **content,
                "cache": None if cache is False else cache_file,
                "price": Price.parse(content.get("price"), "price"),
                "judged": (judged,) if isinstance(judged, str) else tuple(judged),
            }
        )

    @property
    def members(self) -> tuple[JudgeSettings, ...]:
        """The judges, one by one."""
        return self.judges or (self,)

    def identity(self) -> dict[str, object]:
        """Return what ratings depend on: judges, rubric, sampling, reading; not where they run."""
        sampling = []
        for member in self.members:
            about = {k: getattr(member, k) for k in ("model", "temperature", "max_tokens")}
            sampling.append({**about, **({"extra": member.extra} if member.extra else {})})
        rubric = "\n".join(member.prompt.read_text(encoding="utf-8") for member in self.members)
        return {
            "judges": sampling,
            "rubric_sha": hashlib.sha256(rubric.encode()).hexdigest()[:16],
            "repeats": self.repeats,
            "reducer": self.reducer if len(self.members) * self.repeats > 1 else None,
            "grades": [self.grade_pattern, self.grades] if self.grade_pattern else None,
        }


# -- reading replies ------------------------------------------------------------------------------

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
    """Read the rating of a reply by a pattern, or with `parse_rating`.

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
    """Read the rating that a judge's reply states.

    Forms in order of precedence: ``[[7]]``; a JSON object with ``rating`` or ``score``;
    ``Rating: 7``; ``7/10``; a last line that is only a number. Of several in one form the last
    counts, since judges reason before they conclude. Text in ``<think>`` is ignored.

    Parameters
    ----------
    reply : str

    Returns
    -------
    float or None
        From 1 to 10; None if there is no rating, or it is out of range.

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
    try:
        content = json.loads("".join(re.findall(r"\{[^{}]*\}", text)[:1]))
    except json.JSONDecodeError:
        return None
    for key in ("rating", "score"):
        value = content.get(key)
        if isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?(\s*/\s*10)?", value.strip()):
            value = float(value.split("/")[0])
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    return None


# -- is a judge one of the models it judges, or of their family? -----------------------------------

#: Words of model names by family. Judges tend to prefer texts of their own family.
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
    """Return a model's name in lower case, without its provider and release date.

    >>> plain_name("openai/GPT-4o-2024-08-06")
    'gpt-4o'
    """
    short = name.strip().rstrip("/").rsplit("/", 1)[-1].lower()
    while (cut := _DATE.sub("", short)) != short:
        short = cut
    return short


def families(name: str) -> set[str]:
    """Return a model's families by its name; a distilled model may have two, an unknown one none.

    >>> families("meta-llama/Llama-3.1-8B-Instruct")
    {'Llama'}
    """
    words = re.findall(r"[a-z]+\d?", re.sub(r"gpt-(neo|j)", r"gpt\1", plain_name(name)))
    stems = {*words, *(word.rstrip("0123456789") for word in words)}
    return {label for label, members in FAMILIES.items() if stems & set(members)}


def kin(judge: str, judged: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the judged models that are the judge itself, and the others of its family."""
    itself, relatives = [], []
    for name in judged:
        if plain_name(name) == plain_name(judge):
            itself.append(name)
        elif families(name) & families(judge):
            relatives.append(name)
    return itself, relatives
