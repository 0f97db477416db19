"""Secrets of many kinds, made up, and a search for them in every byte below a directory."""

from __future__ import annotations

import base64
import json
import random
import string
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import zstandard

from agentrewind.snapshots.packs import PackFiles

_random = random.Random(20261201)
_MIXED = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"


def _some(length: int, alphabet: str = _MIXED) -> str:
    """Random characters with a digit and a letter among them."""
    return "a7" + "".join(_random.choices(alphabet, k=length - 2))


def _pem(kind: str) -> str:
    body = base64.b64encode(_random.randbytes(300)).decode()
    lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"


_RSA, _SSH, _GCP = _pem("RSA "), _pem("OPENSSH "), _pem("")
_JWT = f"eyJ{_some(30)}.eyJ{_some(60)}.{_some(43)}"
_AZURE = base64.b64encode(_random.randbytes(64)).decode()
_UP = string.ascii_uppercase + string.digits
_BASIC = f"deploy:{_some(18)}"

KINDS: dict[str, tuple[str, str]] = {
    "AWS key id": ("aws_access_key_id = {}", "AKIA" + "".join(_random.choices(_UP, k=15)) + "7"),
    "AWS secret key": ("aws_secret_access_key = {}", _some(40)),
    "GitHub classic": ("remote: {}", "ghp_" + _some(36)),
    "GitHub fine-grained": ("GH={}", "github_pat_" + _some(22) + "_" + _some(59)),
    "OpenAI project": ("client({})", "sk-proj-" + _some(48)),
    "Anthropic": ("use {} here", "sk-ant-api03-" + _some(80)),
    "Slack bot": ("'{}'", "xoxb-" + _some(12, "0123456789") + "-" + _some(24)),
    "Slack webhook": ("https://hooks.slack.com/services/{}", "T0A1B2C3D/B0A1B2C3D/" + _some(24)),
    "GCP service account": ('{{"type": "service_account", "private_key": "{}"}}', _GCP.replace("\n", "\\n")),
    "Google API key": ("https://maps.example/?key={}&q=1", "AIza" + _some(35)),
    "Azure storage": ("DefaultEndpointsProtocol=https;AccountName=x;AccountKey={};EndpointSuffix=x", _AZURE),
    "Azure SAS": ("https://x.blob.example/c?sv=2024&sig={}", _some(43) + "%3D"),
    "Stripe live": ("{}", "sk_live_" + _some(24)),
    "RSA key": ("{}", _RSA),
    "SSH key": ("{}", _SSH),
    "JWT": ("cookie {};", _JWT),
    "basic auth URL": ("git clone https://me:{}@git.example/x.git", _some(20)),
    "basic auth header": ("Authorization: Basic {}", base64.b64encode(_BASIC.encode()).decode()),
    "bearer header": ('curl -H "Authorization: Bearer {}"', _some(40)),
    "npm": ("//registry.npmjs.org/:_authToken={}", "npm_" + _some(36)),
    "PyPI": ("password = {}", "pypi-AgEIcHlwaS5vcmc" + _some(60)),
    ".netrc": ("machine api.example login me password {}", _some(20)),
    "database URL": ("postgres://app:{}@db.internal:5432/app", _some(22)),
    "Twilio": ("TWILIO_AUTH_TOKEN={}", _some(32, _HEX)),
    "Hugging Face": ("{}", "hf_" + _some(34)),
    "GitLab": ("{}", "glpat-" + _some(20)),
    "SendGrid": ("{}", "SG." + _some(22) + "." + _some(43)),
    "password in YAML": ("password: {}", _some(16)),
}
"""Kind to the text in which it stands and the secret itself."""

IN_ENVIRONMENT: dict[str, str] = {
    "ACME_API_KEY": "qt" + _some(14),
    "DB_PASSWORD": "correct horse battery staple",
    "SOME_BLOB": "Q" + _some(30),
    "QUOTED_SECRET": 'with "quotes" and \\ slashes\tand tabs',
    "BROKER_URL": f"amqp://guest:{_some(16)}@mq/x",
}
CUSTOM = "EMP-" + _some(9, "0123456789")

LINES = "\n".join(line.format(secret) for line, secret in KINDS.values())
BARE = [*(secret for _, secret in KINDS.values()), *IN_ENVIRONMENT.values(), CUSTOM]


def needles() -> Iterator[tuple[str, bytes]]:
    """What may not be found, with what it is a form of: each secret as it is, escaped, percent-encoded, in hex, and
    the part of its base64 that doesn't depend on what stands around it.
    """
    for secret in BARE:
        core = secret.replace("\\n", "\n").split("\n")[1] if secret.startswith("-----") else secret
        data = core.encode()
        escaped = json.dumps(core)[1:-1]
        texts = {core, escaped, json.dumps(escaped)[1:-1], quote(core, safe=""), data.hex()}
        for before in range(3):
            encoded = base64.b64encode(bytes(before) + data).decode()
            texts.add(encoded[-(-before * 8 // 6) : (before + len(data)) * 8 // 6])
        for text in texts:
            yield secret[:60], text.encode()


def found_in(data: bytes) -> set[str]:
    return {of for of, needle in needles() if needle in data}


def found_below(root: Path) -> dict[str, set[str]]:
    """Where below `root` which secrets stand: in names, in files, in the objects of packs, in unescaped JSON lines."""
    found: dict[str, set[str]] = {}
    for path in sorted(root.rglob("*")):
        hits = found_in(str(path).encode())
        if path.is_file() and not path.is_symlink():
            for part in _parts(path):
                hits |= found_in(part)
        if hits:
            found[str(path)] = hits
    return found


def _parts(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    yield data
    if path.suffix == ".pack":
        files = PackFiles(path.parent)
        for record, _, _ in files.scan(int(path.stem), 0):
            body = data[record.body_at : record.body_at + record.stored]
            yield from _unpacked(body)
    elif path.suffix in (".jsonl", ".json", ".bundle"):
        for line in data.splitlines():
            try:
                yield "\n".join(_texts(json.loads(line))).encode("utf-8", "surrogatepass")
            except ValueError:
                continue
    yield from _unpacked(data)


def _unpacked(data: bytes) -> Iterator[bytes]:
    """`data` decompressed, by whatever can."""
    with suppress(zstandard.ZstdError):
        yield zstandard.ZstdDecompressor().decompressobj().decompress(data)
    for bits in (zlib.MAX_WBITS, zlib.MAX_WBITS | 16):
        try:
            yield zlib.decompressobj(bits).decompress(data)
        except zlib.error:
            continue


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
