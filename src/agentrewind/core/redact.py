"""Secrets out of what is kept: pure, deterministic, and without a trace of the value.

A secret becomes `[redacted KIND]`. No hash stands in the mark: a plain one of a short password can be found by trying
all of them, and a keyed one would need a key that is either stored beside the journal (no protection) or lost when
a run is resumed (the same message would then have two ids). Equal texts still become equal texts, so contents are
stored once; what is lost is telling two secrets of one kind apart.

Precision goes before recall: a text without a secret must come back unchanged, byte for byte. What the patterns can't
know, the caller names (`known`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from agentrewind.core import disguises
from agentrewind.core.codec import Json

MIN_KNOWN = 8
"""Known values shorter than this are left alone: they stand in too many ordinary texts."""

_MARK = re.compile(r"\[redacted [a-z-]+\]")
_MARKS = re.compile(f"({_MARK.pattern})")


def _mark(kind: str) -> str:
    return f"[redacted {kind}]"


# --- what is no secret though it stands where one would ---------------------------------------------------------------

_PLACEHOLDERS = (
    "a access add an api app auth aws bar baz bearer change changeme client credential credentials default demo dummy"
    " empty enter env example fake false foo from generated github gitlab google here id in insert invalid key keys"
    " hidden me missing mock my name new none not null of openai optional or our pass passphrase passwd password"
    " placeholder private put real redacted replace required sample secret secrets set some string test the this to"
    " todo token true undefined unset user username value vault x xx xxx xxxx your yours"
)
_PLACEHOLDER_WORDS = frozenset(_PLACEHOLDERS.split())
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_PLACEHOLDER_START = ("$", "<", "{", "%", "[", "(", "*", "...", "\\", "xxx", "XXX", "#", "/")


_FILLER, _FEW = 4, 2
"""A value this long of so few different characters is filler: `****`, `xxxx`, `-.-.`."""
_LOOKED_AT = 200


def _placeholder(value: str) -> bool:
    """Whether a value only holds the place of a secret: `$VAR`, `<key>`, `xxx`, `changeme`, `your-api-key`."""
    if value.startswith(_PLACEHOLDER_START) or (len(value) >= _FILLER and len(set(value)) <= _FEW):
        return True
    words = [word.lower() for word in _WORDS.findall(value[:_LOOKED_AT])]
    return bool(words) and all(word in _PLACEHOLDER_WORDS for word in words)


def _mixed(value: str) -> bool:
    """Letters and digits: what words and identifiers seldom are and generated secrets nearly always."""
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


# --- secrets with a shape of their own --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shape:
    """A pattern that begins with (or soon holds) one of `needles`; a text without them isn't searched.

    Group 1 is the secret where the pattern has one, else all of the match is.
    """

    kind: str
    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    wanted: Callable[[str], bool] = lambda _: True

    def rewrite(self, text: str) -> str:
        return self.pattern.sub(self._replaced, text)

    def _replaced(self, match: re.Match[str]) -> str:
        group = 1 if self.pattern.groups and match[1] else 0
        secret = match[group]
        if not secret or not self.wanted(secret):
            return match[0]
        begin, end = match.start(group) - match.start(), match.end(group) - match.start()
        return match[0][:begin] + _mark(self.kind) + match[0][end:]


_ESCAPES = (r"\\[nrt]", r"%[0-9A-Fa-f]{2}", r"\x1b\[K", r"\x1b\[\dm", r"\x1b\[\d\dm", r"\x1b\[\d\d;\d\dm")
"""What ends in a word character without being a part of the word behind it: `\\n` in JSON, `%0A` in a URL, colours."""


def _after_escape(front: str) -> str:
    return "|".join(f"(?<={escape}{front})" for escape in _ESCAPES)


def _token(kind: str, prefix: str, body: str, wanted: Callable[[str], bool] = _mixed, *, base64: str = "") -> _Shape:
    """A token that begins with `prefix` and is no part of a longer word; nor of base64, for a prefix that can be."""
    front = re.escape(prefix)
    pattern = rf"{front}(?:(?<![\w{base64}-]{front})|{_after_escape(front)}){body}(?![\w{base64}-])"
    return _Shape(kind, (prefix,), re.compile(pattern), wanted)


_BASE64 = "+/"

_PEM_LINE = re.compile(r"[A-Za-z0-9+/=]{32,}")
_PEM = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[A-Za-z0-9+/=\s:,.()|→]|\\+[nrt]|-(?!----)){32,}"
    r"(?:-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----)?"
)

_SHAPES = (
    _Shape("private-key", ("PRIVATE KEY",), _PEM, lambda block: _PEM_LINE.search(block) is not None),
    _Shape(
        "jwt",
        ("eyJ",),
        re.compile(rf"eyJ(?:(?<![\w-]eyJ)|{_after_escape('eyJ')})[\w-]{{8,}}\.eyJ[\w-]{{8,}}\.[\w-]{{8,}}"),
    ),
    _token("api-key", "sk-", r"(?:ant|proj|or|svcacct|admin|None|live|test)-[\w-]{16,}"),
    _token("api-key", "sk-", r"(?=[\w-]*[A-Za-z0-9]{16})[\w-]{20,}"),
    _token("api-key", "sk_", r"(?:live|test)_[A-Za-z0-9]{16,}"),
    _token("api-key", "rk_", r"(?:live|test)_[A-Za-z0-9]{16,}"),
    _token("github-token", "github_pat_", r"\w{20,}"),
    *(_token("github-token", prefix, r"[A-Za-z0-9]{20,}") for prefix in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
    _token("gitlab-token", "glpat-", r"[\w-]{20,}"),
    _token("npm-token", "npm_", r"[A-Za-z0-9]{36}"),
    _token("huggingface-token", "hf_", r"[A-Za-z0-9]{30,}", lambda token: not token[3:].islower()),
    _token("aws-key-id", "AKIA", r"[A-Z0-9]{16}", base64=_BASE64),
    _token("aws-key-id", "ASIA", r"[A-Z0-9]{16}", base64=_BASE64),
    _token("google-key", "AIza", r"[\w-]{30,}", base64=_BASE64),
    _token("slack-token", "xox", r"[abeoprs]-[A-Za-z0-9-]{10,}"),
    _token("slack-token", "xapp-", r"[A-Za-z0-9-]{10,}"),
    _Shape("slack-token", ("hooks.slack.com",), re.compile(r"hooks\.slack\.com/services/([\w/-]{20,200})")),
    _token("pypi-token", "pypi-", r"AgE[\w-]{30,}"),
    _token("api-key", "gsk_", r"[A-Za-z0-9]{30,}"),
    _token("api-key", "xai-", r"[A-Za-z0-9]{30,}"),
    _token("api-key", "r8_", r"[A-Za-z0-9]{30,}"),
    _token("api-key", "SG.", r"[\w-]{16,64}\.[\w-]{16,64}"),
    _token("api-key", "whsec_", r"[A-Za-z0-9+/=]{24,}"),
    _token("api-key", "dop_v1_", r"[a-f0-9]{40,}"),
    _token("api-key", "hvs.", r"[\w-]{20,}"),
    _token("google-key", "GOCSPX-", r"[\w-]{20,}"),
    _token("google-key", "ya29.", r"[\w-]{20,}"),
    _token("twilio-key", "SK", r"[0-9a-f]{32}", base64=_BASE64),
    _Shape(
        "azure-key",
        ("AccountKey=", "SharedAccessKey="),
        re.compile(r"(?:Account|SharedAccess)Key=([\w+/]{20,200}={0,2})"),
    ),
    _Shape("azure-key", ("sig=",), re.compile(r"[?&;]sig=([\w%+/-]{30,200}={0,2})"), _mixed),
    _Shape(
        "password",
        ("login", "machine"),
        re.compile(r"(?:login|machine)\s{1,20}\S{1,200}\s{1,20}password\s{1,20}(\S{1,200})"),
        lambda password: not _placeholder(password),
    ),
    _Shape(
        "password",
        ("://",),
        re.compile(r"""://[^\s/:@"'<>\\]{0,128}:([^\s/@"'<>\\]{1,256})@(?!sha256:)"""),
        lambda password: not _placeholder(password),
    ),
)
_NEEDLES = tuple((needle, shape) for shape in _SHAPES for needle in shape.needles)
_SHORTEST = len("://:x@")
"""No secret that anything here knows is shorter."""


