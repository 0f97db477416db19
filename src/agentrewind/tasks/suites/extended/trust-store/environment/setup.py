"""The first state: a bundle of roots, documents signed over the years, a tool with two defects, a tool that prunes."""

import base64
import hashlib
from dataclasses import dataclass

from laying import Site, Stream

CHANCE = Stream("trust-store")
STEPS = (
    74, 152, 624, 296, 312, 100, 38, 134, 78, 202, 184, 520, 146, 452, 34, 916,
    214, 594, 412, 388, 126, 480, 240, 98, 66, 58, 684, 26, 66, 130, 464, 124,
)  # fmt: skip
"""From a number of chance to the prime after it, for each that is needed: a search would take seconds each time."""
WORDS = ("berth", "crane", "harbour", "pilot", "quay", "tide", "toll", "tug", "wharf", "lease", "rate", "year")

RUNBOOK = """\
# The trust store of the records office

Digests are SHA-256, in lower-case hexadecimal digits: of a file's bytes, or of a certificate in DER. CSV files have a
head, commas and line ends of one `\\n`. Times are UTC, as `2019-03-05T12:00:00Z`.

## Bundle
`trust/bundle.pem` holds the roots that we trust or trusted. Several roots may have the same name. `python3
tools/bundle.py FILE` prints what the certificates of a PEM file are, as a JSON list of objects with `name` (the common
name, as it is), `serial` (as openssl prints it), `not_before`, `not_after` and `sha256`. Text between certificates
doesn't matter. `--check` says whether every certificate of the bundle can be read.

## Documents
`archive/` has documents, each with its signature (`.sig`, RSA with SHA-256, PKCS#1) and the certificate of the signer
(`.crt`); `archive/signed.csv` says when they were signed. `archive/revoked.csv` lists certificates of signers that were
revoked, and when.

## Verification
`records/verification.csv`: `document,signed_at,signer,root_sha256,verdict`, in the order of `signed.csv`. The signer is
the name in the certificate; the root is the one of the bundle by whose key that certificate is signed, whatever its
name, and empty if there is none. The verdict is the first of these that applies:

| verdict | |
| --- | --- |
| `no root` | the certificate of the signer is signed by none of the roots |
| `signature` | the signature isn't one of this document by this signer |
| `expired` | at the time of signing the certificate or the root was not valid yet, or no longer |
| `revoked` | the certificate had been revoked when the document was signed |
| `valid` | none of these |

## Roots
`records/roots.csv`: `name,serial,not_before,not_after,sha256`, all roots of the bundle as we had it, in its order.

## Pruning
`python3 tools/prune.py` removes from the bundle the roots that are no longer valid on 2026-10-01; the others stay, in
their order.

## Links
`trust/hashed/` has each root of the pruned bundle in a file `HASH.N`, as programs look for them: the hash of its
subject that openssl prints (eight digits), and the number 0, or for further roots of the same hash 1, 2, ..., in the
order of the bundle. Nothing else is there.

## Report
`records/report.json`, an object: `verification_sha256` and `roots_sha256`, the digests of the two records; `verdicts`,
an object with the number of documents for each verdict that occurs; `removed`, the digests of the roots that were
removed, in the order of `records/roots.csv`; `still`, the valid documents whose root is still in the bundle, in order.

## Attestation
`attestation.txt`, three lines: `report: ` and the digest of the report, `bundle: ` and the digest of the pruned bundle,
`roots: ` and how many roots are in it.
"""

