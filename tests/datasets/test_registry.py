"""The registry is data: these are the properties that the code which reads it relies on."""

import re

import pytest
from mcf_cli.datasets.store import packages as convert
from mcf_cli.datasets.store import registry, verify
from mcf_cli.datasets.store.entry import Download, Package
from mcf_cli.errors import McfError

ENTRIES = list(registry.ENTRIES.values())


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_content_has_a_checksum_or_a_structure(entry):
    for form in entry.forms:
        for file in form.files:
            assert file.contents and (file.is_archive or len(file.contents) == 1)
            for content in file.contents:
                pinned = content.sha256 is not None and re.fullmatch("[0-9a-f]{64}", content.sha256)
                named = content.git_sha1 is not None and re.fullmatch("[0-9a-f]{40}", content.git_sha1)
                assert pinned or named or content.structure in verify.STRUCTURES


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_source_makes_a_form_and_can_be_asked_for_it(entry):
    for source in entry.sources:
        entry.form(source.form)
        if isinstance(source, Package):
            assert source.client in ("npm", "pip") and source.version
            assert not source.convert or source.convert in convert.CONVERTERS
        else:
            assert isinstance(source, Download)
            assert all(re.match(r"https?://[^/]+/", url) for url in source.urls)


@pytest.mark.parametrize("name", ["mnist", "cifar10", "splice", "reuters"])
def test_the_package_registries_are_enough_for(name):
    forms = {source.form for source in registry.entry(name).sources if isinstance(source, Package)}
    assert any(registry.entry(name).form(form).enough for form in forms)


def test_a_name_means_its_data_set_and_a_wrong_one_is_told_the_right_ones():
    assert registry.entry("amazon-books") is registry.AMAZON
    assert registry.entries(["amazon-books", "mnist", "amazon-dvd"]) == [registry.AMAZON, registry.MNIST]
    with pytest.raises(McfError, match="mnist"):
        registry.entry("minst")
    with pytest.raises(McfError, match="svmlight"):
        registry.AMAZON.form("svm")