def _shapes_in(text: str) -> list[_Shape]:
    """Those that `text` may hold."""
    return [shape for needle, shape in _NEEDLES if needle in text]


# --- secrets by the name in front of them -----------------------------------------------------------------------------

_SECRET_NAME = re.compile(
    r"(?:(?P<key>(?:api|secret|access|private|auth|encryption|signing|account|service|master|license)[_-]?key)"
    r"|(?P<token>token)|(?P<secret>secret|credentials?)|(?P<password>passw(?:or)?d|passphrase)|(?P<bare>(?<=_)KEY))\Z"
    r"|(?P<header>\A(?:proxy[_-])?authorization\Z|\A(?:set[_-])?cookie\Z)",
    re.IGNORECASE,
)
_HARMLESS_NAME = re.compile(
    r"(?:\b|_|-)(?:page|next|prev|previous|sync|continuation|eos|bos|pad|unk|cls|sep|mask|special|stop|cancel|"
    r"cancellation|primary|foreign|sort|public|cache|partition|group|index|row|dict|lookup|hash|shortcut)"
    r"(?:_?page)?[_-]?(?:token|key)\Z",
    re.IGNORECASE,
)
_KINDS = {"key": "api-key", "bare": "key", "header": "authorization"}
_BARE_KEY_LENGTH = 16

