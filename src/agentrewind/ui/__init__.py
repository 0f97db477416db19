"""What people look at: a run as a page in the browser."""
