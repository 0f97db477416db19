"""What builders and checks of tasks share. Its modules are run beside them, without this package, and know no other."""