_KEYWORDS = ("key", "token", "secret", "pass", "credential")
"""In lower case, the last word of the name in every assignment of a secret begins with one of them."""
_HEADERS = ("authorization", "bearer")
_NAME_FRONT = re.compile(r"[\w-]{0,60}\Z")
_ASSIGNMENT = re.compile(
    r"""(?P<word>key|token|secret|passw(?:or)?d|passphrase|credentials?)\\*["']?(?:\s?:\s?[Ss]tr(?:ing)?)?"""
    r"""(?P<gap>\s{0,4}(?:=>|:=|[:=])(?!=)\s{0,4})"""
    r"""(?:(?P<quote>\\*["'`])(?P<quoted>[^\s"'`\\]{8,4096})(?P=quote)"""
    r"""|(?P<plain>[^\s"'`,;&(){}\[\]<>|\\]{8,4096})(?P<after>.?))""",
    re.IGNORECASE | re.DOTALL,
)
_AUTHORIZATION = re.compile(
    r"""authorization\\*["']?\s{0,4}[:=]\s{0,4}\\*["']?(?:(?:bearer|basic|token|apikey)\s+)?([\w.~+/=-]{8,4096})""",
    re.IGNORECASE | re.ASCII,
)
_BEARER = re.compile(r"bearer\s+([\w.~+/=-]{20,4096})", re.IGNORECASE | re.ASCII)
_SHELL_NAME = re.compile(r"[A-Z][A-Z0-9_]*\Z")
_IDENTIFIER = re.compile(r"_*[A-Za-z]+\d{0,2}(?:_[A-Za-z]*\d{0,2})*\Z")
_EXPRESSION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\Z")
_TYPE = re.compile(r"(?:u?int|float|complex|bytes|string|varchar|char)\d+\Z", re.IGNORECASE)

Span = tuple[int, int, str]
"""Where a secret begins and ends, and its kind."""


