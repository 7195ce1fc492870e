"""The API reference has a page for every public name, and its check of the built site finds what is wrong."""

import importlib.util
import sys

import pytest
from doc_pages import ROOT
from public_names import public_names

import manihash

pytest.importorskip("sphinx")
if not (ROOT / "docs").exists():
    pytest.skip("the documentation is not part of this installation", allow_module_level=True)


@pytest.fixture(scope="module")
def check_site():
    """The module docs/check_site.py."""
    spec = importlib.util.spec_from_file_location("check_site", ROOT / "docs/check_site.py")
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


def test_every_public_name_is_listed_once(check_site):
    listed = [name for names in check_site.subjects().values() for name in names]
    assert {f"manihash.{name}" for name in public_names(manihash._PACKAGES)} <= set(listed)
    assert len(listed) == len(set(listed))


def test_every_subject_with_names_is_in_the_table_of_contents(check_site):
    contents = (ROOT / "docs/api/index.md").read_text("utf-8").splitlines()
    assert [file for file, names in check_site.subjects().items() if names and file not in contents] == []


def test_broken_links_and_other_hosts_are_found(check_site, tmp_path):
    site = tmp_path.resolve()
    (site / "a.html").write_text('<a href="b.html#there">x</a> <h1 id="top"></h1>')
    (site / "b.html").write_text(
        '<h1 id="there"></h1> <a href="a.html#top">x</a> <a href="https://x.org">x</a>'
    )
    pages = {path: check_site.Page(path) for path in site.glob("*.html")}
    assert check_site.broken_links(site, pages) == []
    assert check_site.other_hosts(site, pages) == []
    (site / "b.html").write_text(
        '<a href="c.html"></a> <a href="a.html#no"></a> <script src="//x.org/y.js"></script>'
    )
    (site / "s.css").write_text("@import url('https://x.org/font.css');")
    pages = {path: check_site.Page(path) for path in site.glob("*.html")}
    assert len(check_site.broken_links(site, pages)) == 3
    assert len(check_site.other_hosts(site, pages)) == 2
