"""UCI Molecular Biology (Splice-junction Gene Sequences): the paper's Figure on DNA."""

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from mcf_cli.datasets.dataset import Dataset, fingerprint, identical_groups
from mcf_cli.datasets.formats.archives import malformed, numbered_lines, open_bytes, shown
from mcf_cli.datasets.store.verify import Here
from mcf_cli.errors import McfError

SPLICE_CLASSES = ("EI", "IE", "N")

# The nucleotides, then the codes for an uncertain one: 60 x 8 is the paper's D = 480.
SYMBOLS = "ACGTDNSR"
LENGTH = 60


def load_splice(here: Here, symbols: int = 8, together: bool = True) -> Dataset:
    """One-hot sequences over 8 symbols, or over the 4 nucleotides without the rows that hold others.

    Identical sequences stay on one side of every split, unless ``together`` is false.
    """
    if symbols not in (4, 8):
        raise McfError(f"splice: symbols is {symbols}; choose 8 (the paper's D = 480) or 4 (A, C, G, T)")
    records = read_records(next(iter(here.paths.values())))
    key = fingerprint("splice", records, symbols, *(() if together else ("apart",)))
    notes: tuple[str, ...] = ()
    if symbols == 4:
        clear = [record for record in records if set(record[0]) <= set(SYMBOLS[:4])]
        notes = (f"4 symbols: {len(records) - len(clear)} sequences with an uncertain nucleotide left out",)
        records = clear
    if not together:
        notes += ("identical sequences may stand in training and test rows",)
    sequences = [sequence for sequence, _ in records]
    return Dataset(
        name="splice",
        X=one_hot(sequences, SYMBOLS[:symbols]),
        y=np.array([SPLICE_CLASSES.index(label) for _, label in records], dtype=np.int64),
        class_names=SPLICE_CLASSES,
        source="real",
        sha256=key,
        description="Splice junctions of primate DNA (UCI): exon-intron, intron-exon or neither",
        feature_names=position_names(LENGTH, SYMBOLS[:symbols]),
        groups=identical_groups(sequences) if together else None,
        blocks=symbols,
        notes=notes,
    )


def read_records(path: Path) -> list[tuple[str, str]]:
    """The (sequence, class) pairs of `splice.data`, sorted: copies elsewhere have another order."""
    with open_bytes(path) as stream:
        records = [_parse(path, number, line) for number, line in numbered_lines(stream, path)]
    if not records:
        raise McfError(f"{path} holds no sequences: expected lines such as 'EI, NAME, CCAGCT...'")
    return sorted(records)


def _parse(path: Path, number: int, line: str) -> tuple[str, str]:
    fields = [field.strip() for field in line.split(",")]
    where = f"line {number}"
    if len(fields) != 3:
        malformed(path, where, f"expected 'class, name, sequence', got {shown(line.strip())}")
    label, _, sequence = fields
    if label not in SPLICE_CLASSES:
        malformed(path, where, f"expected a class of {', '.join(SPLICE_CLASSES)}, got {shown(label)}")
    if len(sequence) != LENGTH:
        malformed(path, where, f"expected {LENGTH} symbols, got {len(sequence)}")
    if strange := set(sequence) - set(SYMBOLS):
        malformed(path, where, f"expected symbols of {SYMBOLS}, got {shown(''.join(sorted(strange)))}")
    return sequence, label


def one_hot(sequences: list[str], symbols: str) -> sp.csr_matrix:
    """One row per sequence, one block of len(symbols) columns per position, a single 1 in each block."""
    length = len(sequences[0])
    code = np.full(256, -1)
    code[np.frombuffer(symbols.encode(), np.uint8)] = np.arange(len(symbols))
    letters = np.frombuffer("".join(sequences).encode(), np.uint8).reshape(len(sequences), length)
    columns = code[letters] + len(symbols) * np.arange(length)
    row_ends = np.arange(len(sequences) + 1) * length
    shape = (len(sequences), length * len(symbols))
    return sp.csr_matrix((np.ones(columns.size), columns.ravel(), row_ends), shape=shape)


def position_names(length: int, symbols: str) -> tuple[str, ...]:
    """Names such as '-30A': the junction lies between -1 and +1."""
    half = length // 2
    positions = [*range(-half, 0), *range(1, length - half + 1)]
    return tuple(f"{position:+d}{symbol}" for position in positions for symbol in symbols)
