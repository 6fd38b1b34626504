"""BERTScore, by the bert-score library.

The model is loaded once per process and settings. Environment variables select it, because the
harness passes only the document and the answer to a task's ``process_results``:

==========================  =====================================================================
``CCAT_BERTSCORE_MODEL``    name or path of the encoder; default ``microsoft/deberta-xlarge-mnli``
``CCAT_BERTSCORE_LAYERS``   layer whose output is compared; default that of bert-score for the model
``CCAT_BERTSCORE_BASELINE`` ``none`` (default), a language such as ``en``, or a baseline file
``CCAT_BERTSCORE_BATCH``    pairs per batch; default 64
``CCAT_BERTSCORE_DEVICE``   such as ``cuda:0``; default bert-score's choice
==========================  =====================================================================
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from ..errors import MetricError
from ..options import TEXT, Kind, OptionPlace, whole
from ..plugins import needed, our_extra

DEFAULT_MODEL = "microsoft/deberta-xlarge-mnli"

#: More tokens than any encoder reads; tokenizers without a limit state such a number.
_NO_LIMIT = 10**6

# One model, one caller at a time: a torch module on one device gains nothing from several threads.
_LOCK = Lock()


@dataclass(frozen=True)
class BertScoreSettings:
    """Which encoder compares the texts, and how.

    Parameters
    ----------
    model : str
        Hub name or path.
    num_layers : int, optional
        Layer whose output is compared; bert-score knows it for the models it was tuned on.
    baseline : str, optional
        Language (``"en"``) or file of a baseline to rescale by; None for raw cosine similarities.
        Values below the baseline count as 0.
    batch_size : int
    device : str, optional
    """

    model: str = DEFAULT_MODEL
    num_layers: int | None = None
    baseline: str | None = None
    batch_size: int = 64
    device: str | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> BertScoreSettings:
        """Read the settings from environment variables (see the module's docstring).

        Raises
        ------
        UsageError
            A value that must be a number is not one.
        """
        values = os.environ if environment is None else environment

        def stated(name: str, kind: Kind = TEXT) -> Any:
            text, place = values.get(name), OptionPlace(name)
            return kind.read(text, place) if text else None

        baseline = stated("CCAT_BERTSCORE_BASELINE")
        return cls(
            model=stated("CCAT_BERTSCORE_MODEL") or DEFAULT_MODEL,
            num_layers=stated("CCAT_BERTSCORE_LAYERS", whole(1)),
            baseline=None if baseline == "none" else baseline,
            batch_size=stated("CCAT_BERTSCORE_BATCH", whole(1)) or 64,
            device=stated("CCAT_BERTSCORE_DEVICE"),
        )

    @property
    def layer(self) -> int | None:
        """The layer to compare; None if bert-score is not installed or knows none."""
        if self.num_layers is not None:
            return self.num_layers
        try:
            from bert_score.utils import model2layers
        except ImportError:
            return None
        return dict(model2layers).get(self.model)


@lru_cache(maxsize=2)
def _load(settings: BertScoreSettings) -> Any:
    """Return a `bert_score.BERTScorer`, its model and its baseline loaded.

    Raises
    ------
    MetricError
        The library, the model, the layer, the device or the baseline is not to be had.
    """
    library = needed("bert_score", "metric bertscore", our_extra("bertscore"), MetricError)
    if settings.layer is None:
        raise MetricError(
            f"bert-score has no best layer for {settings.model}; state one in CCAT_BERTSCORE_LAYERS"
        )
    is_file = settings.baseline is not None and Path(settings.baseline).is_file()
    try:
        scorer = library.BERTScorer(
            model_type=settings.model,
            num_layers=settings.num_layers,
            batch_size=settings.batch_size,
            device=settings.device,
            rescale_with_baseline=settings.baseline is not None,
            # With a baseline of one's own the language is asked for and not used.
            lang="en" if is_file else settings.baseline,
            baseline_path=settings.baseline if is_file else None,
        )
    except (OSError, AssertionError, ValueError, RuntimeError) as error:
        raise MetricError(
            f"metric bertscore cannot load {settings.model}: {_in_one_line(error)}; name a model "
            "that is on this machine in CCAT_BERTSCORE_MODEL, one of its layers in "
            "CCAT_BERTSCORE_LAYERS, and a device that is here in CCAT_BERTSCORE_DEVICE"
        ) from error
    # bert-score looks for a baseline when it first scores, which is too late to say what is wrong.
    if settings.baseline is not None:
        _require_baseline(scorer, settings)
    tokenizer = scorer._tokenizer
    # Such a "limit" overflows fast tokenizers; use the model's own.
    if tokenizer.model_max_length > _NO_LIMIT:
        tokenizer.model_max_length = _most_tokens(scorer._model)
    return scorer


def _require_baseline(scorer: Any, settings: BertScoreSettings) -> None:
    """Load the baseline of a `bert_score.BERTScorer`, or say that it cannot be had."""
    try:
        _ = scorer.baseline_vals
    except (OSError, ValueError, IndexError, TypeError) as error:
        raise MetricError(
            f"metric bertscore has no baseline {settings.baseline!r} for {settings.model}: "
            f"{_in_one_line(error)}; name a baseline file with a row for each layer in "
            "CCAT_BERTSCORE_BASELINE, or leave it out"
        ) from error


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _most_tokens(model: Any) -> int:
    """Return how many tokens of a text an encoder has positions for; 512 if it has no limit."""
    positions = getattr(model.config, "max_position_embeddings", 0)
    # XLNet, whose positions are relative, states -1.
    if positions < 1:
        return 512
    # The first token of RoBERTa and its kin has the position after that of padding.
    embeddings = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    padding = getattr(embeddings, "padding_idx", None)
    return int(positions if padding is None else positions - padding - 1)


def bertscore_f1(
    predictions: Sequence[str],
    references: Sequence[str],
    settings: BertScoreSettings | None = None,
) -> list[float]:
    """Return the BERTScore F1 (Zhang et al. 2020) of pairs of texts, in one batched call.

    A token unlike every token of the other text counts 0 if bert-score padded the pair within its
    batch, and its negative similarity otherwise. Scores of very bad texts may therefore differ by
    some 0.001 between one call for many pairs and many calls for one.

    Parameters
    ----------
    predictions, references : sequence of str
        Equally many. A pair with an empty text scores 0 with every version of transformers.
    settings : BertScoreSettings, optional
        Default those of the environment.

    Returns
    -------
    list of float
        In [0, 1], higher is better.

    Raises
    ------
    MetricError
        The library or the model is not on this machine.
    """
    if len(predictions) != len(references):
        raise ValueError(f"{len(predictions)} predictions for {len(references)} references")
    scores = [0.0] * len(predictions)
    # bert-score encodes an empty text by a method that transformers 5 no longer has.
    filled = [
        i
        for i, pair in enumerate(zip(predictions, references))
        if all(text.strip() for text in pair)
    ]
    if filled:
        settings = settings or BertScoreSettings.from_environment()
        with _LOCK:
            _, _, f1 = _load(settings).score(
                [predictions[i] for i in filled],
                [references[i] for i in filled],
                batch_size=settings.batch_size,
            )
        for i, value in zip(filled, f1.tolist()):
            # Rescaled by a baseline, unlike texts fall below 0.
            scores[i] = min(max(float(value), 0.0), 1.0)
    return scores
