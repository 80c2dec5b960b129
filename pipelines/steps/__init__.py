"""What is made from what: steps, their fingerprints, the plan, the estimate."""
