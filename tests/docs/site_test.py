#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The site builds without a warning, each link of its pages leads to a page and a title of it, and it has the text of
the manual pages. Skipped where MkDocs with Material is not installed (mkdocs.yml says how)."""

import collections
import html.parser
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["FAIRLEAD_TEST_TREE"]).resolve()


class Page(html.parser.HTMLParser):
    def __init__(self, file):
        super().__init__()
        self.links, self.ids, self.text = [], set(), ""
        self.feed(file.read_text())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids.add(values.get("id"))
        self.links += [values[name] for name in ("href", "src") if values.get(name)]

    def handle_data(self, data):
        self.text += data


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        result = subprocess.run(["mkdocs", "build", "--quiet", "--strict", "--site-dir", cls.root], cwd=ROOT, text=True,
                                capture_output=True, env={**os.environ, "FAIRLEAD_BUILD": str(BUILD)})
        cls.printed, cls.result = result.stdout + result.stderr, result.returncode
        cls.pages = {file: Page(file) for file in cls.root.rglob("*.html") if file.name != "404.html"}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_builds_without_a_warning(self):
        self.assertEqual(self.result, 0, self.printed)
        self.assertIn(self.root / "index.html", self.pages)

    def test_links_lead_somewhere(self):
        broken = collections.defaultdict(list)
        for file, page in self.pages.items():
            for link in page.links:
                url = urllib.parse.urlsplit(link)
                if url.scheme or url.netloc:
                    continue
                target = file if not url.path else (file.parent / urllib.parse.unquote(url.path)).resolve()
                target = target / "index.html" if target.is_dir() else target
                if not target.exists() or url.fragment and url.fragment not in self.pages[target].ids:
                    broken[str(file.relative_to(self.root))].append(link)
        self.assertEqual(broken, {})

    def test_shows_the_manual_pages(self):
        for source in (BUILD / "share/man/man1").glob("*.1"):
            text = self.pages[self.root / "manual" / source.stem / "index.html"].text
            options = [line[3:].replace("\\-", "-") for line in source.read_text().splitlines() if line.startswith(".B \\-")]
            self.assertEqual([option for option in options if option not in text], [])


def help_of(*words):
    try:
        return subprocess.run(["mkdocs", *words], text=True, capture_output=True).stdout
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    version = re.search(r"version (\d+)\.(\d+)", help_of("--version"))
    if not version or (int(version[1]), int(version[2])) < (1, 6) or "material" not in help_of("build", "--help"):
        print("skipped: no MkDocs 1.6 with Material here (pip install --group site)")
        sys.exit(77)
    unittest.main()
