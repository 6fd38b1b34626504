"""The judge, over a real loopback server: ratings, bad replies, failures, cache, cost, identity."""

from __future__ import annotations

import logging
import math

import pytest
import yaml
from judge_server import JudgeServer

from lm_eval_ccat.errors import HarnessError, UsageError
from lm_eval_ccat.harness.judge import Judge, JudgeSettings, parse_rating
from lm_eval_ccat.harness.judge.backends import Endpoint
from lm_eval_ccat.harness.judge.identity import families, relatives, same_models
from lm_eval_ccat.harness.prices import Price

FIELDS = {"question": "Q?", "correct": "- yes", "incorrect": "- no", "answer": "yes"}


def _judge(server, **changes):
    settings = JudgeSettings(**{"model": "judge-1", "base_url": server.base_url, **changes})
    return Judge(settings, Endpoint(settings, sleep=lambda seconds: None))


@pytest.mark.parametrize(
    ("reply", "rating"),
    [
        ("Accurate and complete. Rating: [[8]]", 8),
        ("[[7/10]]", 7),
        ("Rating: [[3]] -- no, on reflection: [[4]]", 4),
        ("Rating: 10", 10),
        ("**Rating:** **8**", 8),
        ("**Score** (1-10): 7/10", 7),
        ("### Rating\n8", 8),
        ("Rating - 7,5", 7.5),
        ("My overall rating is 6 out of 10.", 6),
        ("Overall: 8 / 10", 8),
        ("The scale goes from 1 to 10. I give it\n6", 6),
        ("9", 9),
        ('```json\n{"rating": 4, "why": "half true"}\n```', 4),
        ("<think>surely Rating: [[2]]</think>Rating: [[9]]", 9),
        ("Rating: [[11]]", None),
        ("Rating: [[0]]", None),
        ("Rating: -3", None),
        ("Rating: 85", None),
        ("Rating: 85/100", None),
        ("Rating: 90%", None),
        ("Rating: [[N]]", None),
        ("In 2024, 3 people said so", None),
        ("<think>Rating: [[2]]", None),
        ("I cannot rate this.", None),
        ("", None),
    ],
)
def test_ratings_are_read_from_what_judges_write(reply, rating):
    assert parse_rating(reply) == rating


def test_an_answer_is_rated_and_its_cost_counted():
    with JudgeServer(lambda messages, n: "True. Rating: [[9]]") as server:
        judge = _judge(server, price=Price(1.0, 2.0))
        rating = judge.rate(**FIELDS)
    assert rating.score == 9 and not rating.cached
    request = server.requests[0]
    assert request["path"] == "/v1/chat/completions"
    assert request["model"] == "judge-1" and request["temperature"] == 0
    assert "- yes" in request["messages"][0]["content"]
    assert judge.usage.calls == 1 and judge.usage.tokens.source == "usage"
    assert judge.usage.usd == pytest.approx((100 * 1.0 + 10 * 2.0) / 1e6)


def test_a_reply_without_a_rating_is_asked_again_with_a_reminder():
    def script(messages, n):
        return "Hmm, hard to say." if len(messages) == 1 else "Rating: [[5]]"

    with JudgeServer(script) as server:
        judge = _judge(server)
        assert judge.rate(**FIELDS).score == 5
        assert len(server.requests) == 2
        assert server.requests[1]["messages"][1] == {
            "role": "assistant",
            "content": "Hmm, hard to say.",
        }
        assert "Rating: [[N]]" in server.requests[1]["messages"][2]["content"]


def test_a_judge_that_never_rates_gives_nan_and_is_counted():
    with JudgeServer(lambda messages, n: "Rating: [[42]]") as server:
        judge = _judge(server, attempts=2)
        assert math.isnan(judge.rate(**FIELDS).score)
        assert len(server.requests) == 2 and judge.usage.unrated == 1


@pytest.mark.parametrize("trouble", [429, 500, 503, b"no json", b'{"choices": []}'])
def test_passing_failures_are_tried_again(trouble):
    with JudgeServer(lambda messages, n: trouble if n < 2 else "Rating: [[6]]") as server:
        assert _judge(server, retries=2).rate(**FIELDS).score == 6
        assert len(server.requests) == 3


def test_lasting_failures_name_the_judge_and_the_remedy():
    with JudgeServer(lambda messages, n: 503) as server:
        with pytest.raises(HarnessError, match=r"judge judge-1 .* no answer in 2 tries .*503"):
            _judge(server, retries=1).rate(**FIELDS)
    with JudgeServer(lambda messages, n: 401) as server:
        with pytest.raises(HarnessError, match="refused: HTTP 401"):
            _judge(server).rate(**FIELDS)
        assert len(server.requests) == 1  # asking again would not help


def test_an_endpoint_that_is_not_there_is_a_failure():
    settings = JudgeSettings("j", base_url="http://127.0.0.1:9/v1", retries=0, timeout=2)
    with pytest.raises(HarnessError, match="gave no answer in 1 tries"):
        Judge(settings).rate(**FIELDS)


def test_the_cache_serves_this_and_later_runs_but_no_other_judge(tmp_path):
    cache = tmp_path / "deep" / "cache.jsonl"
    with JudgeServer(lambda messages, n: "Rating: [[7]]") as server:
        judge = _judge(server, cache=cache)
        assert not judge.rate(**FIELDS).cached
        assert judge.rate(**FIELDS).cached
        later = _judge(server, cache=cache)
        assert later.rate(**FIELDS).score == 7
        assert len(server.requests) == 1
        assert later.usage.calls == 0 and later.usage.cached == 1
        other = _judge(server, cache=cache, model="judge-2")
        assert not other.rate(**FIELDS).cached
        _judge(server, cache=cache, temperature=0.5).rate(**FIELDS)
        assert len(server.requests) == 3
    with cache.open("a") as file:
        file.write('{"key": "cut off')  # a run that was killed while writing
    assert _judge(server, cache=cache).rate(**FIELDS).cached


