# SPDX-License-Identifier: Apache-2.0
"""What mkdocs.yml adds to MkDocs: README.md is the front page; links into the checkout lead to the repository; each
command has a page with the text of its manual page, if a build is there (FAIRLEAD_BUILD, default: build)."""

import html
import os
import pathlib
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Pages outside docs/, and their places in the site.
OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
MANUAL = pathlib.Path(os.environ.get("FAIRLEAD_BUILD", ROOT / "build")) / "share/man/man1"
GLYPHS = {"\\-": "-", "\\(ga": "`", "\\(ha": "^", "\\(ti": "~", "\\&": "", "\\e": "\\"}


def site_place(path):
    """Where the site has a file of the checkout; None where it has none."""
    if path in OUTSIDE:
        return OUTSIDE[path]
    return path[len("docs/"):] if path.startswith("docs/") and (ROOT / path).is_file() else None


def relinked(markdown, page, repository):
    """The links of a page of the checkout, in text but not in blocks of code, as the site needs them."""
    here = site_place(page)

    def link(match):
        target, hash_sign, anchor = match[1].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        path = os.path.normpath(os.path.join(os.path.dirname(page), target))
        place = site_place(path)
        if not (ROOT / path).exists():
            return match[0]  # MkDocs reports it
        target = os.path.relpath(place, os.path.dirname(here)) if place else f"{repository}/{path}"
        return f"]({target}{hash_sign}{anchor})"

    parts = re.split(r"(```.*?```)", markdown, flags=re.S)
    return "".join(part if part.startswith("```") else re.sub(r"\]\(([^)\s]+)\)", link, part) for part in parts)


def manual_page(roff):
    """Markdown of a manual page. tools/common/manual.cpp writes few requests, each at the start of a line."""
    def text(line):
        line = html.escape(re.sub(r"\\(?:-|&|e|\(\w\w)", lambda glyph: GLYPHS[glyph[0]], line), quote=False)
        line = line.replace("fairlead-options(7)", '<a href="../../reference/options/">fairlead-options(7)</a>')
        return re.sub(r"(fairlead[\w-]*)\(1\)", r'<a href="../\1/">\1(1)</a>', line)

    out, in_list, literal, term = [], False, False, None
    for line in roff.splitlines():
        request, _, rest = line.partition(" ")
        if in_list and request in (".SH", ".SS", ".PP"):
            out.append("</dl>\n")
            in_list = False
        if request in (".SH", ".SS"):
            out.append(f"\n{'##' if request == '.SH' else '###'} {text(rest).capitalize()}\n")
        elif request == ".B":
            if not in_list:
                out.append("<dl>")
                in_list = True
            out.append(f"<dt><code>{text(rest)}</code></dt>")
        elif request in (".nf", ".fi"):
            literal = request == ".nf"
            out.append("<pre><code>" if literal else "</code></pre>\n")
        elif line and not line.startswith("."):
            out.append(text(line) if literal else f"<dd>{text(line)}</dd>" if in_list else f"<p>{text(line)}</p>\n")
    return "\n".join(out).replace("<pre><code>\n", "<pre><code>").replace("\n</code>", "</code>")


def on_config(config):
    if MANUAL.is_dir():
        names = sorted(page.stem for page in MANUAL.glob("*.1"))
        config.nav.insert(-1, {"Manual": [{name.replace("-", " ", 1): f"manual/{name}.md"} for name in names]})
    return config


def on_files(files, config):
    for path, place in OUTSIDE.items():
        front = "---\nhide: [navigation]\n---\n" if place == "index.md" else ""
        files.append(File.generated(config, place, content=front + (ROOT / path).read_text()))
    files.append(File.generated(config, "site.css", content=(ROOT / "packaging/site/site.css").read_text()))
    for page in MANUAL.glob("*.1"):
        title = page.stem.replace("-", " ", 1)
        files.append(File.generated(config, f"manual/{page.stem}.md", content=f"# {title}\n{manual_page(page.read_text())}"))
    return files


def on_page_markdown(markdown, page, config, files):
    sources = {place: path for path, place in OUTSIDE.items()}
    if page.file.src_uri.startswith("manual/"):
        return markdown
    repository = f"{config.repo_url.rstrip('/')}/blob/{os.environ.get('GITHUB_REF_NAME', 'main')}"
    return relinked(markdown, sources.get(page.file.src_uri, "docs/" + page.file.src_uri), repository)
