"""Save a directory, let something go wrong in it, look at what changed, and bring it back.

Usage: workspace_by_hand.py DIRECTORY
"""

import sys
from pathlib import Path

import agentrewind


def main(directory: str) -> None:
    with agentrewind.Workspace(directory) as workspace:
        before = workspace.snapshot("before the clean-up")
        print(f"saved {before.coverage.entries} entries as {before.id}")

        for path in Path(directory).rglob("*.txt"):
            path.unlink()

        after = workspace.snapshot("after the clean-up")
        for change in workspace.diff(before.id, after.id).items:
            print(change.status, change.path)

        report = workspace.restore(before.id)
        print(f"brought back {len(report.acts)} paths; {report.live} is the way back to the clean-up")


if __name__ == "__main__":
    main(sys.argv[1])
