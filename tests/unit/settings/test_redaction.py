import json
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.settings.redaction import Masker, StreamMasker

KEY = "sk-0123456789abcdef"
AWKWARD = 'pä55 "word"/it\'s+\\'


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"using {KEY} twice: {KEY}.", "using *** twice: ***."),
        (json.dumps({"value": AWKWARD}), '{"value": "***"}'),
        (json.dumps({"value": AWKWARD}, ensure_ascii=False), '{"value": "***"}'),
        (f"{AWKWARD!r}", "'***'"),
        (f"GET /?value={quote(AWKWARD, safe='')}&x=1", "GET /?value=***&x=1"),
    ],
)
def test_a_known_secret_is_masked_in_every_spelling(text: str, masked: str):
    assert Masker([KEY, AWKWARD]).mask_text(text) == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("'api_key': 'sekrit', 'admin_api_key': None", "'api_key': '***', 'admin_api_key': None"),
        ("ServerArgs(api_key='sekrit', tp_size=4)", "ServerArgs(api_key='***', tp_size=4)"),
        ("api_key=sekrit, tp_size=4", "api_key=***, tp_size=4"),
        (r"api_key='se\'krit', tp_size=4", "api_key='***', tp_size=4"),
        ("api_key=b'sekrit'", "api_key=b'***'"),
        (r'{"body": "{\"api_key\": \"sekrit\"}"}', r'{"body": "{\"api_key\": \"***\"}"}'),
        ("serve --api-key sekrit --port 1", "serve --api-key *** --port 1"),
        ("serve --admin-api-key=sekrit --port 1", "serve --admin-api-key=*** --port 1"),
        ("['--api-key', 'sekrit', '--port']", "['--api-key', '***', '--port']"),
        ('["--api-key","sekrit","--port"]', '["--api-key","***","--port"]'),
        ("GET /v1/models?api_key=sekrit&x=1", "GET /v1/models?api_key=***&x=1"),
        ("x-api-key: sekrit", "x-api-key: ***"),
        ("SUPERVISE_ENGINE__API_KEY=sekrit", "SUPERVISE_ENGINE__API_KEY=***"),
        ("HF_TOKEN=sekrit HOME=/root", "HF_TOKEN=*** HOME=/root"),
        ("'HF_TOKEN': 'sekrit'", "'HF_TOKEN': '***'"),
        ("AWS_SECRET_ACCESS_KEY=sekrit", "AWS_SECRET_ACCESS_KEY=***"),
        ("'ssl_keyfile_password': 'sekrit'", "'ssl_keyfile_password': '***'"),
        ("Authorization: Bearer se.kr-it", "Authorization: Bearer ***"),
        ("token hf_abcdefghijklmnopqrstuvwxyz012345 was refused", "token hf_*** was refused"),
    ],
)
def test_an_unknown_secret_is_masked_by_what_stands_around_it(text: str, masked: str):
    assert Masker().mask_text(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "'api_key': None, 'tp_size': 4",
        '{"api_key": null}',
        "'api_key': ''",
        "api_key_file=/run/secrets/key",
        "sglang serve: error: argument --api-key: expected one argument",
        "HF_TOKEN is not set",
        "MAX_TOKENS=5, max_total_num_tokens=8192",
        "hf_config and hf_hub_download are names",
        "'api_key':\n[2026-12-01 05:02:04] the next line",
    ],
)
def test_a_text_without_a_secret_stays_as_it_is(text: str):
    assert Masker([KEY]).mask_text(text) == text


def test_empty_and_very_short_secrets_do_not_eat_the_text():
    assert Masker(["", "1", "abc"]).mask_text("1 abc 111") == "1 abc 111"


def test_a_very_short_secret_is_still_masked_by_its_shape():
    assert Masker(["abc"]).mask_text("api_key='abc' abc") == "api_key='***' abc"


def test_a_secret_of_four_characters_is_masked_by_its_value():
    assert Masker(["abcd"]).mask_text("abcd") == "***"


def test_a_secret_that_holds_another_one_is_masked_as_a_whole():
    assert Masker(["secret", "secret-longer"]).mask_text("secret-longer secret") == "*** ***"


def test_a_secret_of_several_lines_is_masked_line_by_line():
    assert Masker(["first line\r\nsecond line\n"]).mask_text("first line\nsecond line\n") == "***\n***\n"


