"""Following a plan: the runner, the workspace, who made what."""
