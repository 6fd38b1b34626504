"""A judge's settings in its YAML file, and the reading of its replies."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...metrics import find_metric
from ...money import Price
from ...options import (
    SWITCH,
    TEXT,
    TEXTS,
    Kind,
    OptionPlace,
    Values,
    choice,
    mapping,
    number,
    option,
    read_values,
    whole,
    yaml_of,
)

_SCALE = find_metric("judge_score").scale
LOWEST, HIGHEST = _SCALE.low, _SCALE.high
REDUCERS = ("mean", "median", "mode")
#: Rubrics that come with the package, with the settings that read their grades.
SHIPPED_PROMPTS: dict[str, dict[str, object]] = {
    "truthfulness": {},
    "correctness": {
        "grade_pattern": r"GRADE\s*:\s*([CPI])\b",
        "grades": {"C": 10.0, "P": 5.5, "I": 1.0},
    },
}
_PROMPTS = Path(__file__).parent / "prompts"


def _beside(value: Any, place: OptionPlace) -> Path:
    """Read a path that is relative to the judge's file."""
    return Path(place.folder or "", TEXT.read(value, place))


def _cache(value: Any, place: OptionPlace) -> Path | None:
    """Read the path of a cache; None for ``false``, which means that there is none."""
    return None if value is False else _beside(value, place)


def _as_written(low: float = 0.0, high: float = math.inf) -> Kind:
    """Return a kind of number that leaves an int an int.

    1 and 1.0 have different hashes, by which ratings in a cache and signatures are found again.
    """
    kind = number(low, high)

    def read(value: Any, place: OptionPlace) -> float:
        checked: float = kind.read(value, place)
        return value if isinstance(value, int) else checked

    return Kind(read, {})


def _pattern(value: Any, place: OptionPlace) -> str:
    """Read a regular expression with one group."""
    try:
        groups = re.compile(TEXT.read(value, place)).groups
    except re.error as error:
        raise UsageError(f"`{place.path}`, {value!r}: {error}") from None
    if groups != 1:
        raise place.refuse("a pattern with one group, which holds the grade", value)
    return str(value)


