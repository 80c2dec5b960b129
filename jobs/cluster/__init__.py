"""A Ray to run on: connecting, profiles, mapping a function over pieces of work, how fast the machine is."""
