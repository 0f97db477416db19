"""The checks of trust-store."""

import base64

from checking import App, Unsatisfied, field, line_of, need, same, sha256

FIELDS = ("name", "serial", "not_before", "not_after")
UNSEEN = {
    """\
MIIBaDCCAQ2gAwIBAgIUBi5/yC2j3zJOLh4Qg/u+ASGukg8wCgYIKoZIzj0EAwIw
KTESMBAGA1UECgwJRWxzZXdoZXJlMRMwEQYDVQQDDApQbGFpbiBSb290MB4XDTI2
MTIwMTEzNDU1NVoXDTM2MTEyODEzNDU1NVowKTESMBAGA1UECgwJRWxzZXdoZXJl
MRMwEQYDVQQDDApQbGFpbiBSb290MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
ALt7JX8hEvWlq618FrONPYd/00947+PnlQjYD6TMiuX3vM/NfEJtxoUQMe49YxLD
nN2wItX7/N2RSWVOQ/szI6MTMBEwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQD
AgNJADBGAiEA/jjh+eaVGt7Z4HgIMyD7ZJJ5C+az0vhqWACnx4bCLmMCIQDD8Es6
FBQ9Dx8oPsvK1/HxaAltgUACYqssB06h3Dos7g==
""": ("Plain Root", "062E7FC82DA3DF324E2E1E1083FBBE0121AE920F", "2026-12-01T13:45:55Z", "2036-11-28T13:45:55Z"),
    """\
MIIBtDCCAVmgAwIBAgIUUZ0VTL3ONpn+L+HOIH198jIZbiYwCgYIKoZIzj0EAwIw
TzELMAkGA1UEBhMCU0UxFzAVBgNVBAoMDkVsc2V3aGVyZSwgSW5jMScwJQYDVQQD
DB5XZWlyLCBMb2NrIFwgU29ucyArIENvLCBSb290IDIwHhcNMjYxMjAxMTM0NjM5
WhcNMjYxMjIxMTM0NjM5WjBPMQswCQYDVQQGEwJTRTEXMBUGA1UECgwORWxzZXdo
ZXJlLCBJbmMxJzAlBgNVBAMMHldlaXIsIExvY2sgXCBTb25zICsgQ28sIFJvb3Qg
MjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABKGpGTEpYQn2stWNNCqGwzYjDa3u
UfCi2ZlU/LrrTHCyYOx01kQXGGy5cTM6lAYIG2gwP5Ub5IKKq6+LKhm9aICjEzAR
MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSQAwRgIhAOTONB8Nr6hWjt9O
mU6aBg75h20FuIsBNV/8t5LekIDtAiEAj56U98GKaWZhbCY9dogwXKcM0/7tXZ1m
EMiTtwmOqfo=
""": (
        "Weir, Lock \\ Sons + Co, Root 2",
        "519D154CBDCE3699FE2FE1CE207D7DF232196E26",
        "2026-12-01T13:46:39Z",
        "2026-12-21T13:46:39Z",
    ),
    """\
MIIBNjCB3aADAgECAhRkBykgseUeJ31/gGv3W59euwYRkDAKBggqhkjOPQQDAjAQ
MQ4wDAYDVQQDDAVPbmx5OzAgFw0yNjEyMDExMzQ2MzlaGA8yMDUxMDcyMzEzNDYz
OVowEDEOMAwGA1UEAwwFT25seTswWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASq
LzOwFuhfHaTkP7xm2vd0OKqPr5C2qj0fwNmYm+zd7bRMcbr5TV8ndRK4iOTltp0D
jMMHduRcxdCdgQLYCpPmoxMwETAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMC
A0gAMEUCIA5XADECERzAD2JPhfY2o78fsVhHmgV9DzvCJXDTvNoUAiEA0WJ6X7aA
3rN/JwqkWboJjzEBbj/FQXdWOEdh3kRQsEU=
""": ("Only;", "64072920B1E51E277D7F806BF75B9F5EBB061190", "2026-12-01T13:46:39Z", "2051-07-23T13:46:39Z"),
}
"""Certificates that are nowhere in the workspace, with what has to be said of them."""


def certificates(text: str, what: str) -> list[str]:
    """The digests of the certificates in a PEM text."""
    found = []
    for part in text.split("-----BEGIN CERTIFICATE-----")[1:]:
        body, end, _ = part.partition("-----END CERTIFICATE-----")
        need(end, f"a certificate of {what} has no end")
        try:
            found.append(sha256(base64.b64decode("".join(body.split()), validate=True)))
        except ValueError:
            raise Unsatisfied(f"a certificate of {what} is no base64") from None
    return found


def p1_the_tool_tells_what_certificates_are(app: App) -> None:
    with app.scratch("tools") as copy:
        wanted = []
        text = "These are others.\n"
        for body, about in UNSEEN.items():
            text += f"\n{about[0]}\n-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n"
            wanted.append({**dict(zip(FIELDS, about, strict=True)), "sha256": sha256(base64.b64decode(body))})
        (copy.root / "others.pem").write_text(text, encoding="utf-8")
        done = copy.python("tools/bundle.py", "others.pem")
        need(done.code == 0, f"the tool breaks off: {done.err[-600:]}")
        (copy.root / "said.json").write_text(done.out, encoding="utf-8")
        same(copy.json("said.json"), wanted, "what it says of other certificates")


def table(app: App, path: str, columns: str) -> list[list[str]]:
    return [list(row.values()) for row in app.rows(path, columns.split(","))]


def p2_the_verification_is_on_record(app: App) -> None:
    found = table(app, "records/verification.csv", "document,signed_at,signer,root_sha256,verdict")
    same(found, app.expected["verification"], "the record of the verification")


def p3_the_roots_are_on_record(app: App) -> None:
    found = table(app, "records/roots.csv", "name,serial,not_before,not_after,sha256")
    same(found, app.expected["roots"], "the record of the roots")


def p4_the_bundle_is_pruned(app: App) -> None:
    found = certificates(app.text("trust/bundle.pem"), "the bundle")
    same(found, app.expected["kept"], "the roots of the bundle")


def p5_the_roots_are_found_by_their_hashes(app: App) -> None:
    found = {name: certificates(app.text(f"trust/hashed/{name}"), name) for name in app.names("trust/hashed")}
    same(found, {name: [digest] for name, digest in sorted(app.expected["hashed"].items())}, "what is hashed")


def p6_the_report_agrees(app: App) -> None:
    report = app.json("records/report.json")
    for name in ("verification", "roots"):
        same(field(report, f"{name}_sha256", str), app.digest(f"records/{name}.csv"), f"{name}_sha256")
    same(field(report, "verdicts", dict), app.expected["verdicts"], "verdicts")
    left = certificates(app.text("trust/bundle.pem"), "the bundle")
    removed = [digest for *_, digest in app.expected["roots"] if digest not in left]
    same(field(report, "removed", list), removed, "removed")
    same(field(report, "still", list), app.expected["still"], "still")


def p7_the_attestation_agrees(app: App) -> None:
    text = app.text("attestation.txt")
    same(line_of(text, "report"), app.digest("records/report.json"), "the digest of the report in the attestation")
    same(line_of(text, "bundle"), app.digest("trust/bundle.pem"), "the digest of the bundle in the attestation")
    same(line_of(text, "roots"), str(len(app.expected["kept"])), "the number of roots")
