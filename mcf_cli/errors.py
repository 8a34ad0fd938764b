"""The exceptions that users are meant to read."""


class McfError(Exception):
    """Something the user can put right: shown as one or two lines, exit code 2, no traceback.

    The message says what is wrong and what to do about it.
    """

    exit_code = 2


class RunError(McfError):
    """Nothing is wrong with what was asked for, but it could not be carried through: exit code 1."""

    exit_code = 1
