"""The requests of one document alone, where they are those of a full run.

A full run builds documents in order. That matters where few-shot examples are drawn from a
generator (each draw depends on how many came before), where the task's own code may keep state, and
where the harness caches the whole list. Everywhere else a document's requests depend on it alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .names import resolve
from .tasks import template_of

#: What a task class must not have changed.
_BUILDING = (
    "build_all_requests",
    "build_qa_turn",
    "construct_requests",
    "doc_iterator",
    "doc_to_choice",
    "doc_to_prefix",
    "doc_to_target",
    "doc_to_text",
    "eval_docs",
    "fewshot_context",
    "fewshot_docs",
    "multiple_input_context",
    "resolve_field",
)
#: Parts of a task's configuration that must be templates or fields, not code.
_PARTS = (
    "description",
    "doc_to_audio",
    "doc_to_choice",
    "doc_to_image",
    "doc_to_target",
    "doc_to_text",
    "gen_prefix",
)
_FEWSHOT_PARTS = ("doc_to_choice", "doc_to_target", "doc_to_text", "gen_prefix")


def builds_alone(task: Any, options: Mapping[str, Any]) -> bool:
    """Whether a document's requests are the same whichever others are built, and in what order.

    Parameters
    ----------
    task : Task
    options : mapping
        As `build_requests` takes them.
    """
    if any(options.get(k) for k in ("cache_requests", "rewrite_requests_cache", "write_out")):
        return False
    stock = resolve("lm_eval.api.task:ConfigurableTask|Task")
    if not isinstance(task, stock):
        return False
    if any(getattr(type(task), name, None) is not getattr(stock, name) for name in _BUILDING):
        return False
    if not all(_is_template(getattr(task.config, part, None)) for part in _PARTS):
        return False
    if not task.config.num_fewshot:
        return True
    # The first n examples are the same for all; every other sampler draws.
    if type(task.sampler) is not resolve("lm_eval.api.samplers:FirstNSampler"):
        return False
    return all(_is_template(getattr(task.fewshot_cfg, part, None)) for part in _FEWSHOT_PARTS)


def build_single(
    task: Any, lm: Any, options: Mapping[str, Any], doc_id: int, doc: Any
) -> list[Any]:
    """The requests of one document, as the loop of `Task.build_all_requests` makes them."""
    chat = bool(options.get("apply_chat_template"))
    template = template_of(lm) if chat else None
    context = task.fewshot_context(
        doc,
        num_fewshot=task.config.num_fewshot or 0,
        system_instruction=options.get("system_instruction"),
        apply_chat_template=chat,
        fewshot_as_multiturn=options.get("fewshot_as_multiturn", False),
        chat_template=template,
        gen_prefix=task.doc_to_prefix(doc),
    )
    made = task.construct_requests(
        doc=doc,
        ctx=context,
        metadata=(task.config["task"], doc_id, task.config.repeats),
        apply_chat_template=chat,
        chat_template=template,
    )
    return sorted(made if isinstance(made, list) else [made], key=lambda i: i.idx)


def _is_template(part: Any) -> bool:
    """Whether a part of a configuration is data; a Jinja template can draw at random, too."""
    if isinstance(part, (list, tuple)):
        return all(_is_template(p) for p in part)
    return not callable(part) and not (isinstance(part, str) and "random" in part)