@dataclass(frozen=True)
class JudgeSettings:
    """A judge, as its YAML file describes it.

    Parameters
    ----------
    model : str
        Name of the judge: sent to the endpoint, and compared with the judged models' names.
    base_url : str, optional
        OpenAI-compatible endpoint up to ``/v1``, or the whole address up to ``/chat/completions``.
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
        Number of ratings of each answer; more than one needs a temperature.
    second : JudgeSettings, optional
        A second judge, which rates each answer once to show how far the two agree; its ratings
        score nothing. In the file, its entry states what differs from the rest of the file; a price
        is that of the entry's own model, a key that of its own endpoint.
    reducer : str
        How several ratings become one: ``mean``, ``median`` or ``mode`` (the most frequent; of
        equally frequent ones the first).
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

    model: str = option("", TEXT)
    base_url: str | None = option(None, TEXT)
    api_key_env: str | None = option(None, TEXT)
    lm: str | None = option(None, TEXT)
    lm_args: Values = option(dict, mapping())
    apply_chat_template: bool = option(False, SWITCH)
    prompt: Path = option(_PROMPTS / "truthfulness.txt", Kind(_beside, {}))
    temperature: float | None = option(0.0, _as_written())
    max_tokens: int | None = option(512, whole(1))
    extra: Values = option(dict, mapping())
    timeout: float = option(60.0, number(0.0))
    retries: int = option(4, whole())
    attempts: int = option(3, whole(1))
    concurrency: int = option(4, whole(1))
    cache: Path | None = option(None, Kind(_cache, {}))
    repeats: int = option(1, whole(1))
    second: JudgeSettings | None = None
    reducer: str = option("mean", choice(*REDUCERS))
    grade_pattern: str | None = option(None, Kind(_pattern, {}))
    grades: dict[str, float] = option(dict, mapping(_as_written(LOWEST, HIGHEST)))
    price: Price = option(Price, Kind(Price.read, {}))
    judged: tuple[str, ...] = option((), TEXTS)
    allow_self: bool = option(False, SWITCH)

    def __post_init__(self) -> None:
        # The other errors name the judge.
        if not self.model:
            raise UsageError("a judge needs `model:`, its name")
        trouble = ""
        # With both, nothing says which of them is asked.
        if (self.base_url is None) == (self.lm is None):
            trouble = (
                "state either `base_url:` (an OpenAI-compatible endpoint) or `lm:` (an lm-eval "
                "model type)"
            )
        elif self.repeats > 1 and self.temperature == 0:
            trouble = (
                f"{self.repeats} repeats at temperature 0 would be the same rating again; set "
                "`temperature:`, or `repeats: 1`"
            )
        elif self.grades and self.grade_pattern is None:
            trouble = "`grades` needs `grade_pattern`, which finds them"
        elif self.second is not None and self.second.repeats > 1:
            trouble = f"its second judge {self.second.model} rates once; leave out its `repeats:`"
        # Its replies would come from the cache, and agree with themselves.
        elif self.second and self.second == replace(self, second=None, repeats=1):
            trouble = "its second judge is the same one; state what differs, such as `model:`"
        if trouble:
            raise UsageError(f"judge {self.model}: {trouble}")

    @classmethod
    def read(cls, path: str | Path) -> JudgeSettings:
        """Read a judge's file; paths in it are relative to it.

        Raises
        ------
        UsageError
            If there is no such file, or something in it is invalid.
        """
        path = Path(path)
        content = yaml_of(path, "judge", "model:")
        second_content = content.pop("second", None)
        if not isinstance(second_content, Mapping | None):
            raise UsageError(f"{path}: `second` must hold what differs, such as `model:`")
        try:
            second = None
            if second_content is not None:
                shared = _also_of_second(content, second_content)
                second = cls._of({**shared, "repeats": 1, **second_content}, path)
            return cls._of(content, path, second)
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from None

    @classmethod
    def _of(cls, content: Values, path: Path, second: JudgeSettings | None = None) -> JudgeSettings:
        """Read the keys of one judge, without `second`, which is read already."""
        rubric = str(content.get("prompt"))
        # The user's own file of that name comes first.
        if rubric in SHIPPED_PROMPTS and not (path.parent / rubric).exists():
            content = {**SHIPPED_PROMPTS[rubric], **content, "prompt": _PROMPTS / f"{rubric}.txt"}
        values: Values = {"cache": path.with_suffix(".ratings.jsonl"), "second": second}
        values |= read_values(cls, content, OptionPlace(folder=path.parent))
        # Null leaves these two to the server. `read_values` leaves out what is null, so that the
        # default would hold.
        left_to_server = (k for k in ("temperature", "max_tokens") if content.get(k, 0) is None)
        return cls(**values | dict.fromkeys(left_to_server))

    def identity(self) -> dict[str, object]:
        """Return what ratings depend on: judge, rubric, sampling, and how replies are read.

        It leaves out where the judge runs, and its second judge, whose ratings score nothing. Two
        files with the same identity score alike. The entry ``judges`` is a list, as banks state it.
        """
        judge = {name: getattr(self, name) for name in ("model", "temperature", "max_tokens")}
        rubric = self.prompt.read_text(encoding="utf-8")
        return {
            "judges": [{**judge, **({"extra": self.extra} if self.extra else {})}],
            "rubric_sha": hashlib.sha256(rubric.encode()).hexdigest()[:16],
            "repeats": self.repeats,
            "reducer": self.reducer if self.repeats > 1 else None,
            "grades": [self.grade_pattern, self.grades] if self.grade_pattern else None,
        }


#: How a judge is reached: what is stated of one endpoint or model type is not of another.
_ACCESS = ("base_url", "api_key_env", "lm", "lm_args", "apply_chat_template")


def _also_of_second(content: Values, second: Mapping[str, Any]) -> Values:
    """Return the settings of a judge's file that hold for its second judge unless stated anew."""
    differing: set[str] = set()
    # A key would be sent to a server that it is not for.
    if "base_url" in second or "lm" in second:
        differing.update(_ACCESS)
    # Another model costs what is stated of it, or it is not known what.
    if differing or "model" in second:
        differing.add("price")
    return {name: value for name, value in content.items() if name not in differing}


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
    stated_by_form = _stated_by_form(_THOUGHT.sub(" ", reply).strip())
    stated = next(filter(None, stated_by_form), None)
    return _within(float(stated[-1].replace(",", "."))) if stated else None


def _stated_by_form(text: str) -> Iterator[list[str]]:
    """Yield the ratings that a text states in each form, in order of precedence."""
    yield _PATTERNS[0].findall(text)
    yield _from_json(text)
    yield from (pattern.findall(text) for pattern in _PATTERNS[1:])
    yield [match[1] for line in text.splitlines()[-1:] if (match := _BARE.match(line))]


def _within(value: float) -> float | None:
    """Return a rating that is from 1 to 10; None for any other."""
    return value if LOWEST <= value <= HIGHEST else None


def _from_json(text: str) -> list[str]:
    """Return the ratings that JSON objects state, in the order in which the objects end.

    So of an object within another, the outer one's rating comes later.
    """
    ratings: list[str] = []

    def note_rating(content: dict[str, Any]) -> None:
        ratings.extend(_stated_rating(content))

    # Integers as floats: Python's own refuse thousands of digits, which a judge may repeat.
    decoder = json.JSONDecoder(object_hook=note_rating, parse_int=float)
    start = text.find("{")
    while start >= 0:
        try:
            _, end = decoder.raw_decode(text, start)
        # This brace begins no object, as in a formula.
        except (ValueError, RecursionError):
            end = start + 1
        start = text.find("{", end)
    return ratings


def _stated_rating(content: Mapping[str, Any]) -> list[str]:
    """Return the number under ``rating``, else under ``score``, of a JSON object; none if none."""
    for key in ("rating", "score"):
        value = content.get(key)
        if isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?(\s*/\s*10)?", value.strip()):
            return [value.split("/")[0]]
        if isinstance(value, float):
            return [str(value)]
    return []


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
