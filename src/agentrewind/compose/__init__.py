"""Names and settings to objects: the only part that knows all concrete classes.

With `cli` the only one that looks at the environment and the home directory.
"""
