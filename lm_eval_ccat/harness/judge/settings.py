"""What a judge is: the YAML file that describes it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ..prices import Price

SHIPPED_PROMPT = Path(__file__).parent / "prompts" / "truthfulness.txt"


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
        gives) to be filled in.
    temperature : float
    max_tokens : int
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
        File of past ratings; they cost nothing again.
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
    lm_args: dict[str, Any] = field(default_factory=dict)
    apply_chat_template: bool = False
    prompt: Path = SHIPPED_PROMPT
    temperature: float = 0.0
    max_tokens: int = 512
    extra: dict[str, Any] = field(default_factory=dict)
    timeout: float = 60.0
    retries: int = 4
    attempts: int = 3
    concurrency: int = 4
    cache: Path | None = None
    price: Price = field(default_factory=Price)
    judged: tuple[str, ...] = ()
    allow_self: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.model, str) or not self.model:
            raise UsageError("a judge needs `model:`, its name")
        if (self.base_url is None) == (self.lm is None):
            raise UsageError(
                f"judge {self.model}: state either `base_url:` (an OpenAI-compatible endpoint) or "
                "`lm:` (an lm-eval model type)"
            )
        for name in ("retries", "max_tokens", "attempts", "concurrency"):
            value, least = getattr(self, name), 0 if name == "retries" else 1
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise UsageError(
                    f"judge {self.model}: `{name}` must be a whole number of at least {least}, "
                    f"not {value!r}"
                )

    @classmethod
    def read(cls, path: str | Path) -> JudgeSettings:
        """Read a judge's file; paths in it are relative to it.

        Raises
        ------
        UsageError
            If there is no such file, or something in it cannot be meant.
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
        content.setdefault("model", "")
        for name in ("prompt", "cache"):
            if content.get(name):
                content[name] = path.parent / content[name]
        content["price"] = Price.parse(content.get("price"), "price")
        judged = content.get("judged") or ()
        content["judged"] = (judged,) if isinstance(judged, str) else tuple(judged)
        return cls(**content)