def _kind_of(name: str) -> str | None:
    """Which kind of secret a name promises; None for other names (`max_tokens`, `page_token`, `sort_key`)."""
    found = _SECRET_NAME.search(name)
    if found is None or found.lastgroup is None or _HARMLESS_NAME.search(name):
        return None
    return _KINDS.get(found.lastgroup, found.lastgroup)


def _lower(text: str) -> str:
    """Lower case with every character in its place."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := char.lower()) == 1 else char for char in text)


def _positions(lowered: str, word: str) -> Iterator[int]:
    at = lowered.find(word)
    while at >= 0:
        yield at
        at = lowered.find(word, at + len(word))


def _assignments(text: str, lowered: str) -> Iterator[Span]:
    for keyword in _KEYWORDS:
        for at in _positions(lowered, keyword):
            match = _ASSIGNMENT.match(text, at)
            if match is not None and (span := _assigned(text, match)) is not None:
                yield span


def _assigned(text: str, match: re.Match[str]) -> Span | None:
    front = _NAME_FRONT.search(text, max(0, match.start() - 60), match.start())
    name = (front[0] if front else "") + match["word"]
    kind = _kind_of(name)
    value = match["quoted"] or match["plain"]
    if kind is None or _placeholder(value) or _EXPRESSION.match(value) or _TYPE.match(value):
        return None
    if kind == "key" and not (_SHELL_NAME.match(name) and _mixed(value) and len(value) >= _BARE_KEY_LENGTH):
        return None
    if match["quoted"]:
        return (*match.span("quoted"), kind)
    before = text[match.start() - len(front[0]) - 1] if front and front.start() else ""
    return (*match.span("plain"), kind) if _is_literal(match, name, before) else None


def _is_literal(match: re.Match[str], name: str, before: str) -> bool:
    """Whether a value without quotes is data (a shell variable, YAML, a URL) and not an expression of a program."""
    value, after, gap = match["plain"], match["after"], match["gap"]
    if after and after in "([{<":
        return False
    if gap == "=" and _SHELL_NAME.match(name):
        return True
    if not _mixed(value):
        return False
    in_call = gap == "=" and after in (",", ")") and before not in ("?", "&")
    spaced = gap != "=" and ":" not in gap
    return not ((in_call or spaced) and _IDENTIFIER.match(value))


def _headers(text: str, lowered: str) -> Iterator[Span]:
    for keyword, pattern in zip(_HEADERS, (_AUTHORIZATION, _BEARER), strict=True):
        for at in _positions(lowered, keyword):
            match = pattern.match(text, at)
            if match is not None and _credential(match[1]):
                yield (*match.span(1), "authorization")


def _credential(value: str) -> bool:
    """Whether what follows `Authorization: Bearer` is no word of prose."""
    odd = any(c.isdigit() for c in value) or value.endswith("=") or not (value.islower() or value.istitle())
    return odd and not _placeholder(value) and _EXPRESSION.match(value) is None


def _by_name(text: str) -> str:
    lowered = _lower(text)
    if not [word for word in (*_KEYWORDS, *_HEADERS) if word in lowered]:
        return text
    spans = sorted([*_assignments(text, lowered), *_headers(text, lowered)])
    out: list[str] = []
    at = 0
    for begin, end, kind in spans:
        if begin >= at:
            out += (text[at:begin], _mark(kind))
            at = end
    return "".join((*out, text[at:])) if out else text


# --- whole values -----------------------------------------------------------------------------------------------------

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MIN_TOKEN = 8


@functools.lru_cache(maxsize=4096)
def _key_kind(key: str) -> str | None:
    """The kind of secret that an object's key promises; a bare `…_key` promises none."""
    kind = _kind_of(_CAMEL.sub("_", key).replace("-", "_"))
    return None if kind == "key" else kind


