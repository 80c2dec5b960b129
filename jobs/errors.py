"""What goes wrong because of what was asked, as opposed to what goes wrong in the code."""


class UserError(Exception):
    """One or two sentences for the person at the keyboard: what is wrong, where, and what to do about it.

    The command line prints the sentence and exits with status 2. Survives pickling, so a worker may raise it.
    """
