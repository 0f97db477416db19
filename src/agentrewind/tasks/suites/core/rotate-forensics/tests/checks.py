"""The checks of rotate-forensics."""

import tomllib

from checking import App, line_of, objects, same

UNSEEN = """\
1600000000|gate|OPEN|C-0|lab
2021-07-01T00:30:00+02:00 gate DENY card=C-77 door=east-wing
2021-07-01T23:30:00-05:30 gate OPEN card=C-8 door=lab
"""
READ = """\
time,action,card,door
2020-09-13T12:26:40Z,OPEN,C-0,lab
2021-06-30T22:30:00Z,DENY,C-77,east-wing
2021-07-02T05:00:00Z,OPEN,C-8,lab
"""
COLUMNS = ("time", "generation", "action", "card", "door")


def p1_the_parser_reads_both_forms(app: App) -> None:
    with app.scratch("tools") as copy:
        (copy.root / "unseen.log").write_text(UNSEEN)
        done = copy.python("tools/parse_log.py", "unseen.log")
        same(done.out, READ, f"what the parser prints ({done.err[-300:]})")
    app.tests_pass("tests")


def p2_the_timeline_is_complete(app: App) -> None:
    same(len(app.rows("forensics/timeline.csv", COLUMNS)), 36, "the number of entries")
    same(app.digest("forensics/timeline.csv"), app.expected["timeline_sha256"], "the digest of the timeline")


def p3_every_generation_is_archived(app: App) -> None:
    wanted = app.expected["generations"]
    same(app.names("forensics/logs"), sorted(wanted), "the archived generations")
    for name, (digest, _) in wanted.items():
        same(app.digest(f"forensics/logs/{name}"), digest, f"the digest of the archived {name}")
    index = [{"file": name, "sha256": digest, "entries": count} for name, (digest, count) in sorted(wanted.items())]
    same(objects(app.json("forensics/index.json"), "the index"), index, "the index")


def p4_the_report_is_made(app: App) -> None:
    rows = [list(row.values()) for row in app.rows("report/weekly.csv", ("door", "action", "count"))]
    same(rows, app.expected["report"], "the report")
    for number, name in enumerate(("gate.log", "gate.log.1", "gate.log.2"), 1):
        same(
            app.digest(f"logs/gate.log.{number}"),
            app.expected["generations"][name][0],
            f"the digest of gate.log.{number}",
        )


def p5_more_is_kept(app: App) -> None:
    try:
        settings = tomllib.loads(app.text("config/rotate.toml"))
    except tomllib.TOMLDecodeError:
        settings = {}
    same(settings, {"keep": 12, "owner": "facilities"}, "the settings of the rotation")


def p6_the_postmortem_agrees(app: App) -> None:
    text = app.text("postmortem.md")
    files = {"Timeline": "forensics/timeline.csv", "Archive": "forensics/index.json", "Report": "report/weekly.csv"}
    for key, path in files.items():
        same(line_of(text, key), app.digest(path), f"the line {key}")
    for key, value in (("Entries", "36"), ("First", app.expected["first"]), ("Last", app.expected["last"])):
        same(line_of(text, key), value, f"the line {key}")
