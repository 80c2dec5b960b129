"""What a run shows: the live table, plain lines, the summary at the end."""
