"""API models through one loop and one pool: the same bodies, errors in words, cancellation."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from itertools import chain, repeat
from types import SimpleNamespace

import pytest
from worlds.server import CompletionsServer

from lm_eval_ccat.harness import internals, open_session
from lm_eval_ccat.harness import transport as transport_module
from lm_eval_ccat.harness.price import Tokens
from lm_eval_ccat.harness.transport import ServerError, Transport, pooled
from lm_eval_ccat.live.failures import Failure, Remedy

SETTINGS = [{"until": ["\n"], "max_gen_toks": 8}, {"until": ["."], "temperature": 0.7}]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """A tokenizer of single words, as files of the real format."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    words = {"<unk>": 0, "<eos>": 1, **{f"w{i}": i + 2 for i in range(40)}}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    folder = tmp_path_factory.mktemp("tokenizer")
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, unk_token="<unk>", eos_token="<eos>"
    )
    fast.save_pretrained(folder)
    return str(folder)


def make(server, **arguments):
    arguments = {"model": "m", "base_url": server.url, "max_retries": 1, "timeout": 5, **arguments}
    arguments.setdefault("tokenizer_backend", "none")
    return internals.make_lm("local-completions", arguments)


def instances(kind, texts):
    make_one = internals.resolve("lm_eval.api.instance:Instance")
    arguments = [
        (text, SETTINGS[i % 2]) if kind == "generate_until" else (text, f" w{i} w{i + 1}")
        for i, text in enumerate(texts)
    ]
    return [
        make_one(request_type=kind, doc={}, arguments=a, idx=0, metadata=("task", i, 1))
        for i, a in enumerate(arguments)
    ]


def sent(server):
    """Every prompt with all else that its request held; how they were batched does not matter."""
    rows = []
    for body in server.bodies:
        rest = {k: v for k, v in body.items() if k != "prompt"}
        prompts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
        rows += [json.dumps([prompt, rest], sort_keys=True) for prompt in prompts]
    return sorted(rows)


@pytest.mark.parametrize("at_once, batch", [(1, 1), (4, 2)])
@pytest.mark.parametrize(
    "kind, words", [("generate_until", False), ("generate_until", True), ("loglikelihood", True)]
)
def test_bodies_and_answers_are_those_of_the_harness(kind, words, at_once, batch, tokenizer):
    texts = [" ".join(f"w{(i * j) % 40}" for j in range(1, 4 + i % 3)) for i in range(7)]
    found = []
    for ours in (False, True):
        with CompletionsServer({}) as server:
            arguments = {"num_concurrent": at_once, "batch_size": batch, "max_length": 13}
            if words:
                arguments |= {"tokenizer_backend": "huggingface", "tokenizer": tokenizer}
            lm = make(server, **arguments)
            if ours:
                assert pooled(lm)
                transport = Transport(lm)
            requests = instances(kind, texts)
            internals.send(lm, requests)
            found.append((sent(server), [request.resps for request in requests]))
            if ours:
                transport.close()
    assert found[0] == found[1]


def test_connections_are_made_once_and_shared_by_threads():
    with CompletionsServer({}, latency=0.01) as server:
        lm = make(server, num_concurrent=3)
        transport = Transport(lm)
        given = {}

        def work(k):
            for i in range(8):
                [request] = instances("generate_until", [f"text {k} {i}"])
                internals.send(lm, [request])
                given[k, i] = request.resps

        threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        transport.close()
        assert server.connections <= 3 and server.most_at_once["m"] <= 3
        assert given == {(k, i): [f"text {k} {i}"] for k in range(6) for i in range(8)}


@pytest.mark.parametrize(
    "mood, kind, status, words",
    [
        (("say", 400, '{"error": {"message": "too long by 7"}}'), "status", 400, "too long by 7"),
        (("say", 404, '{"detail": "no such model"}'), "status", 404, "no such model"),
        (("say", 502, "<html>bad\n gateway</html>"), "status", 502, "<html>bad gateway</html>"),
        (("say", 200, '{"error": {"message": "quota", "code": 429}}'), "answer", 429, "quota"),
        (("say", 200, '{"choices": []}'), "answer", None, '{"choices": []}'),
        (("say", 200, '{"choices": [{"index": 0}]}'), "answer", None, "index"),
        (("garbage",), "answer", None, '{"choices": [{"index"'),
        (("drop",), "connection", None, ""),
        (("hang", 3.0), "timeout", None, ""),
    ],
)
def test_the_servers_own_words_come_with_the_error(mood, kind, status, words):
    with CompletionsServer({}, mood=lambda *_: mood) as server:
        lm = make(server, timeout=1)
        transport = Transport(lm)
        with pytest.raises(ServerError) as caught:
            internals.send(lm, instances("generate_until", ["text"]))
        transport.close()
    assert (caught.value.kind, caught.value.status) == (kind, status)
    assert words in caught.value.words and words in str(caught.value)


