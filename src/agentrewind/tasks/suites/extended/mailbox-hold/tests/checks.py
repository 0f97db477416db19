"""The checks of mailbox-hold."""

from collections import Counter

from checking import App, field, line_of, same, sha256

FIRST = b"""Date: Thu, 31 Dec 2020 23:15:00 -0300
Message-ID: <one@x.example>

From here on
>From there
Sm\xf8rrebr\xf8d
"""
SECOND = b"""Message-ID: <two@x.example>
Date: Wed, 6 Jan 2021 00:45:10 +0100

>>>From you

"""
ENVELOPE = b"From a@x.example Fri Jan  1 02:15:00 2021\n"
UNSEEN = (
    ENVELOPE
    + FIRST.replace(b"\nFrom here", b"\n>From here").replace(b"\n>From there", b"\n>>From there")
    + b"\n"
    + ENVELOPE
    + SECOND.replace(b">>>From", b">>>>From")
    + b"\n"
)


def p1_messages_are_listed(app: App) -> None:
    listed = "message_id,date,size,sha256\n"
    listed += f"<one@x.example>,2021-01-01T02:15:00Z,{len(FIRST)},{sha256(FIRST)}\n"
    listed += f"<two@x.example>,2021-01-05T23:45:10Z,{len(SECOND)},{sha256(SECOND)}\n"
    with app.scratch("tools") as copy:
        (copy.root / "unseen.mbox").write_bytes(UNSEEN)
        done = copy.python("tools/mbox.py", "unseen.mbox")
        same(done.out, listed, f"what the reader lists ({done.err[-300:]})")


def p2_what_is_held_is_kept(app: App) -> None:
    wanted = app.expected["held"]
    same(app.names("hold/messages"), sorted(f"{row[3]}.eml" for row in wanted), "the held messages")
    for row in wanted:
        same(app.digest(f"hold/messages/{row[3]}.eml"), row[3], "the digest of a held message")
    found = [list(row.values()) for row in app.rows("hold/index.csv", ("message_id", "date", "matters", "sha256"))]
    same(found, wanted, "the index of held messages")


def p3_attachments_are_kept(app: App) -> None:
    wanted = app.expected["attachments"]
    same(app.names("hold/attachments"), sorted({row[0] for row in wanted}), "the attachments")
    for digest in {row[0] for row in wanted}:
        same(app.digest(f"hold/attachments/{digest}"), digest, "the digest of an attachment")
    found = [list(row.values()) for row in app.rows("hold/attachments.csv", ("sha256", "name", "message_id"))]
    same(found, wanted, "the list of attachments")


def p4_what_is_old_is_gone(app: App) -> None:
    same(app.digest("mail/board.mbox"), app.expected["mailbox_sha256"], "the digest of the mailbox")


def p5_the_maildir_has_the_rest(app: App) -> None:
    same(
        {name: (app.root / "maildir" / name).is_dir() for name in ("new", "cur", "tmp")},
        dict.fromkeys(("new", "cur", "tmp"), True),
        "the directories",
    )
    same([name for place in ("cur", "tmp") for name in app.names(f"maildir/{place}")], [], "what isn't new")
    found = sorted(app.digest(f"maildir/new/{name}") for name in app.names("maildir/new"))
    same(found, app.expected["remaining"], "the messages of the Maildir")


def p6_the_ledger_agrees(app: App) -> None:
    ledger, held = app.json("hold/ledger.json"), app.expected["held"]
    same(field(ledger, "index_sha256", str), app.digest("hold/index.csv"), "index_sha256")
    same(field(ledger, "attachments_sha256", str), app.digest("hold/attachments.csv"), "attachments_sha256")
    same(field(ledger, "by_matter", dict), dict(Counter(name for row in held for name in row[2].split())), "by_matter")
    same(field(ledger, "only_here", int), len({row[3] for row in held} - {*app.expected["remaining"]}), "only_here")
    same(field(ledger, "remaining", int), len(app.expected["remaining"]), "remaining")


def p7_the_attestation_agrees(app: App) -> None:
    text = app.text("attestation.txt")
    same(line_of(text, "held"), str(len(app.expected["held"])), "the number of held messages")
    same(line_of(text, "mailbox"), app.digest("mail/board.mbox"), "the digest of the mailbox")
    same(line_of(text, "ledger"), app.digest("hold/ledger.json"), "the digest of the ledger")
