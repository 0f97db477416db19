"""`python -m agentrewind`: the command, where its script isn't on the path."""

from agentrewind.cli import main

if __name__ == "__main__":
    main()
