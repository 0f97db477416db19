"""Secrets go, everything else stays as it is."""

from __future__ import annotations

import base64
import json
import urllib.parse

import pytest

from agentrewind.core.redact import Redactor

# Made up; the halves are joined here so that no scanner takes this file for a leak.
OPENAI = "sk-" + "proj-Zx81kQmvTTb2_9aLq7RtYw3uE5oPsDfGhJkLzXcVbNm"
ANTHROPIC = "sk-" + "ant-api03-hG7yTq_2kLmN8vBx-R4eWz1QpAoSdFgHjKlZxCvBnM0987654321AA"
GITHUB = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
FINE_GRAINED = "github_pat_" + "11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTuVwXyZ0123456789abcdefghij"
AWS_ID = "AKIA" + "Z7QX3LMNB4TRWV2K"
AWS_SECRET = "wJ4lrXUtnF3MI/K7MDENG+bPxRfiCYzq8Lp0Ab9V"
GOOGLE = "AIza" + "SyD-9tRk4Lm2Qx8Vb6Nc1Zp5Wj7Hs3Fg0Ya"
SLACK = "xoxb-" + "123456789012-abcdefGHIJKL0987"
JWT = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PEM_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\nMzEfYyjiWA4R4/M2bS1GB4t7NXp98C3S\n"
PEM = "-----BEGIN RSA PRIVATE KEY-----\n" + PEM_BODY + "-----END RSA PRIVATE KEY-----"
PASSWORD = "correct7horse"

SECRETS = [
    (OPENAI, OPENAI, "api-key"),
    (f"key {ANTHROPIC}.", ANTHROPIC, "api-key"),
    (f"remote: {GITHUB}\n", GITHUB, "github-token"),
    (f"({FINE_GRAINED})", FINE_GRAINED, "github-token"),
    (f"aws_access_key_id = {AWS_ID}", AWS_ID, "aws-key-id"),
    (f"aws_secret_access_key = {AWS_SECRET}\nregion = x", AWS_SECRET, "api-key"),
    (f"https://maps.example/api?key={GOOGLE}&q=1", GOOGLE, "google-key"),
    (f"'{SLACK}'", SLACK, "slack-token"),
    (f"cat id_rsa\n{PEM}\n$", PEM_BODY.strip(), "private-key"),
    (PEM.replace("\n", "\\n"), PEM_BODY.strip().replace("\n", "\\n"), "private-key"),
    (f"-----BEGIN PRIVATE KEY-----\n{PEM_BODY}", PEM_BODY.strip(), "private-key"),
    (f"cookie {JWT};", JWT, "jwt"),
    ("Authorization: Bearer abcDEF123456", "abcDEF123456", "authorization"),
    ('curl -H "authorization: Basic dXNlcjpwYXNzd29yZA=="', "dXNlcjpwYXNzd29yZA==", "authorization"),
    ('{"Authorization": "token 0123456789abcdef"}', "0123456789abcdef", "authorization"),
    ("Bearer AbCdEf0123456789AbCdEf", "AbCdEf0123456789AbCdEf", "authorization"),
    ("postgres://app:s3cr3t@db.internal:5432/app", "s3cr3t", "password"),
    ("git clone https://me:tr0ub4dor@git.example/x.git", "tr0ub4dor", "password"),
    (f"export DB_PASSWORD={PASSWORD}", PASSWORD, "password"),
    ("DB_PASSWORD=onlyletters", "onlyletters", "password"),
    (f'MY_API_KEY="{PASSWORD}"', PASSWORD, "api-key"),
    ("STRIPE_KEY=whk9f3j2k1l0aQ77z", "whk9f3j2k1l0aQ77z", "key"),
    (f"token: {PASSWORD}", PASSWORD, "token"),
    (f'{{"client_secret": "{PASSWORD}"}}', PASSWORD, "secret"),
    (f'{{\\"apiKey\\": \\"{PASSWORD}\\"}}', PASSWORD, "api-key"),
    (f"host=db password={PASSWORD} user=me", PASSWORD, "password"),
    ("https://x.example/cb?access_token=9f8e7d6c5b4a&next=1", "9f8e7d6c5b4a", "token"),
    (f'password: str = "{PASSWORD}"', PASSWORD, "password"),
    (f"--api-key={PASSWORD}", PASSWORD, "api-key"),
    (f"'secret' => '{PASSWORD}'", PASSWORD, "secret"),
]

