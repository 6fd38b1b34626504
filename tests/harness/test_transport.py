"""API models through one loop and one pool: the same bodies, errors in words, cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import queue
import shutil
import socketserver
import threading
import time
import urllib.request
import weakref
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from itertools import chain, repeat
from types import SimpleNamespace

import certifi
import pytest
from worlds.server import CompletionsServer, untrusted_server

from lm_eval_ccat.harness import internals, open_session
from lm_eval_ccat.harness import transport as transport_module
from lm_eval_ccat.harness.served import Served
from lm_eval_ccat.harness.transport import (
    ServerAnswer,
    ServerError,
    Transport,
    begin,
    uses_template_api,
)
from lm_eval_ccat.live.failures import Failure, Remedy
from lm_eval_ccat.money import Tokens

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


@contextlib.contextmanager
def connected(*mood, moods=None, latency=0.0, **arguments):
    """A server that is in one mood (or in several, one after the other), and a model with its own
    connections to it."""
    said = iter(moods or repeat(mood))
    mooded = {"mood": lambda *_: next(said)} if mood or moods else {}
    with CompletionsServer({}, latency=latency, **mooded) as server:
        lm = make(server, **arguments)
        transport = Transport(lm)
        yield server, lm, transport
        transport.close()


def ask(lm, text="text"):
    [request] = instances("generate_until", [text])
    internals.send(lm, [request])
    return request.resps


def instances(kind, texts):
    make_one = internals.resolve("lm_eval.api.instance:Instance")
    arguments = [
        (text, SETTINGS[i % 2]) if kind == "generate_until" else (text, f" w{i} w{i + 1}")
        for i, text in enumerate(texts)
    ]
    return [
        make_one(
            request_type=kind,
            doc={},
            arguments=a,
            idx=0,
            task_name="task",
            doc_id=i,
            metadata=("task", i, 1),
        )
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
            lm, requests = make(server, **arguments), instances(kind, texts)
            assert uses_template_api(lm)
            with contextlib.closing(Transport(lm)) if ours else contextlib.nullcontext():
                internals.send(lm, requests)
            found.append((sent(server), [request.resps for request in requests]))
    assert found[0] == found[1]


def test_connections_are_made_once_and_shared_by_threads():
    with (
        connected(latency=0.01, num_concurrent=3) as (server, lm, _),
        ThreadPoolExecutor(6) as pool,
    ):
        texts = [f"text {i}" for i in range(48)]
        assert list(pool.map(partial(ask, lm), texts)) == [[text] for text in texts]
        assert server.connections <= 3 and server.most_at_once["m"] <= 3


@pytest.mark.long
@pytest.mark.parametrize("seconds", [0.0, 0.01])
def test_a_server_that_closes_connections_without_a_word_gets_one_for_each_request(
    monkeypatch, seconds
):
    """Only what was under way when it was noticed may have been paid in vain, and says so."""

    def tried(lm, text):
        try:
            return ask(lm, text)
        except ServerError as error:
            assert (error.kind, error.sent) == ("connection", True)
            return None

    with connected(num_concurrent=4) as (server, lm, _), ThreadPoolExecutor(4) as pool:
        reply = server._reply

        def last_reply(handler, *args, **how):
            reply(handler, *args, **how)
            time.sleep(seconds)  # the next request may be under way by then
            handler.close_connection = True

        monkeypatch.setattr(server, "_reply", last_reply)
        texts = [f"text {i}" for i in range(48)]
        replies = dict(zip(texts, pool.map(partial(tried, lm), texts)))
        lost = [text for text, reply in replies.items() if reply is None]
        assert len(lost) <= 2 * 4
        assert all(replies[text] == [text] for text in texts if text not in lost)
        assert [ask(lm, text) for text in lost] == [[text] for text in lost]
        assert server.connections == sum(server.asked.values()) == 48


def test_a_new_connection_that_is_dropped_says_nothing_of_those_that_last():
    with connected(moods=chain([("drop",)], repeat(None))) as (server, lm, _):
        with pytest.raises(ServerError):
            ask(lm, "first")
        assert [ask(lm, text) for text in "abcde"] == [[text] for text in "abcde"]
        assert server.connections == 2


def test_a_connection_that_ends_while_a_transport_is_closed_is_an_error_of_the_server():
    with connected() as (server, lm, transport):
        ask(lm)

        def close_and_drop(*_):
            transport._session, transport._cancelled = None, True
            return ("drop",)

        server.mood = close_and_drop
        with pytest.raises(ServerError) as error:
            ask(lm)
        assert error.value.kind in ("connection", "cancelled")


def refusal(*mood, **arguments):
    """The error of one request to a server in a mood."""
    with connected(*mood, **arguments) as (_, lm, _), pytest.raises(ServerError) as caught:
        ask(lm)
    return caught.value


PAGE = (
    "<!DOCTYPE HTML>\n<html><head><title>Not here</title></head><body><p>%s</p></body></html>"
    % ("Nothing matches the given URI. " * 20)
)
PAY = '{"error": {"message": "pay", "type": "insufficient_quota", "code": %s}}'


@pytest.mark.parametrize(
    "mood, kind, status, words, remedy",
    [
        (
            ("say", 400, '{"error": {"message": "long by 7"}}'),
            "status",
            400,
            "long by 7",
            "DOCUMENT",
        ),
        (("say", 404, '{"detail": "no such model"}'), "status", 404, "no such model", "MODEL"),
        (("say", 502, "<html>bad\n gateway</html>"), "status", 502, "bad gateway", "AWAY"),
        (("say", 404, PAGE), "status", 404, "Not here", "MODEL"),
        (("say", 429, PAY % "null"), "status", 429, "pay", "MODEL"),
        (("say", 429, PAY % '"payment_required"'), "status", 429, "pay", "MODEL"),
        (("say", 200, '{"error": {"message": "spent", "code": 429}}'), "answer", 429, "spent", ""),
        (("say", 200, '{"choices": []}'), "answer", None, '{"choices": []}', ""),
        (("say", 200, '{"choices": [{"index": 0}]}'), "answer", None, "index", ""),
        (("garbage",), "answer", None, '{"choices": [{"index"', ""),
        (("drop",), "connection", None, "", "AWAY"),
        (("cut",), "connection", None, "", "AWAY"),
        (("say", 200, "nope", {"Content-Encoding": "gzip"}), "connection", None, "", "AWAY"),
        (("hang", 3.0), "timeout", None, "", ""),
    ],
)
def test_the_servers_own_words_come_with_the_error(mood, kind, status, words, remedy):
    error = refusal(*mood, timeout=1)
    assert (error.kind, error.status, error.sent) == (kind, status, True)
    assert words in error.words and words in str(error)
    assert not remedy or Failure(error).remedy is Remedy[remedy]
    assert error.final == (words == "pay")


def test_an_address_of_a_web_page_is_named_in_a_line():
    error = refusal("say", 404, PAGE)
    assert str(error) == "HTTP 404: Not here; base_url leads to a web page, not to an API"


@contextlib.contextmanager
def speaks(*raw):
    """The address of a server that says some bytes to each connection."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(65536)
            with contextlib.suppress(OSError):
                for piece in raw:
                    self.request.sendall(piece)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/completions"
        server.shutdown()


