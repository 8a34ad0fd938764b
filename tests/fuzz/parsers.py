"""Everything that reads files of others: a few small valid files of each format, and the function that reads it.

``judge`` runs one input: a result or our own clear error is right, anything else is a finding.
"""

import contextlib
import gzip
import io
import json
import resource
import signal
import tarfile
import tempfile
import traceback
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import mcf_cli
import numpy as np
import scipy.io
import scipy.sparse as sp
from mcf_cli.datasets import userfile
from mcf_cli.datasets.formats import archives
from mcf_cli.datasets.sources import amazon, cifar10, dmoz, mnist, reuters, splice
from mcf_cli.datasets.store import packages as convert
from mcf_cli.errors import McfError
from mcf_cli.experiments.load import load_config
from mcf_cli.experiments.store import Store
from mcf_cli.reporting.claims import load_claims

from tests.fuzz.mutations import Change, mutated

ROOT = Path(__file__).parents[2]
ROOM = 2**30  # bytes that a reader may take on top of what the process has
LONGEST = 20  # seconds for a file of at most 128 kB: anything near it is a hang


@dataclass(frozen=True)
class Parser:
    """A format: valid files, what reads them, and the errors it may raise."""

    seeds: Callable[[], list[bytes]]
    read: Callable[[Path], object]
    suffix: str = ""
    errors: tuple[type[Exception], ...] = (McfError,)
    inside: Callable[[bytes, list[Change]], bytes] | None = None  # changes below the packing


class Finding(AssertionError):
    """An input that was neither read nor refused as it should be."""


def judge(name: str, content: bytes) -> str:
    """``read`` or ``refused``; a Finding for any other end: a traceback, a hang, too much memory."""
    parser = PARSERS[name]
    path = _folder() / f"{name}{parser.suffix}"
    path.write_bytes(content)
    try:
        with _limits():
            parser.read(path)
    except parser.errors as error:
        if not str(error).strip() or len(str(error)) > 3000:
            raise Finding(f"{name}: an error of {len(str(error))} letters") from error
        return "refused"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        raise Finding(f"{name}: {type(error).__name__} in {place}: {str(error)[:200]}") from error
    return "read"


def spoilt(name: str, number: int, changes: list[Change], packed: bool) -> bytes:
    """The valid file of that number after the changes, made inside its packing unless ``packed``."""
    parser = PARSERS[name]
    seeds = _seeds(name)
    content = seeds[number % len(seeds)]
    if parser.inside is not None and not packed:
        return parser.inside(content, changes)
    return mutated(content, changes)


class Hang(BaseException):
    """The time was up."""


@contextlib.contextmanager
def _limits() -> Iterator[None]:
    """Little memory and little time. What is limited is the process: the old limits come back afterwards."""

    def stop(*_: object) -> None:
        raise Hang(f"still reading after {LONGEST} s of work")

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = (
        int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else None
    )
    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST)  # the time of this process: others may be busy
    try:
        if pages is not None:
            resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, hard))
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@cache
def _folder() -> Path:
    """One folder for all inputs of this process, gone when it ends."""
    _folder.keep = tempfile.TemporaryDirectory(prefix="mcf-fuzz-")  # type: ignore[attr-defined]
    return Path(_folder.keep.name)  # type: ignore[attr-defined]


@cache
def _seeds(name: str) -> list[bytes]:
    return PARSERS[name].seeds()


# Valid files.


def _yaml() -> list[bytes]:
    return [
        path.read_bytes() for path in sorted((ROOT / "configs").rglob("*.yaml")) if path.name != "claims.yaml"
    ]


def _claims() -> list[bytes]:
    """The first claims of the file: all of them take long to read."""
    text = (ROOT / "configs" / "claims.yaml").read_bytes()
    return [text[: text.rindex(b"\n  - ", 0, 4000) + 1]]


def _svmlight() -> list[bytes]:
    text = b"+1 1:0.5 3:2 # first\n-1 2:1e-3 qid:4 7:-3\n\n1 0:4\n-1 5:0\n"
    return [text, text.replace(b" 0:4", b" 9:4"), gzip.compress(text, mtime=0)]


