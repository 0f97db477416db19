"""Prints the values of tests/expected.json: worked out by openssl and from how the archive was made, not by the tools.

python3 expect.py BUILT
"""

import base64
import csv
import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

root = Path(sys.argv[1])
CUT_OFF = "2026-10-01"
MADE = (  # the root of each contract by its place in the bundle (from 0), and what there is to say of it
    (0, "valid"), (0, "valid"), (0, "expired"), (2, "valid"), (2, "signature"), (4, "expired"), (4, "valid"),
    (3, "valid"), (3, "expired"), (5, "expired"), (5, "valid"), (8, "signature"), (6, "valid"), (1, "valid"),
    (7, "revoked"), (None, "no root"),
)  # fmt: skip


def certificates(text: str) -> list[str]:
    return [part.partition("-----END")[0].strip() for part in text.split("-----BEGIN CERTIFICATE-----")[1:]]


def asked(body: str, *words: str) -> str:
    pem = f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"
    command = ["openssl", "x509", "-noout", *words]
    return subprocess.run(command, input=pem, capture_output=True, text=True, check=True).stdout


def about(body: str) -> list[str]:
    """Name, serial, validity and digest, from openssl's form in many lines."""
    text = asked(body, "-subject", "-nameopt", "multiline", "-serial", "-dates")
    months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    days = [
        f"{year}-{months.index(month) + 1:02}-{int(day):02}T{clock}Z"
        for month, day, clock, year in re.findall(r"^not\w+=(\w+) +(\d+) ([\d:]+) (\d+) GMT$", text, re.MULTILINE)
    ]
    [name], [serial] = re.findall(r"commonName += (.*)", text), re.findall(r"serial=(.*)", text)
    return [name, serial, *days, hashlib.sha256(base64.b64decode(body)).hexdigest()]


bundle = certificates((root / "trust/bundle.pem").read_text())
roots = [about(body) for body in bundle]
signed = list(csv.DictReader((root / "archive/signed.csv").open()))
verification = []
for row, (place, verdict) in zip(signed, MADE, strict=True):
    [body] = certificates((root / "archive" / row["document"]).with_suffix(".crt").read_text())
    digest = "" if place is None else roots[place][4]
    verification.append([row["document"], row["signed_at"], about(body)[0], digest, verdict])
kept = [(body, row[4]) for body, row in zip(bundle, roots, strict=True) if row[3] >= CUT_OFF]
left = [digest for _, digest in kept]
hashes, seen = {}, Counter[str]()
for body, digest in kept:
    name = asked(body, "-hash").strip()
    hashes[f"{name}.{seen[name]}"] = digest
    seen[name] += 1
values = {
    "verification": verification,
    "roots": roots,
    "kept": left,
    "hashed": hashes,
    "verdicts": dict(sorted(Counter(verdict for *_, verdict in verification).items())),
    "still": [row[0] for row in verification if row[4] == "valid" and row[3] in left],
}
lost = [line for body, row in zip(bundle, roots, strict=True) if row[4] not in left for line in body.split("\n")[3:6]]
print(json.dumps({"values": values, "lost": lost}, indent=1))
