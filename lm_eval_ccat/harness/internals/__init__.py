"""The one place that touches lm-eval's internals.

Whatever the rest of the package needs from the harness beyond a task's and a model's own methods
comes through here, so that a harness with moved internals is a change of this folder. `USED` lists
every name; a contract test checks that the installed harness has them.  Nothing is imported from
the harness until it is called for.
"""

from __future__ import annotations

from .models import (
    generate,
    make_lm,
    model_arguments,
    model_name,
    model_types,
    naming_extras,
    natural_batch,
    require_backends,
    send,
    token_counter,
    with_cache,
    world_size,
)
from .names import SUPPORTED, USED, harness_version, require_supported_version, resolve
from .results import aggregate_groups, collect, new_accumulator, save_results, to_results
from .running import (
    bind_evaluate,
    config_file,
    install_evaluate,
    run_command,
    set_up_logging,
    stock_simple_evaluate,
    watch_evaluate,
)
from .single import build_single, builds_alone
from .tasks import (
    apply_filters,
    build_requests,
    chat_template_text,
    default_metrics,
    document_hash,
    expand_names,
    filter_names,
    hash_text,
    load_tasks,
    metric_names,
    missing_metrics,
    reported_metrics,
    scores_by_itself,
    split_task_dict,
    static_configs,
    task_manager,
)

__all__ = [
    "SUPPORTED",
    "USED",
    "aggregate_groups",
    "apply_filters",
    "bind_evaluate",
    "build_requests",
    "build_single",
    "builds_alone",
    "chat_template_text",
    "collect",
    "config_file",
    "default_metrics",
    "document_hash",
    "expand_names",
    "filter_names",
    "generate",
    "harness_version",
    "hash_text",
    "install_evaluate",
    "load_tasks",
    "make_lm",
    "metric_names",
    "missing_metrics",
    "model_arguments",
    "model_name",
    "model_types",
    "naming_extras",
    "natural_batch",
    "new_accumulator",
    "reported_metrics",
    "require_backends",
    "require_supported_version",
    "resolve",
    "run_command",
    "save_results",
    "scores_by_itself",
    "send",
    "set_up_logging",
    "split_task_dict",
    "static_configs",
    "stock_simple_evaluate",
    "task_manager",
    "to_results",
    "token_counter",
    "watch_evaluate",
    "with_cache",
    "world_size",
]