ORDINARY = [
    "",
    "The quick brown fox jumps over the lazy dog.",
    "9fceb02d0ae598e95dc970b74767f19372d61af8",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8 (HEAD -> main)",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  dist/x.whl",
    "550e8400-e29b-41d4-a716-446655440000",
    "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 40).decode(),
    "AKIAAKIAAKIA" + base64.b64encode(b"AKIA" * 60).decode(),
    'client = OpenAI(api_key=os.environ["OPENAI_API_KEY"])',
    'api_key = os.getenv("API_KEY")',
    "API_KEY=$OPENAI_API_KEY python run.py",
    "API_KEY=${OPENAI_API_KEY:-none}",
    'TOKEN="$(cat token.txt)"',
    "export API_KEY=<your key here>",
    "API_KEY=your-api-key-here",
    'API_KEY="xxxxxxxxxxxxxxxx"',
    "PASSWORD=changeme",
    "OPENAI_API_KEY=sk-...",
    "DB_PASSWORD=********",
    "max_tokens: 12345678, prompt_tokens=1234567890",
    "token_count = 123456789",
    '{"max_tokens": 4096, "total_tokens": 12345678}',
    "def login(user: str, password: str) -> Token:",
    "password = get_password(user1)",
    "self.token = self._next_token1",
    "token = settings.token_v2",
    "login(user=user1, password=password_2)",
    'const token: bytes32 = keccak256("x");',
    "sort_key = lambda item: item.name",
    'PRIMARY_KEY = "user_id_2024_primary"',
    'key: deps-${{ hashFiles("poetry.lock") }}',
    "page_token=CAoQ1234567890abc",
    'tokenizer_config = {"eos_token": "<|endoftext|>", "pad_token": "[PAD]"}',
    'if "-----BEGIN PRIVATE KEY-----" in text:\n    raise ValueError("a private key was pasted into the settings")',
    "Authorization: Bearer $TOKEN",
    'headers = {"Authorization": f"Bearer {token}"}',
    "authorization = base64.decodebytes(header)",
    "Authorization: Basic authentication is what the old server used.",
    "the bearer authentication-scheme-is-described-there",
    "http://localhost:8080/path?x=1",
    "ssh://git@github.com:22/org/repo.git",
    "docker://alpine:3.19@sha256:9f86d081884c7d659a2feaa0c55ad015",
    "postgres://user:password@localhost/db",
    "https://$USER:$PASS@host/",
    "me@example.com: the secret of good bread is time",
    '<input type="password" name="password" placeholder="password">',
    "class='sk-toggleable__control sk-estimator-doc-link-2'",
    "task-1234567890abcdef1234567890 and risk-assessment-20240101-document",
    "monkey = 'bananas-123456'",
    "İstanbul'da token yok; secret",
    "assert token == 'abcdefgh1'",
    "passwords are hashed with bcrypt; secrets live in the vault",
    '{"key": "value-1234567890"}',
]


@pytest.mark.parametrize(("text", "secret", "kind"), SECRETS)
def test_a_secret_is_replaced_by_its_kind(text, secret, kind):
    clean = Redactor()(text)
    assert clean == text.replace(secret, f"[redacted {kind}]") or (kind == "private-key" and secret not in clean)
    assert f"[redacted {kind}]" in clean


@pytest.mark.parametrize("text", ORDINARY)
def test_text_without_a_secret_is_unchanged(text):
    assert Redactor()(text) is text