def test_a_value_is_masked_at_every_depth_by_value_and_by_name():
    value = {"api_key": "x", "list": [f"a {KEY}", 1, None], KEY: {"HF_TOKEN": "y"}, "api_key_file": "/f", "token": None}

    assert Masker([KEY]).mask_value(value) == {
        "api_key": "***",
        "list": ["a ***", 1, None],
        "***": {"HF_TOKEN": "***"},
        "api_key_file": "/f",
        "token": None,
    }


@given(st.text(), st.lists(st.text()))
def test_any_text_and_any_secrets_can_be_masked(text: str, secrets: list[str]):
    masked = Masker(secrets).mask_text(text)

    assert not any(secret in masked for secret in secrets if len(secret) >= 4 and secret in text and secret.isalnum())


@given(st.binary())
def test_any_bytes_can_be_masked(data: bytes):
    Masker([KEY]).mask_bytes(data)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    borders = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(borders)]


TEXTS = st.lists(
    st.sampled_from(
        [
            KEY,
            "\n",
            "\r",
            "\r\n",
            " ",
            "api_key='",
            "'",
            "--api-key ",
            "Bearer ",
            "hf_",
            "x" * 40,
            "\u20ac",
            "[",
            "line",
        ]
    ),
    max_size=30,
).map("".join)


@given(TEXTS, st.lists(st.integers(0, 2000)))
def test_where_a_stream_is_cut_does_not_change_what_comes_out(text: str, cuts: list[int]):
    data = text.encode()
    whole, cut = StreamMasker(Masker([KEY])), StreamMasker(Masker([KEY]))
    expected = whole.feed(data) + whole.flush()

    assert b"".join(cut.feed(piece) for piece in pieces(data, cuts)) + cut.flush() == expected
    assert KEY.encode() not in expected


def test_only_complete_lines_are_passed_on():
    stream = StreamMasker(Masker())

    assert stream.feed(b"one\ntw") == b"one\n"
    assert stream.feed(b"o\rthr") == b"two\r"
    assert stream.feed(b"ee") == b""
    assert stream.flush() == b"three\n"
    assert stream.flush() == b""


def test_a_carriage_return_at_the_border_waits_for_its_newline():
    stream = StreamMasker(Masker())

    assert stream.feed(b"one\r") == b""
    assert stream.feed(b"\ntwo") == b"one\r\n"


def test_an_unfinished_line_is_shown_without_the_beginning_of_a_secret():
    stream = StreamMasker(Masker([KEY]))
    stream.feed(b"10% of sk-0123")

    assert stream.has_pending
    assert stream.peek() == b"10% of "
    assert stream.feed(b"456789abcdef\n") == b"10% of ***\n"
    assert not stream.has_pending


@pytest.mark.parametrize("offset", range(-80, 80, 5))
@pytest.mark.parametrize("secret", [KEY, "api_key='sekrit-value'", "hf_abcdefghijklmnopqrstuvwxyz012345"])
def test_a_secret_on_the_border_of_an_endless_line_is_masked(secret: str, offset: int):
    limit = 4096
    line = b"." * (limit + offset) + secret.encode() + b"," * limit + b"\nnext\n"
    stream = StreamMasker(Masker([KEY]), line_limit_bytes=limit)

    out = b"".join(stream.feed(line[start : start + 64]) for start in range(0, len(line), 64))

    first, *continued, last = out.splitlines()
    assert first.startswith(b".")
    assert continued
    assert all(part.startswith(StreamMasker.CONTINUED) for part in continued)
    assert last == b"next"
    for leak in (b"0123456789abcdef", b"sekrit", b"value", b"012345"):
        assert leak not in out
    assert out.count(b",") == limit
    assert out.count(b".") == limit + offset


def test_an_endless_line_does_not_grow_in_memory():
    stream = StreamMasker(Masker(), line_limit_bytes=4096)

    out = [stream.feed(b"x" * 1000) for _ in range(100)]

    assert len(stream.peek()) <= 5096
    assert sum(part.count(b"x") for part in out) + stream.peek().count(b"x") == 100_000


def test_a_masker_that_learns_more_secrets_keeps_those_that_it_knew():
    known = Masker(["first-secret"])
    more = known.also(["second-secret"])
    assert more.mask_text("first-secret second-secret") == "*** ***"
    assert known.mask_text("first-secret second-secret") == "*** second-secret"
