"""What can be run: recipes, the rows of Table 3, language pairs, and every setting."""