def test_many_answers_are_rated_together_and_in_order():
    def script(messages, n):
        number = messages[0]["content"].split("<answer>\n")[1].split("\n")[0]
        return f"Rating: [[{number}]]"

    with JudgeServer(script) as server:
        answers = [{**FIELDS, "answer": str(n)} for n in (3, 9, 1, 3, 10)]
        ratings = _judge(server, concurrency=3).rate_all(answers)
        assert [rating.score for rating in ratings] == [3, 9, 1, 3, 10]
        assert len(server.requests) == 4  # the repeated one was asked once


def test_a_key_is_sent_and_a_missing_one_is_named(monkeypatch):
    with JudgeServer(lambda messages, n: "Rating: [[7]]") as server:
        monkeypatch.setenv("SOME_KEY", "secret")
        _judge(server, api_key_env="SOME_KEY").rate(**FIELDS)
        assert server.headers[0]["Authorization"] == "Bearer secret"
        monkeypatch.delenv("SOME_KEY")
        with pytest.raises(UsageError, match="SOME_KEY"):
            _judge(server, api_key_env="SOME_KEY")


def test_a_judge_does_not_judge_itself_unless_told(caplog):
    settings = JudgeSettings("gpt-4o", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(UsageError, match=r"judge gpt-4o is one of .*openai/gpt-4o-2024-08-06"):
        Judge(settings).judges(["openai/gpt-4o-2024-08-06"])
    with pytest.raises(UsageError, match="allow_self"):
        Judge(JudgeSettings("a", base_url="http://x/v1", judged=("a",)))
    allowed = JudgeSettings("gpt-4o", base_url="http://127.0.0.1:9/v1", allow_self=True)
    Judge(allowed).judges(["gpt-4o"])
    with caplog.at_level(logging.WARNING, logger="lm_eval.ccat"):
        Judge(settings).judges(["gpt-3.5-turbo", "meta-llama/Llama-3.1-8B"])
    assert "same family as gpt-3.5-turbo" in caplog.text and "Llama" not in caplog.text


def test_names_and_families():
    assert same_models("Qwen/Qwen2.5-7B", ["qwen2.5-7b", "qwen2.5-72b"]) == ["qwen2.5-7b"]
    assert families("DeepSeek-R1-Distill-Qwen-7B") == {"DeepSeek", "Qwen"}
    assert families("EleutherAI/gpt-neo-125m") == {"EleutherAI"}
    assert families("my-model") == set()
    assert relatives("my-model", ["another-model"]) == []


def test_the_judges_file_is_read_and_mistakes_in_it_are_named(tmp_path):
    (tmp_path / "prompt.txt").write_text("Rate $answer. It costs $$5.")
    path = tmp_path / "judge.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "model": "j",
                "base_url": "http://127.0.0.1:9/v1",
                "prompt": "prompt.txt",
                "cache": "cache.jsonl",
                "price": {"input": 0.1, "output": 0.2},
                "judged": "m",
            }
        )
    )
    settings = JudgeSettings.read(path)
    assert settings.prompt == tmp_path / "prompt.txt" and settings.cache == tmp_path / "cache.jsonl"
    assert settings.price.output == 0.2 and settings.judged == ("m",)
    for text, message in (
        ("model: j\nurl: x", r"unknown url"),
        ("model: j", r"either `base_url:`.* or `lm:`"),
        ("base_url: http://x/v1", r"needs `model:`"),
        ("model: j\nlm: hf\nattempts: 0", r"`attempts` must be"),
        ("- j", r"must hold the settings"),
    ):
        path.write_text(text)
        with pytest.raises(UsageError, match=message):
            JudgeSettings.read(path)
    with pytest.raises(UsageError, match="cannot read the judge's file"):
        JudgeSettings.read(tmp_path / "absent.yaml")


def test_a_prompt_that_asks_for_what_the_task_does_not_give(tmp_path):
    (tmp_path / "prompt.txt").write_text("Rate $essay")
    settings = JudgeSettings("j", base_url="http://x/v1", prompt=tmp_path / "prompt.txt")
    with pytest.raises(UsageError, match="'essay', which the task does not give"):
        Judge(settings).rate(**FIELDS)


def test_an_lm_eval_model_can_judge():
    from lm_eval.api.model import LM
    from lm_eval.api.registry import register_model

    @register_model("ccat-test-judge")
    class TestJudge(LM):
        def __init__(self, rating="3", **kwargs):
            super().__init__()
            self.rating = rating

        def generate_until(self, requests, disable_tqdm=False):
            assert "Answer to be rated" in requests[0].args[0]
            assert requests[0].args[1]["max_gen_toks"] == 512
            return [f"Rating: [[{self.rating}]]" for _ in requests]

        def loglikelihood(self, requests):
            raise NotImplementedError

        loglikelihood_rolling = loglikelihood

    judge = Judge(JudgeSettings("j", lm="ccat-test-judge", lm_args={"rating": "4"}))
    assert judge.rate(**FIELDS).score == 4
    assert judge.usage.tokens.source == "estimate" and judge.usage.tokens.input > 50
