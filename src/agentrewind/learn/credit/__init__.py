"""Credit: archives of trials to decision samples with advantages. Pure, and without torch."""
