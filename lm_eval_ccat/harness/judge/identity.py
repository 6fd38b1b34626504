"""Is a judge one of the models it judges, or of their family?"""

from __future__ import annotations

import re
from collections.abc import Iterable

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
    """Those of the judged models that are the judge itself."""
    return [name for name in judged if plain_name(name) == plain_name(judge)]


def relatives(judge: str, judged: Iterable[str]) -> list[str]:
    """Those of the judged models that are of the judge's family, itself left out."""
    own = families(judge)
    return [
        name for name in judged if families(name) & own and plain_name(name) != plain_name(judge)
    ]
