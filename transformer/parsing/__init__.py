"""Constituency parsing (section 6.3): trees, the symbols they are written in, search among whole trees, and EVALB."""
