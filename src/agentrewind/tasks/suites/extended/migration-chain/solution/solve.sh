#!/bin/bash
set -e

# step look
cat docs/release.md docs/schema.md tools/migrate.py
cat migrations/*.sql
python3 tools/migrate.py plan || true

# step statements
python3 - <<'END'
import pathlib

path = pathlib.Path("tools/migrate.py")
text = path.read_text()
if "begun" not in text:
    begin, end = text.index("    found = [part.strip()"), text.index("    return found\n\n\ndef migrations")
    text = text[:begin] + '''\
    found, begun = [], ""
    for part in text.split(";")[:-1]:
        begun += part + ";"
        if sqlite3.complete_statement(begun):
            found.append(begun.strip())
            begun = ""
    rest = (begun + text.rpartition(";")[2]).strip()
    if rest:
        sys.exit(f"{name}: not a whole statement: {rest.splitlines()[0]}")
''' + text[end:]
path.write_text(text)
END
python3 tools/migrate.py plan || true

# step down-parts
python3 - <<'END'
import pathlib

path = pathlib.Path("tools/migrate.py")
text = path.read_text()
if "import re\n" not in text:
    text = text.replace("import pathlib\n", "import pathlib\nimport re\n")
    text = text.replace("path.read_text().partition", 're.sub(r"(?im)^-- down[ \\t]*$", "-- down", path.read_text()).partition')
path.write_text(text)
END
python3 tools/migrate.py plan

# step plan
mkdir -p release
[ -e release/plan.json ] || python3 tools/migrate.py plan > release/plan.json

# step fourth
python3 - <<'END'
import pathlib

path = pathlib.Path("migrations/0004_texts.sql")
text = path.read_text()
text = text.replace("SELECT id, summary FROM new_tickets WHERE length(summary) > 200;", "SELECT id, body FROM tickets WHERE length(body) > 200;")
if "tickets_by_customer" not in text:
    audit = pathlib.Path("migrations/0002_audit.sql").read_text()
    text = text.replace("-- Down\n", audit[audit.index("CREATE INDEX"):audit.index("-- down")] + "-- Down\n")
path.write_text(text)
END
cat migrations/0004_texts.sql

# step up
python3 tools/migrate.py up

# step rows
python3 tools/rowsums.py > release/rows.json
cat release/rows.json

# step down
python3 tools/migrate.py plan --to 3 > release/down.json

# step notes
cat > release/NOTES.md <<END
# Release 6

Tickets have a summary and an urgency; long texts are kept apart, and a mail address occurs once.

Plan: $(sha256sum release/plan.json | cut -d' ' -f1)
Rows: $(sha256sum release/rows.json | cut -d' ' -f1)
Down: $(sha256sum release/down.json | cut -d' ' -f1)
END