def refusal(server, **arguments):
    """The error of one request to a server, and how long it took."""
    transport = Transport(lm := make(server, **arguments))
    started = time.monotonic()
    with pytest.raises(ServerError) as caught:
        internals.send(lm, instances("generate_until", ["text"]))
    transport.close()
    return caught.value, time.monotonic() - started


def speaks(raw):
    """A server that says some bytes to each connection, and its address."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                for piece in raw:
                    try:
                        connection.sendall(piece)
                    except OSError:
                        break

    threading.Thread(target=serve, daemon=True).start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/completions"
    return contextlib.closing(listener), SimpleNamespace(url=url)


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
    ],
)
def test_what_is_no_http_is_a_broken_connection(raw):
    closing, server = speaks([raw])
    with closing:
        error, _ = refusal(server)
    assert (error.kind, error.status, error.sent) == ("connection", None, True)
    assert Failure(error).remedy is Remedy.AWAY  # the server's trouble, not the document's


def test_an_answer_without_an_end_is_not_read_to_its_end(monkeypatch):
    monkeypatch.setattr(transport_module, "LARGEST_BODY", 1 << 20)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n"
    closing, server = speaks(chain([head], repeat(b"x" * 65536)))
    with closing:
        error, seconds = refusal(server, timeout=60)
    assert error.kind == "answer" and "larger than 1 MiB" in str(error) and seconds < 10


def test_a_request_is_not_passed_on_to_another_address():
    with CompletionsServer({}) as other:
        elsewhere = {"Location": other.url.replace("//", "//me:secret@") + "?key=1"}
        for status in (302, 307):
            mood = ("say", status, "{}", elsewhere)
            with CompletionsServer({}, mood=lambda *_, mood=mood: mood) as server:
                error, _ = refusal(server)
            assert error.kind == "request" and Failure(error).remedy is Remedy.MODEL
            assert other.url in str(error) and "secret" not in str(error) and "key" in str(error)
            assert "key=1" not in str(error) and len(server.bodies) == 1 and not other.bodies


def test_the_pause_that_a_server_asks_for_is_read_in_all_its_forms():
    then = datetime.now(timezone.utc) + timedelta(seconds=90)
    quota = '{"error": {"message": "pay", "type": "insufficient_quota", "code": null}}'
    for headers, pause in (
        ({"Retry-After": format_datetime(then, usegmt=True)}, 90),
        ({"Retry-After": "7"}, 7),
        ({"retry-after-ms": "1500", "Retry-After": "2"}, 1.5),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(then.timestamp()))}, 90),
        (
            {
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": then.strftime("%Y-%m-%dT%H:%M:%SZ"),
            },
            90,
        ),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "1s"}, None),
        ({"Retry-After": "soon"}, None),
    ):
        mood = ("say", 429, "{}", headers)
        with CompletionsServer({}, mood=lambda *_, mood=mood: mood) as server:
            error, _ = refusal(server)
        assert error.retry_after == (pause and pytest.approx(pause, abs=5)), headers
        assert not error.final and Failure(error).remedy is Remedy.AWAY
    with CompletionsServer({}, mood=lambda *_: ("say", 429, quota)) as server:
        error, _ = refusal(server)
    assert (
        error.final and error.code == "insufficient_quota" and Failure(error).remedy is Remedy.MODEL
    )


def test_a_request_that_cannot_have_arrived_is_known():
    nobody = SimpleNamespace(url="http://127.0.0.1:9/v1/completions")
    error, _ = refusal(nobody)
    assert (error.kind, error.sent) == ("connection", False)
    for mood, kind in ((("drop",), "connection"), (("hang", 3.0), "timeout")):
        with CompletionsServer({}, mood=lambda *_, mood=mood: mood) as server:
            error, _ = refusal(server, timeout=1)
        assert (error.kind, error.sent) == (kind, True)
    error, _ = refusal(SimpleNamespace(url="gopher://127.0.0.1:9/"))
    assert (error.kind, error.sent) == ("request", False)


def test_each_answer_carries_what_the_server_said_of_it(bench):
    def answer(text, reason, usage, **more):
        choice = {"index": 0, "text": text, "finish_reason": reason}
        body = {"id": "b", "model": "m-2", "choices": [choice], "usage": usage, **more}
        return ("say", 200, json.dumps(body), {"x-request-id": "r-7"})

    fair = {"prompt_tokens": 11, "completion_tokens": 3}
    moods = iter(
        [
            answer("one", "length", fair, system_fingerprint="fp-1"),
            answer("two", "stop", {"prompt_tokens": -5, "completion_tokens": 10**30}),
            answer("three", "stop", {"prompt_tokens": 10**30, "completion_tokens": 3}),
            answer(None, "content_filter", fair),
        ]
    )
    with CompletionsServer({}, mood=lambda *_: next(moods)) as server:
        transport = Transport(lm := make(server))
        session = open_session("texts", lm, include_path=str(bench.tasks), count_tokens=True)
        first, second, many, third = (session.administer([d])[0] for d in range(4))
        transport.close()
    [served] = first.served
    assert served.to_dict() == {
        "request_id": "r-7",
        "model": "m-2",
        "fingerprint": "fp-1",
        "finish": ["length"],
        "sent": {"max_tokens": 256, "seed": 1234, "stop": ["\n\n"], "temperature": 0.0},
    }
    assert first.tokens == Tokens(11, 3, "usage") and first.responses == ("one",)
    assert second.tokens.source == "estimate"
    assert "-5 tokens read" in second.served[0].refused_usage
    assert many.tokens.source == "estimate" and many.tokens.input < 1000
    assert f"{10**30} tokens read" in many.served[0].refused_usage
    assert third.values == {} and "filter" in third.unscored[0] and third.tokens.source == "usage"


def test_a_model_that_sends_by_itself_is_heard_too(bench):
    with CompletionsServer({}) as server:
        lm = make(server)
        session = open_session("texts", lm, include_path=str(bench.tasks), count_tokens=True)
        for _ in range(2):  # heard once, however often it is asked
            [answer] = session.administer([0])
            assert len(answer.served) == 1 and answer.tokens.source == "usage"
        transport = Transport(lm)
        [answer] = session.administer([0])
        assert len(answer.served) == 1 and answer.served[0].sent["seed"] == 1234
        both = session.administer([1, 2])
        bill = sum(one.usage.input for one in both[0].served)
        assert sum(one.tokens.input for one in both) == pytest.approx(bill)
        transport.close()


def test_what_is_in_flight_is_cancelled_at_once_and_further_requests_are_refused():
    with CompletionsServer({}, mood=lambda *_: ("hang", 5.0)) as server:
        lm = make(server, num_concurrent=2, timeout=60)
        transport = Transport(lm)
        caught = []

        def work():
            try:
                internals.send(lm, instances("generate_until", ["text"]))
            except ServerError as error:
                caught.append(error.kind)

        threads = [threading.Thread(target=work) for _ in range(4)]  # two of them wait for a slot
        [thread.start() for thread in threads]
        while sum(server.asked.values()) < 2:
            time.sleep(0.005)
        started = time.monotonic()
        transport.cancel()
        [thread.join() for thread in threads]
        assert time.monotonic() - started < 4  # not when the server answers
        assert caught == ["cancelled"] * 4
        with pytest.raises(ServerError, match="no more requests"):
            internals.send(lm, instances("generate_until", ["text"]))
        transport.close()


def test_ctrl_c_while_requests_are_handed_over_leaves_the_loop_to_the_next_caller(monkeypatch):
    arrived = threading.Event()

    async def request():
        arrived.set()

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, contextlib.closing(request()) as first:
        patch.setattr(transport_module._loop(), "call_soon_threadsafe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            transport_module.begin(first)
    transport_module.begin(request())
    assert arrived.wait(10)


def test_the_response_cache_stays_in_front(tmp_path):
    with CompletionsServer({}) as server:
        lm = make(server, num_concurrent=4)
        transport = Transport(lm)
        cached = internals.with_cache(lm, str(tmp_path / "cache.db"))
        for _ in range(2):
            [request] = instances("generate_until", ["text"])
            internals.send(cached, [request])
            assert request.resps == ["text"]
        transport.close()
        assert len(server.bodies) == 1
        [request] = instances("generate_until", ["another text"])
        internals.send(lm, [request])  # closed, the model sends as it did
        assert request.resps == ["another text"]


def test_models_with_a_loop_of_their_own_are_left_alone():
    with CompletionsServer({}) as server:
        lm = make(server)
        stock = type(lm)
        changed = type("Changed", (stock,), {"model_call": lambda self, *a, **k: None})
        lm.__class__ = changed
        assert not pooled(lm)
    assert not pooled(internals.make_lm("dummy", {}))