@pytest.mark.parametrize("text", [text for text, _, _ in SECRETS] + ORDINARY)
def test_a_second_time_changes_nothing(text):
    once = Redactor(["hunter2hunter2"])(text + " hunter2hunter2")
    assert Redactor(["hunter2hunter2"])(once) == once


@pytest.mark.parametrize("text", [text for text, _, _ in SECRETS])
def test_a_secret_is_found_in_a_longer_text_and_in_json_in_text(text):
    kind = f"[redacted {next(kind for whole, _, kind in SECRETS if whole == text)}]"
    assert kind in Redactor()(f"out:\n{text}\nend")
    assert kind in Redactor()(json.dumps({"stdout": text}))


def test_known_values_go_whatever_they_look_like():
    clean = Redactor(["blue giraffe", "short", 'a"quoted\none'])
    assert clean("my blue giraffe") == "my [redacted secret]"
    assert clean("short") == "short"
    assert clean(json.dumps('a"quoted\none')) == '"[redacted secret]"'


def test_the_longest_known_value_goes_first():
    assert Redactor(["abcdefgh", "abcdefghij"])("abcdefghij") == "[redacted secret]"


def test_a_known_value_that_stands_in_a_mark_does_not_loop():
    assert Redactor(["redacted"])(f"x {GITHUB}") == "x [redacted github-token]"


@pytest.mark.parametrize(
    ("value", "clean"),
    [
        ({"Authorization": "Bearer abc"}, {"Authorization": "[redacted authorization]"}),
        ({"x-api-key": "k1"}, {"x-api-key": "[redacted api-key]"}),
        ({"apiKey": "abc"}, {"apiKey": "[redacted api-key]"}),
        ({"headers": [{"api_key": ["one", "two"]}]}, {"headers": [{"api_key": ["[redacted api-key]"] * 2}]}),
        ({"password": "correct horse battery"}, {"password": "[redacted password]"}),
        ({"token": "abcdefghijkl"}, {"token": "[redacted token]"}),
        ({"refreshToken": "abcdefghijkl"}, {"refreshToken": "[redacted token]"}),
        ({"Set-Cookie": "sid=1; Path=/"}, {"Set-Cookie": "[redacted authorization]"}),
        ({GITHUB: 1}, {"[redacted github-token]": 1}),
    ],
)
def test_values_under_a_secret_name_go_as_a_whole(value, clean):
    assert Redactor()(value) == clean
    assert Redactor()(clean) == clean


@pytest.mark.parametrize(
    "value",
    [
        {"max_tokens": 4096, "prompt_tokens": 12, "token_count": "12345678", "usage": {"total_tokens": 1}},
        {"password": 12345678, "token": None, "secret": True, "api_key": 1.5},
        {"token": " the", "logprob": -0.5, "bytes": [32]},
        {"token": "tokenization", "logprob": -0.5},
        {"type": "object", "properties": {"password": {"type": "string"}}, "required": ["password", "username1"]},
        {"api_key": "$OPENAI_API_KEY", "password": "<password>", "token": "your-token"},
        {"next_page_token": "CAoQ1234567890abc", "eos_token": "endoftext99"},
        {"key": "abcdefgh12345678", "cache_key": "abcdefgh12345678", "STRIPE_KEY": "see the vault"},
        {1: "a", None: "b"},
        [1, 2.5, None, True, "x"],
    ],
)
def test_other_values_stay(value):
    assert Redactor()(value) == value


def test_two_secrets_as_keys_stay_two_keys():
    clean = Redactor()({GITHUB: 1, GITHUB[:-1] + "9": 2, "plain": 3})
    assert sorted(clean.values()) == [1, 2, 3]
    assert Redactor()(clean) == clean


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN PRIVATE KEY-----" * 4000,
        "-----BEGIN PRIVATE KEY-----" + "A " * 100_000,
        "token=" * 20_000,
        "sk-" * 50_000,
        "://a:" * 30_000,
        "authorization: " * 10_000,
        "bearer " + "a" * 200_000,
        "eyJ" + "a" * 100_000 + ".eyJ" * 20_000,
        "password" + " " * 100_000 + "=",
    ],
)
@pytest.mark.timeout(300)
def test_no_text_makes_it_slow(text):
    """A pattern that goes back over what it read takes hours for these, and the time-out ends it."""
    clean = Redactor()(text)
    assert Redactor()(clean) == clean


STRIPE = "sk_live_" + "a7oeIhdKOT64yoHc1KT30rxX"


@pytest.mark.parametrize(
    "front", ["\\n", "\\\\n", "%0A", "%22", "\x1b[K", "\x1b[1m", "\x1b[01;31m\x1b[K", "\x1b[31m", "=", "("]
)
@pytest.mark.parametrize("secret", [STRIPE, GITHUB, JWT])
def test_an_escape_in_front_of_a_secret_does_not_hide_it(front, secret):
    assert secret not in Redactor()(f"x{front}{secret} y")


@pytest.mark.parametrize(
    "text",
    [
        "pypi-" + "AgEIcHlwaS5vcmcCJDAxMjM0NTY3LTg5YWItY2RlZg" + "x" * 20,
        "https://hooks.slack.com/services/" + "T0A1B2C3D/B0A1B2C3D/a7KrLdLtuPGvbYZNPWkVxp12",
        "SG." + "a7KrLdLtuPGvbYZNPWkVxp.a78iUECOHHRL81oss3MPOXcI4csIYHLd1lq",
        "SK" + "0123456789abcdef0123456789abcdef",
        "AccountKey=" + AWS_SECRET + "==",
        "?sv=2024&sig=" + "a7KrLdLtuPGvbYZNPWkVxpa78iUECOHHRL81oss3MPO%3D",
        "machine h login me password " + PASSWORD,
        "gsk_" + "a7oeIhdKOT64yoHc1KT30rxXa7oeIhdK",
    ],
)
def test_tokens_of_more_services_go(text):
    clean = Redactor()(text)
    assert text[-12:] not in clean
    assert "[redacted " in clean
    assert Redactor()(clean) == clean


@pytest.mark.parametrize("before", ["", "a", "ab", "user:"])
def test_a_known_value_goes_in_every_form_in_which_programs_write_it(before):
    value = 'with "quotes", spaces & a 7'
    data = (before + value + "zz").encode()
    for text in (
        json.dumps(json.dumps({"a": value})),
        urllib.parse.quote(value),
        urllib.parse.quote_plus(value),
        value.encode().hex(),
        base64.b64encode(data).decode(),
        base64.urlsafe_b64encode(data).decode(),
    ):
        clean = Redactor([value])(f"out: {text}\n")
        assert "[redacted secret]" in clean, text
        assert Redactor([value])(clean) == clean


def test_base64_of_a_text_with_a_secret_goes_as_a_whole_wrapped_or_not():
    data = f"first line\nDB_PASSWORD={PASSWORD}\n{GITHUB}\n".encode() * 3
    for text in (base64.b64encode(data).decode(), base64.encodebytes(data).decode()):
        assert Redactor()(f"x {text} y").replace("\n", " ").split() == ["x", "[redacted", "encoded-secret]", "y"]
    harmless = base64.b64encode(b"just some words, nothing else in here at all").decode()
    assert Redactor()(harmless) is harmless


def test_a_long_text_that_was_found_clean_just_now_is_not_searched_again(monkeypatch):
    searched = []
    once = Redactor._once
    monkeypatch.setattr(Redactor, "_once", lambda self, text: searched.append(len(text)) or once(self, text))
    clean, text = Redactor(["hunter2hunter2"]), "word " * 1000
    assert clean(clean({"content": text})) == {"content": text}
    assert searched.count(len(text)) == 1
    found = clean(text + "hunter2hunter2")
    searched.clear()
    assert clean(found) is found
    assert "hunter2" not in found
    assert searched == []
    clean("".join(list(text)))
    assert searched == [len(text)], "an equal text is another one"
