"""The one exception that users are meant to read."""


class McfError(Exception):
    """Something the user can put right: shown as one or two lines, exit code 2, no traceback.

    The message says what is wrong and what to do about it.
    """
