# SPDX-License-Identifier: Apache-2.0
"""A page that stands alone: the picture as inline SVG, and its values as tables."""

from __future__ import annotations

from html import escape

from scales import number_text

HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 15px/1.4 sans-serif; color: #222; background: #fff; max-width: 60em; margin: 1.5em auto; padding: 0 1em }}
svg {{ width: 100%; height: auto }}
table {{ border-collapse: collapse; margin: 1em 0 }}
caption {{ text-align: left; font-weight: bold; padding: 0.3em 0 }}
th, td {{ padding: 0.15em 0.8em; text-align: right; border-bottom: 1px solid #ddd }}
th {{ vertical-align: bottom }}
</style>
</head>
<body>
"""


def table(picture, column, quantity):
    series = [one for one in column.series if one.values[quantity.name]]
    title = escape(f"{quantity.label}, {column.title}" if column.title else quantity.label)
    heads = "".join(f'<th scope="col">{escape(one.label)}</th>' for one in series)
    lines = [f"<table>\n<caption>{title}</caption>", f'<tr><th scope="col">{escape(picture.axis)}</th>{heads}</tr>']
    for size in column.sizes():
        cells = [one.values[quantity.name].get(size) for one in series]
        if any(cells):
            texts = "".join(f"<td>{number_text(cell.middle) if cell else ''}</td>" for cell in cells)
            lines.append(f'<tr><th scope="row">{escape(picture.text(size))}</th>{texts}</tr>')
    return "\n".join([*lines, "</table>\n"])


def as_page(picture, svg):
    drawing = svg[svg.index("<svg"):]  # without the XML declaration
    tables = "".join(table(picture, column, quantity) for column in picture.columns for quantity in picture.quantities)
    return f"{HEAD.format(title=escape(picture.title))}{drawing}\n{tables}</body>\n</html>\n"