def test_what_is_no_http_is_a_broken_connection():
    with speaks(b"SSH-2.0-OpenSSH_9.2\r\n") as url:
        error = refusal(base_url=url)
    assert (error.kind, error.status, error.sent) == ("connection", None, True)
    assert Failure(error).remedy is Remedy.AWAY  # the server's trouble, not the document's


def test_an_answer_without_an_end_is_not_read_to_its_end(monkeypatch):
    monkeypatch.setattr(transport_module, "LARGEST_BODY", 1 << 20)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n"
    with speaks(head, *[b"x" * 65536] * 2000) as url:
        error = refusal(base_url=url, timeout=60)
    assert error.kind == "answer" and "larger than 1 MiB" in str(error)


@pytest.mark.parametrize("status", [302, 307])
def test_a_request_is_not_passed_on_to_another_address(status):
    with CompletionsServer({}) as other:
        elsewhere = {"Location": other.url.replace("//", "//me:secret@") + "?key=1"}
        error = refusal("say", status, "{}", elsewhere)
        assert error.kind == "request" and Failure(error).remedy is Remedy.MODEL
        assert other.url in str(error) and not other.bodies
        assert "secret" not in str(error) and "key=1" not in str(error)


@pytest.mark.parametrize(
    "headers",
    [
        lambda date: {"Retry-After": format_datetime(date, usegmt=True)},
        lambda date: {"Retry-After": "3600"},
        lambda date: {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{date.timestamp():.0f}"},
        lambda date: {
            "a-ratelimit-remaining": "0",
            "a-ratelimit-reset": f"{date:%Y-%m-%dT%H:%M:%SZ}",
        },
    ],
    ids=["date", "seconds", "epoch", "timestamp"],
)
def test_the_pause_that_a_server_asks_for_is_read_in_all_its_forms(headers):
    error = refusal("say", 429, "{}", headers(datetime.now(UTC) + timedelta(seconds=3600)))
    assert error.retry_after == pytest.approx(3600, abs=300)
    assert not error.final and Failure(error).remedy is Remedy.AWAY


@pytest.mark.parametrize("url, kind", [
    ("http://127.0.0.1:9/v1/completions", "connection"), ("gopher://127.0.0.1:9/", "request")
])  # fmt: skip
def test_a_request_that_cannot_have_arrived_is_known(url, kind):
    error = refusal(base_url=url)
    assert (error.kind, error.sent) == (kind, False)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
@pytest.mark.parametrize(
    ("settings", "trusted"),
    [
        ({}, False),
        ({"ca_cert_path": "certificate.pem"}, True),
        ({"verify_certificate": False}, True),
        ({"ca_cert_path": certifi.where()}, False),
        ({"verify_certificate": False, "ca_cert_path": certifi.where()}, True),
    ],
)
def test_requests_go_to_a_server_whose_certificate_a_model_trusts(
    settings, trusted, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    # That server ends each connection once the two have met.
    with untrusted_server(tmp_path) as url:
        assert refusal(base_url=url, **settings).sent is trusted


def test_each_answer_carries_what_the_server_said_of_it(bench):
    def answer(text, reason, usage, **more):
        choice = {"index": 0, "text": text, "finish_reason": reason}
        body = {"id": "b", "model": "m-2", "choices": [choice], "usage": usage, **more}
        return ("say", 200, json.dumps(body), {"x-request-id": "r-7"})

    fair = {"prompt_tokens": 11, "completion_tokens": 3}
    moods = [
        answer("one", "length", fair, system_fingerprint="fp-1"),
        answer("two", "stop", {"prompt_tokens": -5, "completion_tokens": 10**30}),
        answer("three", "stop", {"prompt_tokens": 10**30, "completion_tokens": 3}),
        answer(None, "content_filter", fair),
        answer("five", "stop", fair),
        answer("six", "stop", None),
    ]
    with connected(moods=moods) as (_, lm, _):
        session = open_session("texts", lm, include_path=str(bench.tasks), count_tokens=True)
        first, second, many, third = (session.administer([d])[0] for d in range(4))
        part = session.administer([4, 5])  # the server bills one of its two requests
    [served] = first.served
    assert served.to_dict() == {
        "request_id": "r-7",
        "model": "m-2",
        "fingerprint": "fp-1",
        "finish": ["length"],
        "sent": {"max_tokens": 256, "seed": 1234, "stop": ["\n\n"], "temperature": 0.0},
    }
    assert first.tokens == Tokens(11, 3, "usage") and first.responses == ("one",)
    assert [one.tokens.source for one in part] == ["estimate"] * 2
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
        assert ask(lm, "closed, the model sends as it did") == ["closed, the model sends as it did"]


@pytest.mark.parametrize("task", ["texts", "choices"])
def test_the_loop_sends_what_threads_send(task, bench, tokenizer):
    words = {"tokenizer_backend": "huggingface", "tokenizer": tokenizer, "max_length": 200}
    with connected(num_concurrent=4, **words) as (server, lm, transport):
        session = open_session(task, lm, include_path=str(bench.tasks), count_tokens=True)
        assert session.sends_texts
        asked = session.administer([3, 1])
        bodies = [sent(server)]
        server.bodies.clear()
        came = queue.SimpleQueue()
        begin(session.ask_server([3, 1], transport, came.put))
        found = came.get(timeout=10)()
    assert sent(server) == bodies[0]
    for a, b in zip(asked, found, strict=True):
        assert (a.doc_id, a.values, a.samples, a.responses) == (
            b.doc_id,
            b.values,
            b.samples,
            b.responses,
        )
        assert a.tokens == b.tokens and len(a.served) == len(b.served)


def test_what_is_in_flight_is_cancelled_at_once_and_further_requests_are_refused():
    def kind(_):
        with pytest.raises(ServerError) as caught:
            ask(lm)
        return caught.value.kind

    hanging = connected("hang", 5.0, num_concurrent=2, timeout=60)
    with hanging as (server, lm, transport), ThreadPoolExecutor(4) as pool:
        kinds = pool.map(kind, range(4))  # two of them wait for a slot
        while sum(server.asked.values()) < 2:
            time.sleep(0.005)
        started = time.monotonic()
        transport.cancel()
        assert list(kinds) == ["cancelled"] * 4
        assert time.monotonic() - started < 4  # not when the server answers
        with pytest.raises(ServerError, match="no more requests"):
            ask(lm)


def test_a_stuck_request_is_replaced_by_one_more():
    hanging = connected("hang", 5.0, num_concurrent=1, timeout=60)
    with hanging as (server, lm, transport), ThreadPoolExecutor(3) as pool:
        stuck = [pool.submit(ask, lm) for _ in range(3)]
        for n in 1, 2:
            ends = time.monotonic() + 5
            while sum(server.asked.values()) < n and time.monotonic() < ends:
                time.sleep(0.005)
            assert sum(server.asked.values()) == n
            transport.widen()
        transport.cancel()
        assert all(isinstance(request.exception(), ServerError) for request in stuck)


@pytest.mark.long
def test_the_time_to_answer_is_counted_from_when_a_request_goes_out(monkeypatch):
    """A process that is busy for longer before that, as with many models, is not the server."""
    aiohttp = pytest.importorskip("aiohttp")
    connect = aiohttp.TCPConnector.connect

    async def connect_late(self, *args, **options):
        await asyncio.sleep(1.3)
        return await connect(self, *args, **options)

    with connected("hang", 3.0, timeout=1) as (_, lm, _):
        with pytest.raises(ServerError, match="no answer within 1 s"):
            ask(lm)
    monkeypatch.setattr(aiohttp.TCPConnector, "connect", connect_late, raising=False)
    with connected(timeout=1) as (server, lm, _):
        assert ask(lm)
        assert sum(server.asked.values()) == 1
    monkeypatch.setattr(transport_module, "CONNECTING", 1.0)
    with connected(timeout=1) as (server, lm, _):
        with pytest.raises(ServerError, match="no connection within 1 s") as refused:
            ask(lm)
        assert refused.value.kind == "timeout" and not refused.value.sent and not server.asked


@pytest.mark.long
def test_a_few_turns_of_a_busy_loop_do_not_take_the_time_of_a_request():
    """What has come meanwhile is read at the next turns."""

    async def wait(seconds, turns, busy):
        progress = transport_module.RequestProgress(seconds)
        async with progress.limit:
            progress.goes_out(reused=False)
            for _ in range(turns):
                time.sleep(busy)
                await asyncio.sleep(0)
        progress.ends()

    asyncio.run(wait(0.1, turns=4, busy=0.2))
    with pytest.raises(TimeoutError):
        asyncio.run(wait(0.1, turns=400, busy=0.001))


def test_a_request_leaves_nothing_to_the_garbage_collector(monkeypatch):
    """It goes through all that is in flight. A connection keeps what it was made for."""
    made, progress_type = [], transport_module.RequestProgress

    def progress_of(seconds):
        progress = progress_type(seconds)
        made.append(weakref.ref(progress))
        return progress

    with connected() as (_, lm, _), monkeypatch.context() as patch:
        patch.setattr(transport_module, "RequestProgress", progress_of)
        gc.disable()
        try:
            for _ in range(3):
                ask(lm)
            ends = time.monotonic() + 5
            while any(progress() for progress in made[1:]) and time.monotonic() < ends:
                time.sleep(0.005)
            assert len(made) == 3 and not any(progress() for progress in made[1:])
        finally:
            gc.enable()


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


def test_after_a_call_that_failed_nobody_waits_for_the_others():
    """Else a server goes on with requests whose document is lost, and bills them."""
    answered, ended = Served.of({"id": "r1"}), []

    async def send(call):
        if call == "answered":
            return ServerAnswer("text", answered)
        if call == "refused":
            await asyncio.sleep(0)  # the first answer is there
            raise ServerError("status", "no", status=400)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append(call)
            raise

    async def together():
        with pytest.raises(ServerError) as caught:
            await Transport.send_all(SimpleNamespace(send=send), ["answered", "refused", "slow"])
        await asyncio.sleep(0)
        assert ended == ["slow"] and caught.value.served == (answered,)

    asyncio.run(together())


def test_fewer_answers_than_prompts_are_refused():
    said = ("say", 200, '{"choices": [{"index": 0, "text": "one"}]}')
    with connected(*said, batch_size=2) as (_, lm, _):
        with pytest.raises(ServerError, match="the server answered 1 of 2 prompts"):
            internals.send(lm, instances("generate_until", ["a", "b", "c"])[::2])


def test_models_with_a_loop_of_their_own_are_left_alone():
    with CompletionsServer({}) as server:
        lm = make(server)
        stock = type(lm)
        changed = type("Changed", (stock,), {"model_call": lambda self, *a, **k: None})
        lm.__class__ = changed
        assert not uses_template_api(lm)
    assert not uses_template_api(internals.make_lm("dummy", {}))


@pytest.mark.parametrize("bypassed", [False, True])
def test_a_server_is_asked_through_a_proxy_unless_that_is_to_be_bypassed(monkeypatch, bypassed):
    hosts = []
    monkeypatch.setattr(urllib.request, "proxy_bypass", lambda host: hosts.append(host) or bypassed)
    monkeypatch.setattr(urllib.request, "getproxies", lambda: {"http": "http://proxy:3128"})
    transport = object.__new__(Transport)
    transport._lm = SimpleNamespace(base_url="http://far.example:8000/v1")
    transport._limit, transport._connect = 2, lambda force_close: None
    transport._open()
    assert hosts == ["far.example"]
    assert transport._proxy == (None if bypassed else "http://proxy:3128")


def test_a_server_limits_the_rate_of_a_host_and_a_key():
    """Not of a path or a model; a password in the address is a key, too."""

    def account(url, **header):
        transport = object.__new__(Transport)
        transport._lm = SimpleNamespace(base_url=url, header=header)
        return transport.account

    here, key = "http://host:8000/v1/completions", {"Authorization": "Bearer a"}
    assert account(here, **key) == account("http://host:8000/v1/chat/completions", **key)
    others = (account(here, Authorization="Bearer b"), account("http://host:9000/v1", **key))
    assert len({account(here, **key), account("http://me:b@host:8000/v1", **key), *others}) == 4
