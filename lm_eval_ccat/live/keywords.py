"""Keyword arguments of `rank`; ``python -m lm_eval_ccat.live.surfaces keywords``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from ..bank import ItemBank
from ..scores import ScoreTable


class Keywords(TypedDict, total=False):
    """The options of a run, as `Spec` declares them."""

    task: str | Sequence[Any] | None
    """A task, a group or the YAML file of a task. Models are ranked by the weighted mean of
    several, in a list or by commas (`task` and `tasks` mean the same)."""
    tasks: str | Sequence[Any] | None
    """A task, a group or the YAML file of a task. Models are ranked by the weighted mean of
    several, in a list or by commas (`task` and `tasks` mean the same)."""
    models: Sequence[Any] | None
    """The models, see below."""
    bank: str | Sequence[Any] | Mapping[str, Any] | Path | ItemBank | None
    """Item bank: a file, a folder of banks, a hub name, or one of these by task or by metric
    (TASK=FILE); or `{borrow: [SCORES, ...], scores: SCORES}`, tasks on the same documents and full
    runs of this one. Without a bank all models answer the same random items (method `sample`)."""
    metrics: str | Sequence[Any] | Mapping[str, Any] | None
    """Metrics that score each answer, with weights. Models are ranked by the weighted mean, each
    metric on a scale of 0 to 1; weight 0 only reports a metric. Default: the bank's metric, else
    the task's first with a score per document."""
    weights: str | Mapping[str, Any] | None
    """Weights of several tasks: `documents`, `equal`, or one per task or group (a=2,b=1). A group
    divides its weight among its tasks as the harness does. Default: the harness's weights for a
    single group, else `documents`."""
    confidence: float | None
    """Two-sided confidence of verdicts and intervals."""
    familywise: bool | None
    """Make `confidence` hold for all pairs together."""
    min_difference: float | None
    """Models that surely differ by less are equivalent. On the metric's own scale; with several
    outcomes, on 0 to 1."""
    question: Literal["benchmark", "population"] | None
    """What the order is about: full runs of these documents (`benchmark`), or documents like these
    (`population`), of which the benchmark is a sample."""
    looks: Literal["every", "one"] | None
    """`every`: verdicts hold although results are checked after each answer. `one`: they hold for a
    single look, at a number of items fixed in advance."""
    budget: Mapping[str, Any] | None
    """One of `{items: n}`, `{usd: x}`, `{seconds: s}`. Without a budget the run ends when its goal
    is met or every item has been asked."""
    max_items: int | None
    """Maximum number of items per model (`run`: per task). Default: the method's limit."""
    warmup: int | None
    """Items that every model answers before models are compared; of several tasks this many of
    each, but at most 60 in all and at least 2 of each."""
    stop: str | None
    """When to stop: `decided`, `top K` (the best K are decided), `se X` (every standard error is at
    most X, on a scale of 0 to 1), `ranks W` (every rank is known to within W ranks), `percentile P`
    or `limits` (at the budget), joined by `and` and `or`. Default for one model without others,
    budget or limit: `se 0.02`."""
    known: str | Sequence[Any] | Mapping[str, Any] | Path | ScoreTable | None
    """Score table or logs of models with full results (by task TASK=PATH). They take part in the
    ranking and are not asked anything."""
    audit: float | None
    """Share of each model's items to draw at random, for an estimate that relies on no response
    model. `default` and `sample` draw items by themselves and add none."""
    exposure: int | None
    """Draw each item among this many most informative ones; 1 takes the best."""
    seed: int | None
    """Seed of every random draw."""
    options: Mapping[str, Any] | str | None
    """Further options of the method, such as `{item_price: 0}`."""
    strata: str | float | None
    """Field of the documents, such as `subject`: without a bank, items are drawn from its groups in
    proportion to their sizes."""
    prior: str | Sequence[Any] | Mapping[str, Any] | Path | ScoreTable | None
    """Earlier answers (harness logs with samples, or a run directory), a list of them, or by model
    (NAME=LOGS). When the run reaches their documents, it scores them in place of new answers, at no
    cost."""
    save_bank: str | float | None
    """Bank file that keeps what the run observes and grows from run to run; a folder for several
    tasks or metrics."""
    ahead: int | None
    """Maximum number of a model's items under way. Default: 16, or twice the model's slots if it
    has more than 8. 1 asks one at a time."""
    order: Literal["asked", "arrival"] | None
    """When answers take effect: in the order `asked`, which makes runs repeatable, or on `arrival`,
    for more throughput."""
    memory: float | None
    """Memory that local models may hold together, in the unit of the models' `memory`. Models that
    do not fit take turns, and so do local models that do not state their memory."""
    price: Mapping[str, Any] | None
    """Price of each model that states none."""
    judge: Mapping[str, Any] | None
    """Price of judging one answer, if the metric is an LLM judge."""
    failures: Mapping[str, Any] | None
    """When to repeat a request and when to set a model aside, see below."""
    accept_change: bool | None
    """Accept that a server changed its model or fingerprint during the run, and that the scoring
    code changed before a resume."""
    fail_on_empty: float | None
    """Exit with 4 if a larger share of a model's answers is empty."""
    harness: Mapping[str, Any] | None
    """Anything else that `lm_eval --config` takes, trackers and the hub included: `num_fewshot`,
    `apply_chat_template`, `system_instruction`, `gen_kwargs`, `include_path`, `use_cache`, ..."""
