"""Laws of redaction."""

from __future__ import annotations

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentrewind.core.redact import Redactor

PIECES = [
    "sk-" + "proj-Zx81kQmvTTb29aLq7RtYw3uE5oPs",
    "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "AKIA" + "Z7QX3LMNB4TRWV2K",
    "Authorization: Bearer ",
    "password=",
    "api_key: ",
    '"token": "',
    "https://me:",
    "@host/",
    "hunter2hunter2",
    "[redacted ",
    "]",
    '"',
    "\\",
    "\n",
    " ",
    "=",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3",
    "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw\n",
    "-----END PRIVATE KEY-----",
]
secretive = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=10).map("".join)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | secretive,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["password", "Authorization", "x-api-key", "token", "n"]) | secretive, inner)
    ),
    max_leaves=6,
)
harmless = st.text(st.characters(exclude_characters=":=@-_."), max_size=300)


@given(values)
@settings(max_examples=300, deadline=None)
@example("password=https://me:AKIA@host/")
def test_redacting_twice_is_redacting_once(value):
    clean = Redactor(["hunter2hunter2"])
    once = clean(value)
    assert clean(once) == once


@given(values)
@settings(max_examples=200, deadline=None)
def test_it_is_a_function_of_its_input_and_keeps_the_shape(value):
    once = Redactor(["hunter2hunter2"])(value)
    assert once == Redactor(["hunter2hunter2"])(json.loads(json.dumps(value)))
    assert type(once) is type(value)
    assert not isinstance(value, list | dict) or len(once) == len(value)


@given(secretive)
@settings(max_examples=200, deadline=None)
def test_a_known_value_is_nowhere_left(text):
    assert "hunter2hunter2" not in Redactor(["hunter2hunter2"])(text)


@given(harmless)
@settings(max_examples=300, deadline=None)
def test_text_in_which_no_secret_can_stand_is_unchanged(text):
    """Every rule but that of bare bearer tokens needs one of these characters."""
    assert Redactor()(text) == text or "bearer" in text.lower()


@given(st.binary(max_size=400), st.sampled_from(["hex", "base64", "uuid"]))
@settings(max_examples=300, deadline=None)
def test_encoded_bytes_are_no_secrets(data, how):
    import base64
    import uuid

    forms = {
        "hex": data.hex(),
        "base64": "data:image/png;base64," + base64.b64encode(data).decode(),
        "uuid": str(uuid.UUID(bytes=(data + bytes(16))[:16])),
    }
    assert Redactor()(forms[how]) == forms[how]