def _csv() -> list[bytes]:
    return [
        b"a,b,label\n1,2,x\n3.5,-4e2,y\n0,0,x\n",
        b"1,2,0\n3,4,1\n5,6,1\n",
        b'\xef\xbb\xbf"a ""q""","b\nc",y\r\n1,2,"x, y"\r\n2,1,z\r\n',
    ]


def _zipped(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _npz() -> list[bytes]:
    X = np.arange(12.0).reshape(4, 3)
    csr = sp.csr_matrix(X)
    parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": np.array(csr.shape)}
    return [
        _zipped(X=X, y=np.array([0, 1, 0, 1])),
        _zipped(X=X.astype(np.float32), y=np.array(["a", "b", "b", "a"])),
        _zipped(**parts, y=np.array([0.0, 1, 0, 1]), format=np.array("csr")),
    ]


def _models() -> list[bytes]:
    X = np.random.default_rng(0).poisson(1.0, (30, 5)).astype(float)
    corruption = mcf_cli.PerFeature(
        [([0, 1], mcf_cli.Poisson(clip=2.0)), (slice(2, 4), mcf_cli.Gaussian(0.5))]
    )
    models = [
        mcf_cli.MCFClassifier(corruption=mcf_cli.Blankout(q=np.full(5, 0.3)), l2=0.1, max_iter=5),
        mcf_cli.MCFClassifier(corruption=corruption, l2=0.1, max_iter=5),
        mcf_cli.MCFRegressor(corruption="poisson", l2=0.1),
    ]
    contents = []
    for model, y in zip(
        models, (np.arange(30) % 2, np.array(["a", "b", "c"])[np.arange(30) % 3], X[:, 0]), strict=True
    ):
        model.fit(X, y).save(_folder() / "seed.npz")
        contents.append((_folder() / "seed.npz").read_bytes())
    return contents


def _inside_zip(content: bytes, changes: list[Change]) -> bytes:
    """One member changed, the checksums of the zip right again."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    chosen = int(changes[0].at * 1000) % len(members) if changes else 0
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number, (info, body) in enumerate(members):
            archive.writestr(info, mutated(body, changes) if number == chosen else body)
    return packed.getvalue()


REVIEWS = {
    "positive": b"good:2 book:1 very_good:1 #label#:positive\nfine:1 #label#:positive\n",
    "negative": b"bad:1 book:3 ::2 #label#:negative\n",
    "unlabeled": b"book:1 good:1 #label#:positive\n",
}


def _read_reviews(path: Path) -> object:
    folder = path.parent / "reviews" / "books"
    if not folder.exists():
        folder.mkdir(parents=True)
        for kind, text in REVIEWS.items():
            (folder / f"{kind}.review").write_bytes(text)
    path.replace(folder / "positive.review")
    return amazon.read_processed_acl(folder.parent, "books", 100)


def _tar(**members: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, body in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    return file.getvalue()


def _archives() -> list[bytes]:
    members = {f"acl/books/{kind}.review": text for kind, text in REVIEWS.items()}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    plain = _tar(**members)
    return [plain, gzip.compress(plain, mtime=0), packed.getvalue()]


STORY = (
    b'<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" OLDID="5" NEWID="1">\n<TOPICS><D>cocoa</D></TOPICS><TEXT>\n'
    b"<TITLE>BAHIA</TITLE><BODY>Rain &lt;fell> on\ncocoa</BODY></TEXT>\n</REUTERS>\n"
)


def _read_sgml(path: Path) -> object:
    folder = path.parent / "stories"
    if not folder.exists():
        folder.mkdir()
        for name in reuters.SGML_FILES:
            (folder / name).write_bytes(STORY)
    path.replace(folder / reuters.SGML_FILES[0])
    return list(reuters.single_topic(reuters.read_sgml(folder)))


def _rdf() -> list[bytes]:
    page = (
        b'<ExternalPage about="http://a.org/"><d:Title>Title</d:Title><d:Description>Some &amp; more</d:Description>'
        b"<priority>1</priority><topic>Top/Arts/Music</topic></ExternalPage>\n"
    )
    head = b'<?xml version="1.0" encoding="UTF-8"?>\n<RDF xmlns:d="http://d" xmlns="http://x">\n'
    text = head + 3 * page + b"</RDF>\n"
    return [text, gzip.compress(text, mtime=0)]


def _mat() -> list[bytes]:
    arrays = {
        "fea": sp.csc_matrix(np.eye(3)),
        "gnd": np.array([[1], [1], [2]], dtype=np.uint8),
        "trainIdx": np.array([[1], [3]]),
        "testIdx": np.array([[2]]),
    }
    contents = []
    for compressed in (False, True):
        file = io.BytesIO()
        scipy.io.savemat(file, arrays, do_compression=compressed)
        contents.append(file.getvalue())
    return contents


def _png_package() -> list[bytes]:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.zeros((2, 1024, 3), np.uint8)).save(file, "PNG")
    labels = b"[1, 2]"
    return [
        _tar(
            **{
                "a/train_lables.json": labels,
                "a/test_lables.json": labels,
                "a/test_batch.png": file.getvalue(),
            }
        )
    ]


def _converted(converter: str) -> Callable[[Path], object]:
    def read(path: Path) -> None:
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            convert.convert_package(converter, path, Path(folder))

    return read


def _inside_tar(content: bytes, changes: list[Change]) -> bytes:
    """The last member changed, the checksums of the tar right again."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    last = list(members)[-1]
    return _tar(**{**members, last: mutated(members[last], changes)})


def _read_batch(path: Path) -> object:
    with path.open("rb") as stream:
        return cifar10.read_batch(stream, path)


def _stored() -> list[bytes]:
    store = Store(_folder() / "seed", "item")
    with store.writing():
        for number in range(3):
            store.append({"key": str(number), "status": "ok", "rows": [{"value": 0.5}]})
    return [store.path.read_bytes()]


def _read_store(path: Path) -> object:
    store = Store(path.parent / "stored", "item")
    store.folder.mkdir(parents=True, exist_ok=True)
    path.replace(store.path)
    return store.records()


def _user_file(path: Path) -> object:
    return userfile.load_own(path)


STORY_LINE = (
    json.dumps({"id": "1", "topics": ["earn"], "title": "a", "body": "words of a story"}).encode() + b"\n"
)
PAGE_LINE = json.dumps({"url": "http://a.org", "topic": "Top/Arts", "text": "words"}).encode() + b"\n"
SPLICE = b"EI, A-1, " + b"ACGTN" * 12 + b"\nN, B-2, " + b"CCGTA" * 12 + b"\n"
IDX = [b"\x00\x00\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (2, 28, 28)) + bytes(2 * 784)]
BATCH = [b"".join(bytes([label]) + bytes(3072) for label in (3, 7))]

PARSERS = {
    "config": Parser(_yaml, load_config, ".yaml"),
    "claims": Parser(_claims, load_claims, ".yaml"),
    "svmlight": Parser(_svmlight, _user_file, ".svmlight"),
    "csv": Parser(_csv, _user_file, ".csv"),
    "npz": Parser(_npz, _user_file, ".npz", inside=_inside_zip),
    "model": Parser(_models, mcf_cli.load, ".npz", (ValueError,), inside=_inside_zip),
    "review": Parser(lambda: [REVIEWS["positive"]], _read_reviews),
    "archive": Parser(_archives, lambda path: amazon.read_processed_acl(path, "books", 100)),
    "sgml": Parser(lambda: [STORY * 2], _read_sgml),
    "reuters-json": Parser(lambda: [STORY_LINE * 3], lambda path: list(reuters.read_json(path))),
    "mat": Parser(_mat, reuters.read_matrix, ".mat"),
    "rdf": Parser(_rdf, lambda path: dmoz.sample_pages(dmoz.read_rdf(path), 10)),
    "pages": Parser(lambda: [PAGE_LINE * 3], lambda path: list(dmoz.read_pages(path))),
    "idx": Parser(lambda: [*IDX, gzip.compress(IDX[0], mtime=0)], mnist.read_idx),
    "cifar": Parser(lambda: BATCH, _read_batch),
    "splice": Parser(lambda: [SPLICE], splice.read_records),
    "package": Parser(
        _png_package, _converted("cifar_batches"), errors=(archives.BadFile,), inside=_inside_tar
    ),
    "store": Parser(_stored, _read_store),
}
