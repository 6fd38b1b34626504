"""What a judge is: the YAML file that describes it."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ..prices import Price
from .rating import HIGHEST, LOWEST

REDUCERS = ("mean", "median", "majority", "mode")
#: Rubrics that come with the package, and how their grades are read.
SHIPPED_PROMPTS: dict[str, dict[str, object]] = {
    "truthfulness": {},
    "correctness": {
        "grade_pattern": r"GRADE\s*:\s*([CPI])\b",
        "grades": {"C": 10.0, "P": 5.5, "I": 1.0},
    },
}


_PROMPTS = Path(__file__).parent / "prompts"
#: The least that a whole number may be.
_LEAST = {"retries": 0, "max_tokens": 1, "attempts": 1, "concurrency": 1, "repeats": 1}


@dataclass(frozen=True)
class JudgeSettings:
    """A judge, as its YAML file describes it.

    Parameters
    ----------
    model : str
        Name of the judge: what an endpoint is asked for, and what judged models are compared with.
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
        File with ``$question``, ``$correct``, ``$incorrect`` and ``$answer`` (or what fields a task
        gives) to be filled in; in the judge's file also the name of a rubric that comes with the
        package: ``truthfulness`` (1 to 10) or ``correctness`` (C, P or I).
    temperature : float or None
        None leaves it to the server.
    max_tokens : int or None
        None leaves it to the server. A server that wants ``max_completion_tokens`` instead, or
        takes no temperature, is asked again in its way.
    extra : dict
        Further fields of an endpoint's request.
    timeout : float
        Seconds for one request.
    retries : int
        How often a failed request is repeated.
    attempts : int
        How often a rating is asked for until one can be read.
    concurrency : int
        Requests at once, where many answers are judged together.
    cache : Path, optional
        File of past ratings; they cost nothing again. A judge read from ``judge.yaml`` keeps them
        in ``judge.ratings.jsonl`` beside it, unless the file says ``cache: false``.
    repeats : int
        Ratings asked of each judge for each answer; more than one needs a temperature.
    judges : tuple of JudgeSettings
        Several judges; in the file each entry states what differs from the rest of the file.
    reducer : str
        How several ratings become one: ``mean``, ``median``, ``majority`` (the rating given by
        more than half of them; else there is none) or ``mode`` (the most frequent; of equally
        frequent ones that of the judge named first).
    grade_pattern : str, optional
        Regular expression with one group that holds the grade; the last match counts. Without it
        ratings are read as `parse_rating` reads them.
    grades : dict of str to float
        What grades in words or letters are worth, from 1 to 10, such as ``{C: 10, P: 5.5, I: 1}``.
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
                yield f"`grades.{grade}` must be from 1 to 10, not {value!r}"
        if self.grade_pattern is None:
            if self.grades:
                yield "`grades` needs `grade_pattern`, which finds them"
            return
        try:
            groups = re.compile(self.grade_pattern).groups
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
        import yaml

        path = Path(path)
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UsageError(f"cannot read the judge's file {path}: {error.strerror}") from error
        except yaml.YAMLError as error:
            raise UsageError(f"{path} is no YAML: {' '.join(str(error).split())}") from error
        if not isinstance(content, dict):
            raise UsageError(f"{path} must hold the settings of a judge, such as `model: name`")
        known = {f.name for f in dataclasses.fields(cls)}
        unknown = sorted(set(content) - known)
        if unknown:
            raise UsageError(f"{path}: unknown {', '.join(unknown)}; known: {', '.join(known)}")
        return cls._build(content, path)

    @classmethod
    def _build(cls, content: Mapping[str, Any], path: Path) -> JudgeSettings:
        content = dict(content)
        several = content.pop("judges", None) or ()
        if isinstance(several, Mapping) or any(not isinstance(e, Mapping) for e in several):
            raise UsageError(f"{path}: `judges` must be a list of judges, each with its `model:`")
        members = tuple(
            cls._build({**content, "cache": content.get("cache"), **entry}, path)
            for entry in several
        )
        content["judges"] = members
        content.setdefault("model", " + ".join(member.model for member in members))
        rubric = content.get("prompt")
        if rubric in SHIPPED_PROMPTS and not (path.parent / rubric).exists():
            content = {**SHIPPED_PROMPTS[rubric], **content, "prompt": _PROMPTS / f"{rubric}.txt"}
        for name in ("prompt", "cache"):
            if content.get(name):
                content[name] = path.parent / content[name]
        if content.get("cache") is None:
            content["cache"] = path.with_suffix(".ratings.jsonl")
        elif content["cache"] is False:
            content["cache"] = None
        if not isinstance(content.get("price"), Price):
            content["price"] = Price.parse(content.get("price"), "price")
        judged = content.get("judged") or ()
        content["judged"] = (judged,) if isinstance(judged, str) else tuple(judged)
        return cls(**content)

    @property
    def members(self) -> tuple[JudgeSettings, ...]:
        """The judges, one by one."""
        return self.judges or (self,)

    def identity(self) -> dict[str, object]:
        """What a rating depends on: judges, rubric, sampling, reading; not where they run."""
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
