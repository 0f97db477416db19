#!/bin/bash
set -e

# step look
cat docs/writing.md tools/gendoc.py Makefile
head -n 20 docs/reference.md api/mixer.py

# step anchors
sed -i 's/## {name} {{#{name}}}/## {name} {{#{module}-{name}}}/' tools/gendoc.py

# step continued
python3 - <<'END'
import pathlib

path = pathlib.Path("tools/gendoc.py")
text = path.read_text()
if "#@+ " not in text:
    text = text.replace('        if not line.startswith("#@ "):\n', '''\
        if line.startswith("#@+ "):
            found[-1][-1][1] += " " + line[4:]
        if not line.startswith("#@ "):
''')
path.write_text(text)
END

# step errata
[ -e errata/errata.csv ] || python3 - <<'END'
import csv, pathlib, re, subprocess

def texts(path):
    found, anchor = [], ""
    for line in pathlib.Path(path).read_text().splitlines():
        if head := re.match(r"## .* \{#(.*)\}", line):
            anchor = head[1]
        elif arg := re.match(r"- `(\w+)`: (.*)", line):
            found.append((anchor, "arg " + arg[1], arg[2]))
        elif end := re.match(r"Returns (.*)\. Since (.*)\.$", line):
            found += [(anchor, "returns", end[1]), (anchor, "since", end[2])]
    return found

subprocess.run(["python3", "tools/gendoc.py", "--out", "fresh.md"], check=True)
pairs = zip(texts("fresh.md"), texts("docs/reference.md"))
rows = [(*made, right[2]) for made, right in pairs if made != right]
pathlib.Path("fresh.md").unlink()
pathlib.Path("errata").mkdir(exist_ok=True)
with open("errata/errata.csv", "w", newline="") as file:
    csv.writer(file, lineterminator="\n").writerows([("anchor", "field", "printed", "right"), *rows])
END
wc -l errata/errata.csv

# step upstream
python3 - <<'END'
import csv, pathlib

errata = {(row["anchor"], row["field"]): row["right"] for row in csv.DictReader(open("errata/errata.csv"))}
for path in pathlib.Path("api").glob("*.py"):
    lines, name, replaced = [], "", False
    source = path.read_text().splitlines()
    for line in source:
        if line.startswith("#@+ ") and replaced:
            continue
        replaced = False
        if line.startswith("#@ "):
            field, _, printed = line[3:].partition(": ")
            name = printed if field == "name" else name
            if right := errata.get((f"{path.stem}-{name}", field)):
                line, replaced = f"#@ {field}: {right}", True
        lines.append(line)
    path.write_text("\n".join(lines) + "\n")
END

# step generate
echo 2.4 > VERSION
make docs
head -n 8 docs/reference.md

# step index
python3 - <<'END'
import hashlib, json, pathlib, re

def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()

reference = pathlib.Path("docs/reference.md").read_text()
index = {
    "anchors": re.findall(r"\{#(.*)\}", reference),
    "errata": len(pathlib.Path("errata/errata.csv").read_text().splitlines()) - 1,
    "errata_sha256": digest("errata/errata.csv"),
    "reference_sha256": digest("docs/reference.md"),
}
pathlib.Path("docs/index.json").write_text(json.dumps(index, indent=2) + "\n")
END

# step changes
python3 - <<'END'
import hashlib, pathlib, re

digest = hashlib.sha256(pathlib.Path("docs/index.json").read_bytes()).hexdigest()
path = pathlib.Path("CHANGES.md")
older = re.sub(r"## 2\.4\n.*?(?=## 2\.3)", "", path.read_text(), flags=re.DOTALL)
entry = f"## 2.4\n\n- The corrections of the reference are in its source.\n\nIndex: {digest}\n\n"
path.write_text(older.replace("## 2.3\n", entry + "## 2.3\n"))
END
