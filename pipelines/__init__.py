"""What is made from what: steps, recipes, plans and results, as plain data."""
