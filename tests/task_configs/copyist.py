"""A model that knows every answer and forgets part of it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import lm_eval.models  # noqa: F401  (registers the harness's own, which a first other one stops)
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model


@register_model("ccat-forgetful")
class Forgetful(LM):
    """Finds the document in the prompt and keeps each word of its answer with chance ``skill``."""

    def __init__(self, answers, skill=1.0, model="forgetful", **kwargs):
        super().__init__()
        self.model = model
        self.skill = float(skill)
        self.answers = json.loads(Path(answers).read_text())
        self.prompts: list[str] = []

    def _answer(self, prompt: str) -> str:
        self.prompts.append(prompt)
        keys = [key for key in self.answers if key in prompt]
        assert len(keys) == 1, f"{len(keys)} documents in the prompt {prompt[:200]!r}"
        rng = random.Random(f"{self.model} {keys[0]}")
        lines = []
        for line in self.answers[keys[0]].splitlines():
            words = [w if rng.random() < self.skill else "hum" for w in line.split(" ")]
            lines.append(" ".join(words))
        return "\n".join(lines)

    def generate_until(self, requests, disable_tqdm=False):
        return [self._answer(request.args[0]) for request in requests]

    def loglikelihood(self, requests, disable_tqdm=False):
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood
