"""An Inspect evaluation that stops early: the real package and its mock model."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import random
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from lm_eval_ccat.errors import UsageError

if importlib.util.find_spec("inspect_ai") is None:
    pytest.skip("the extra `inspect` is not installed", allow_module_level=True)

N = 150
DRAWN = random.Random(1)
#: What the mock model gets right: 70%, of the last third nothing.
RIGHT = {i: DRAWN.random() < 1.05 and i <= 2 * N // 3 for i in range(1, N + 1)}


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Inspect sets the level of all logging and adds a handler; later tests need them as before."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = [h for h in root.handlers if h in handlers]
    root.setLevel(level)


def stopping(**options):
    from lm_eval_ccat.inspect import AdaptiveStopping  # takes seconds: not when tests are collected

    return AdaptiveStopping(**options)


def questions(n=N):
    from inspect_ai.dataset import MemoryDataset, Sample

    return MemoryDataset([Sample(input=f"question {i}", target="yes") for i in range(1, n + 1)])


def run(early, samples, tmp_path):
    from inspect_ai import Task, eval
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import match

    def answer(input, tools, tool_choice, config):
        number = int(str(input[-1].content).split()[-1])
        output = ModelOutput.from_content("mockllm", "yes" if RIGHT[number] else "no")
        output.usage = ModelUsage(input_tokens=3, output_tokens=1)  # else it fetches a tokenizer
        return output

    task = Task(dataset=samples, scorer=match(), early_stopping=early)
    model = get_model("mockllm/model", custom_outputs=answer, memoize=False)
    [log] = eval(
        task, model=model, display="none", log_dir=str(tmp_path), max_samples=4, log_level="error"
    )
    return log


def test_it_stops_when_the_error_is_small_and_is_right(tmp_path):
    truth, early = sum(RIGHT.values()) / N, stopping(target_se=0.07, seed=3)
    log = run(early, early.ordered(questions()), tmp_path)
    assert log.status == "success", log.error
    said = log.results.early_stopping.metadata
    assert said["standard_error"] <= 0.07 and said["items"] < N / 2
    assert abs(said["estimate"] - truth) < 4 * 0.07
    low, high = said["interval"]
    assert low < truth < high
    # Samples that were skipped are in the log, with the reason.
    assert len(log.results.early_stopping.early_stops) == N - len(log.samples)
    assert log.results.early_stopping.early_stops[0].reason


def test_the_mean_of_epochs_is_the_score_and_a_sample_without_a_score_is_none():
    from inspect_ai.scorer import Score

    early = stopping(max_items=3)
    samples = early.ordered(questions(5))

    async def play():
        await early.start_task(None, list(samples), 2)
        for sample, epochs in zip(samples, ([1, 0], [1, 1], [None, None], [1, None])):
            assert await early.schedule_sample(sample.id, 1) is None
            for epoch, value in enumerate(epochs, 1):
                scores = {} if value is None else {"s": SimpleNamespace(score=Score(value=value))}
                await early.complete_sample(sample.id, epoch, scores)

    asyncio.run(play())
    ranking = early.result()
    # .5, 1 and 1 of three samples; the one that failed is none of them.
    assert ranking.items["model"] == [samples[n].id for n in (0, 1, 3)]
    assert ranking.estimates["model"] == pytest.approx(2.5 / 3, abs=0.2)


def test_another_order_is_refused(tmp_path):
    early = stopping(max_items=20)
    early.ordered(questions())
    log = run(early, questions(), tmp_path)
    assert log.status == "error" and "order" in log.error.message


def test_a_question_is_needed():
    with pytest.raises(UsageError, match="target_se, known or max_items"):
        stopping()
