"""Facts and contracts. Imports nothing of ours from outside this package and only the standard library."""