BUNDLE = '''\
"""What the certificates of a PEM file are: bundle.py FILE | bundle.py --check"""

import base64
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import time


class Unreadable(ValueError):
    pass


def certificates(text):
    """The certificates in a text, each in PEM."""
    return re.findall("-----BEGIN CERTIFICATE-----.+-----END CERTIFICATE-----", text, re.DOTALL)


def described(pem):
    options = ["-noout", "-subject", "-nameopt", "RFC2253", "-serial", "-startdate", "-enddate"]
    done = subprocess.run(["openssl", "x509", *options], input=pem, capture_output=True, text=True)
    if done.returncode:
        raise Unreadable("no certificate")
    fields = dict(line.split("=", 1) for line in done.stdout.splitlines())
    name = re.match(r"CN=([^,\\\\]+)(,|$)", fields["subject"])
    if not name:
        raise Unreadable(f"no name in {fields['subject']}")
    return {
        "name": name[1],
        "serial": fields["serial"],
        "not_before": moment(fields["notBefore"]),
        "not_after": moment(fields["notAfter"]),
        "sha256": hashlib.sha256(base64.b64decode("".join(pem.split("-----")[2].split()))).hexdigest(),
    }


def moment(text):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.strptime(text, "%b %d %H:%M:%S %Y GMT"))


def check(path):
    text = path.read_text()
    found = certificates(text)
    if len(found) != text.count("BEGIN CERTIFICATE"):
        sys.exit(f"{path.name}: {len(found)} of {text.count('BEGIN CERTIFICATE')} certificates found")
    for number, pem in enumerate(found, 1):
        try:
            described(pem)
        except Unreadable as error:
            sys.exit(f"{path.name}: certificate {number}: {error}")
    print(f"{len(found)} certificates")


if __name__ == "__main__":
    if "--check" in sys.argv:
        check(pathlib.Path(__file__).resolve().parent.parent / "trust/bundle.pem")
    else:
        print(json.dumps([described(pem) for pem in certificates(pathlib.Path(sys.argv[1]).read_text())], indent=1))
'''

PRUNE = '''\
"""Removes the roots from the bundle that are no longer valid on the cut-off date."""

import pathlib

from bundle import certificates, described

CUT_OFF = "2026-10-01T00:00:00Z"
path = pathlib.Path(__file__).resolve().parent.parent / "trust/bundle.pem"
roots = certificates(path.read_text())
kept = [pem for pem in roots if described(pem)["not_after"] >= CUT_OFF]
path.write_text("".join(pem + "\\n" for pem in kept))
print(f"{len(kept)} of {len(roots)} roots are left")
'''

# --- certificates: X.509 (RFC 5280) in DER, RSA signatures with SHA-256 by PKCS #1 ------------------------------------


def der(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    size = len(body)
    if size < 0x80:
        return bytes([tag, size]) + body
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(digits)]) + digits + body


