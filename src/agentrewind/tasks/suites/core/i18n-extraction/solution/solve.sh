#!/bin/bash
set -e

# step look
cat docs/texts.md docs/renames.csv tools/extract.py
ls locale; find app -name '*.py'
python3 tools/extract.py --check || true

# step below
sed -i 's/(ROOT \/ "app").glob("\*.py")/(ROOT \/ "app").rglob("*.py")/' tools/extract.py
python3 tools/extract.py --check || true

# step calls
python3 - <<'END'
import pathlib

path = pathlib.Path("tools/extract.py")
text = path.read_text()
text = text.replace("    return set(CALL.findall(line))\n", '''\
    plurals = re.findall(r"""\\bplural\\(["']([\\w.]+)["']""", line)
    possible = re.findall(r"# keys: (.*)", line) if re.search(r"""\\b_\\(f["']""", line) else []
    forms = {f"{key}.{form}" for key in plurals for form in ("one", "many")}
    return {*CALL.findall(line), *forms, *(key for names in possible for key in names.split())}
''')
path.write_text(text)
END
python3 tools/extract.py --check

# step baseline
mkdir -p baseline
python3 tools/extract.py --json > baseline/keys.json
cat baseline/keys.json

# step rename
python3 - <<'END'
import csv, json, pathlib

renames = [(row["old"], row["new"]) for row in csv.DictReader(open("docs/renames.csv"))]
for path in pathlib.Path("locale").glob("*.json"):
    texts = json.loads(path.read_text())
    for old, new in renames:
        if old in texts:
            texts[new] = texts.pop(old)
    path.write_text(json.dumps(texts, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
END

# step prune
python3 tools/extract.py --write

# step report
python3 - <<'END'
import hashlib, json, pathlib

baseline = pathlib.Path("baseline/keys.json").read_bytes()
locales = {}
for path in sorted(pathlib.Path("locale").glob("*.json")):
    locales[path.stem] = sum(bool(text) for text in json.loads(path.read_text()).values())
coverage = {
    "keys_sha256": json.loads(baseline)["keys_sha256"],
    "baseline_sha256": hashlib.sha256(baseline).hexdigest(),
    "locales": locales,
}
pathlib.Path("report").mkdir(exist_ok=True)
pathlib.Path("report/coverage.json").write_text(json.dumps(coverage, indent=2) + "\n")
END
cat report/coverage.json

# step changes
python3 - <<'END'
import hashlib, pathlib, re

digest = hashlib.sha256(pathlib.Path("report/coverage.json").read_bytes()).hexdigest()
path = pathlib.Path("CHANGES.md")
entry = f"## Next\n\n- The scanner sees all keys; renamed ones keep their texts.\n\nCoverage: {digest}\n\n"
path.write_text(re.sub(r"## Next\n.*?(?=## 7\n)", entry, path.read_text(), flags=re.DOTALL))
END
