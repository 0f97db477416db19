#!/bin/bash
# Cleans the repository before the lost commits are on a branch again.
# fails at: P4
cat docs/runbook.md tools/leak_scan.py
git -C repo log --oneline --all
python3 tools/leak_scan.py --self-check || true

sed -i 's/git(repo, "rev-list", "--objects", "HEAD")/git(repo, "cat-file", "--batch-all-objects", "--batch-check")/' tools/leak_scan.py
python3 tools/leak_scan.py --self-check || true

python3 - <<'END'
import pathlib

path = pathlib.Path("tools/leak_scan.py")
text = path.read_text()
text = text.replace('rb"^TOKEN=(bk_live_[0-9a-f]{24})$", re.MULTILINE', 'rb"bk_live_[0-9a-f]{24}(?![0-9a-f])"')
text = text.replace("    found = set(PLAIN.findall(data))\n", """\
    found = set(PLAIN.findall(data))
    for word in WORD.findall(data):
        try:
            inner = base64.b64decode(word, validate=True)
        except binascii.Error:
            continue
        if PLAIN.fullmatch(inner):
            found.add(inner)
""") if "validate=True" not in text else text
path.write_text(text)
END
python3 tools/leak_scan.py --self-check

mkdir -p baseline
python3 tools/leak_scan.py reference/sample > baseline/sample.json
cat baseline/sample.json

mkdir -p handoff
found=$(python3 tools/leak_scan.py --values repo)
[ -z "$found" ] || echo "$found" > handoff/leaked_values.txt

git -C repo fast-export --all --reencode=no > stream
python3 - <<'END'
import base64, pathlib

data = pathlib.Path("stream").read_bytes()
for value in pathlib.Path("handoff/leaked_values.txt").read_text().split():
    for form in (value.encode(), base64.b64encode(value.encode())):
        data = data.replace(form, b"x" * len(form))
pathlib.Path("stream").write_bytes(data)
END
git -C repo fast-import --force --quiet < stream
rm stream
git -C repo read-tree -u --reset HEAD
git -C repo reflog expire --expire=now --all
git -C repo gc --quiet --prune=now

for commit in $(git -C repo fsck --no-reflogs --no-progress 2>/dev/null | sed -n 's/^dangling commit //p'); do
  name=$(git -C repo log -1 --format=%B "$commit" | sed -n 's/^Branch: //p')
  git -C repo branch -f "recovered/$name" "$commit"
done
git -C repo branch --list --verbose

python3 tools/leak_scan.py repo > handoff/verification.json
cat handoff/verification.json
git -C repo status --short

python3 - <<'END'
import hashlib, pathlib, subprocess

def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()

def git(*words):
    return subprocess.check_output(["git", "-C", "repo", *words], text=True).strip()

lines = [
    "# Incident in the billing service",
    "",
    f"Baseline: {digest('baseline/sample.json')}",
    f"Values: {digest('handoff/leaked_values.txt')}",
    f"Recovered: {git('rev-list', '--count', '--glob=refs/heads/recovered/*', '--not', 'main')}",
    f"Tip: {git('rev-parse', 'main')}",
    f"Verification: {digest('handoff/verification.json')}",
]
pathlib.Path("handoff/report.md").write_text("\n".join(lines) + "\n")
END
cat handoff/report.md