def integer(value: int) -> bytes:
    return der(2, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def sequence(*parts: bytes) -> bytes:
    return der(0x30, *parts)


def moment(day: str) -> bytes:
    """Noon of a day, as `140301`."""
    return der(0x17, f"{day}120000Z".encode())


def called(name: str) -> bytes:
    return sequence(der(0x31, sequence(bytes.fromhex("0603550403"), der(0x0C, name.encode()))))


RSA = sequence(bytes.fromhex("06092a864886f70d010101"), der(5))
SIGNED = sequence(bytes.fromhex("06092a864886f70d01010b"), der(5))
AUTHORITY = der(
    0xA3, sequence(sequence(bytes.fromhex("0603551d13"), der(1, b"\xff"), der(4, sequence(der(1, b"\xff")))))
)
PUBLIC = 65537


class Key:
    """RSA, 1024 bits: short, as keys were then."""

    def __init__(self, number: int) -> None:
        first, second = (self._prime(STEPS[2 * number + place]) for place in (0, 1))
        self.modulus, self._secret = first * second, pow(PUBLIC, -1, (first - 1) * (second - 1))

    @staticmethod
    def _prime(step: int) -> int:
        return (int.from_bytes(CHANCE.take(64), "big") | 3 << 510 | 1) + step

    def sign(self, data: bytes) -> bytes:
        digest = bytes.fromhex("3031300d060960864801650304020105000420") + hashlib.sha256(data).digest()
        padded = b"\0\1" + b"\xff" * (125 - len(digest)) + b"\0" + digest
        return pow(int.from_bytes(padded, "big"), self._secret, self.modulus).to_bytes(128, "big")

    def info(self) -> bytes:
        return sequence(RSA, der(3, b"\0", sequence(integer(self.modulus), integer(PUBLIC))))


@dataclass
class Holder:
    """Whoever has a name and a key, from one day to another."""

    name: str
    key: Key
    begin: str
    end: str


def certificate(of: Holder, by: Holder) -> tuple[str, int]:
    """In PEM, and its serial number."""
    serial = int.from_bytes(CHANCE.take(8), "big") >> 1 | 1 << 62
    validity = sequence(moment(of.begin), moment(of.end))
    parts = [integer(serial), SIGNED, called(by.name), validity, called(of.name), of.key.info()]
    if of is by:
        parts = [der(0xA0, integer(2)), *parts, AUTHORITY]
    body = sequence(*parts)
    text = base64.b64encode(sequence(body, SIGNED, der(3, b"\0", by.key.sign(body)))).decode()
    lines = "\n".join(text[at : at + 64] for at in range(0, len(text), 64))
    return f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n", serial


# --- what is in the workspace -----------------------------------------------------------------------------------------

ROOTS = (
    ("Harbour Board Root 1", "990301", "140301"),
    ("Ferry Union Root", "120601", "320601"),
    ("Quay, Lock & Co", "010915", "120915"),
    ("Pilots Guild Root", "040110", "190110"),
    ("Quay, Lock & Co", "110401", "340401"),
    ("Tide Office", "060915", "260915"),
    ("Harbour Board Root 2", "091101", "311101"),
    ("Ferry Union Root", "180601", "380601"),
    ("Tide Office", "200201", "400201"),
)
PEOPLE = ("A. Brandt", "C. Dietz", "E. Fink", "G. Holm", "I. Juhl", "K. Lind")
SIGNINGS = (
    # root, signer, certificate valid from and to, signed on, revoked on, and what is wrong with the signature
    (0, 0, "020101", "070101", "040517", "", ""),
    (0, 1, "050101", "100101", "090203", "", ""),
    (0, 1, "090101", "190101", "150622", "", ""),
    (2, 2, "030101", "080101", "061130", "", ""),
    (2, 3, "100101", "140101", "110808", "", "other"),
    (4, 3, "050101", "120101", "100914", "100901", ""),
    (4, 4, "110101", "180101", "141224", "160101", ""),
    (3, 2, "120101", "200101", "130311", "", ""),
    (3, 5, "150101", "250101", "191001", "", ""),
    (5, 4, "080101", "150101", "160229", "", ""),
    (5, 0, "180101", "240101", "210707", "", ""),
    (8, 5, "130101", "210101", "200615", "", "changed"),
    (6, 1, "140101", "220101", "170418", "", ""),
    (1, 3, "190101", "270101", "230912", "", ""),
    (7, 4, "210101", "290101", "240130", "231130", ""),
    (9, 0, "160101", "220101", "180802", "", ""),
)


def day(text: str) -> str:
    century = "19" if text[0] == "9" else "20"
    return f"{century}{text[:2]}-{text[2:4]}-{text[4:]}T12:00:00Z"


def document(number: int) -> bytes:
    lines = [" ".join(CHANCE.one_of(WORDS) for _ in range(CHANCE.number(4, 9))) for _ in range(CHANCE.number(5, 12))]
    return f"Contract {number}, {CHANCE.word(8)}\n\n".encode() + "\n".join(lines).encode() + b"\n"


def main() -> None:
    site = Site.of(date=1_791_000_000)
    people = [Key(number) for number in range(len(PEOPLE))]
    everybody = (*ROOTS, ("Dredgers Root", "050101", "300101"))
    roots = [Holder(name, Key(number), *days) for number, (name, *days) in enumerate(everybody, len(PEOPLE))]
    bundle = [f"# {root.name}\n{certificate(root, root)[0]}" for root in roots[: len(ROOTS)]]
    site.file("trust/bundle.pem", "\n".join(bundle))
    signed, revoked = ["document,signed_at\n"], []
    for number, (root, signer, begin, end, on, revoked_on, wrong) in enumerate(SIGNINGS, 1):
        name, text = f"contract-{number:02}", document(number)
        holder = Holder(PEOPLE[signer], people[signer], begin, end)
        pem, serial = certificate(holder, roots[root])
        signature = people[signer - 1 if wrong == "other" else signer].sign(text)
        site.file(f"archive/{name}.txt", text.replace(b"Contract", b"Contract no.") if wrong == "changed" else text)
        site.file(f"archive/{name}.sig", signature)
        site.file(f"archive/{name}.crt", pem)
        signed.append(f"{name}.txt,{day(on)}\n")
        revoked += [f"{serial:X},{day(revoked_on)}\n"] if revoked_on else []
    revoked += [f"{int.from_bytes(CHANCE.take(8), 'big') | 1 << 62:X},{day('220303')}\n" for _ in range(2)]
    site.file("archive/signed.csv", "".join(signed))
    site.file("archive/revoked.csv", "serial,revoked_at\n" + "".join(sorted(revoked)))
    site.file("docs/runbook.md", RUNBOOK)
    site.file("tools/bundle.py", BUNDLE)
    site.file("tools/prune.py", PRUNE)
    site.finish()


main()