def _whole(kind: str, value: str, siblings: dict[str, Json]) -> bool:
    """Whether a text under a secret's name is replaced as a whole."""
    if not value or _MARK.search(value) or _placeholder(value.strip().rpartition(" ")[2]):
        return False
    if kind in ("token", "secret"):
        return len(value) >= _MIN_TOKEN and not re.search(r"\s", value) and "logprob" not in siblings
    return True


_LONG, _TOO_LONG, _REMEMBERED = 1_000, 250_000, 8


class Redactor:
    """Callable on any JSON value; returns a copy with `[redacted KIND]` in the place of each secret.

    Applying it twice changes nothing more. `known` are values that are secret whatever they look like (at least
    `MIN_KNOWN` characters; shorter ones are left alone), also where they stand escaped or encoded. `patterns` say what
    else is: their group 1 where they have one, else all of a match.
    """

    def __init__(self, known: Iterable[str] = (), patterns: Iterable[re.Pattern[str]] = ()) -> None:
        values = {value for value in known if len(value) >= MIN_KNOWN and not _in_a_mark(value)}
        every = {form for value in values for form in disguises.forms(value) if not _in_a_mark(form)}
        self._known = sorted(every, key=lambda value: (-len(value), value))
        self._clean: tuple[str, ...] = ()
        """The long texts that were found clean last: the journal looks at what the session has looked at just now."""
        self._patterns = tuple(_Shape("custom", (), pattern) for pattern in patterns)

    def __call__(self, value: Json) -> Json:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self(item) for item in value]
        if isinstance(value, dict):
            return self._object(value)
        return value

    def text(self, text: str) -> str:
        """`text` without its secrets; itself where there are none."""
        if len(text) >= _LONG and any(text is known for known in self._clean):
            return text
        while (clean := self._once(text)) != text:
            text = clean
        if _LONG <= len(text) <= _TOO_LONG:
            self._clean = (*self._clean[1 - _REMEMBERED :], text)
        return text

    def _once(self, text: str) -> str:
        if len(text) < _SHORTEST and not self._patterns:
            return text
        return disguises.unwrapped(
            self._plain(text), lambda inner: self._plain(inner) != inner, _mark("encoded-secret")
        )

    def _plain(self, text: str) -> str:
        """Without the secrets that stand there as they are."""
        for value in self._known:
            text = text.replace(value, _mark("secret"))
        for shape in _shapes_in(text):
            text = shape.rewrite(text)
        text = _by_name(text)
        return self._by_pattern(text) if self._patterns else text

    def _by_pattern(self, text: str) -> str:
        """The caller's patterns, which may match anything, are kept off the marks."""
        parts = _MARKS.split(text)
        for at in range(0, len(parts), 2):
            for shape in self._patterns:
                parts[at] = shape.rewrite(parts[at]) if not _MARK.search(parts[at]) else parts[at]
        return "".join(parts)

    def _object(self, value: dict[str, Json]) -> Json:
        clean: dict[str, Json] = {}
        for key, item in value.items():
            clean[self._key(key, clean)] = self._item(key, item, value)
        return clean

    def _key(self, key: Json, taken: dict[str, Json]) -> Json:
        """Two secrets as keys stay two keys."""
        if not isinstance(key, str):
            return key
        clean = name = self.text(key)
        number = 2
        while clean != key and name in taken:
            name = f"{clean} {number}"
            number += 1
        return name

    def _item(self, key: Json, item: Json, siblings: dict[str, Json]) -> Json:
        kind = _key_kind(key) if isinstance(key, str) else None
        if kind is None:
            return self(item)
        if isinstance(item, str):
            return _mark(kind) if _whole(kind, item, siblings) else self(item)
        if isinstance(item, list | tuple):
            return [self._item(key, part, siblings) for part in item]
        return self(item)


def _in_a_mark(value: str) -> bool:
    kinds = {
        "secret",
        "token",
        "password",
        "custom",
        "encoded-secret",
        *_KINDS.values(),
        *(shape.kind for shape in _SHAPES),
    }
    return any(value in _mark(kind) for kind in kinds)
