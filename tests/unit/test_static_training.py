"""What the static table is trained on: permissive packages that no set of Plait's is about, and pairs from their code."""

from __future__ import annotations

from pathlib import Path

from benchmarks.localisation import TUNED
from benchmarks.polyglot_corpus import PROJECTS, WHOLE
from benchmarks.static_table.packages import Package, packages
from benchmarks.static_table.pairs import COMMENT, NAME, of_package

PERMISSIVE = ("MIT", "MIT-0", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSD-3-Clause-like")
# The other sets' trees: messages, issues, histories.
MEASURED = {
    *TUNED, "httpx", "starlette", "datasette", "flask", "werkzeug", "jinja2", "django", "black", "rich", "tornado",
    "eslint", "mocha", "retrofit", "pip-tools",
}  # fmt: skip


def test_the_packages_are_permissive_and_in_no_set_that_plait_is_measured_on() -> None:
    known = packages()
    measured = MEASURED | {p.name.rpartition(":")[2].lower() for p in (*PROJECTS, *WHOLE)}
    assert {p.licence for p in known} <= set(PERMISSIVE)
    assert not {p.name.rpartition(":")[2].lower() for p in known} & measured
    assert {p.registry for p in known if p.held_out} == {"pypi", "npm", "maven"}
    assert len({p.key for p in known}) == len(known)


PYTHON = '''
class Reader:
    def read_all_lines(self, path):
        """Give back what a text file on the disk holds, line by line."""
        with open(path, encoding=self.encoding) as handle:
            return [line.rstrip() for line in handle]
'''
JAVA = """
package shop;
public class Cart {
    /**
     * Adds the prices of everything that is in this cart.
     * @param tax whether taxes are included
     */
    public int totalPrice(boolean tax) {
        int sum = 0;
        for (Item item : items) { sum += item.price(tax); }
        return sum;
    }
}
"""


def test_comments_and_names_are_paired_with_the_code_without_them(tmp_path: Path) -> None:
    package = Package("pypi", "toy", "1", "MIT", held_out=False)
    for name, text in (("toy/files.py", PYTHON), ("shop/Cart.java", JAVA)):
        file = tmp_path / package.key / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    surfaces: dict[str, object] = {}
    found = of_package(package, tmp_path, surfaces)  # type: ignore[arg-type]
    comments = [pair for pair in found if pair.kind == COMMENT]
    named = [pair for pair in found if pair.kind == NAME]
    assert [{"disk", "text", "hold"} <= set(pair.query) for pair in comments].count(True) == 1
    assert [{"pric", "cart"} <= set(pair.query) for pair in comments].count(True) == 1
    assert all("disk" not in pair.document and "tax" not in pair.query for pair in comments)
    assert {"total", "pric"} in [set(pair.query) for pair in named]
    assert all("totalprice" not in pair.document for pair in named)
    assert surfaces["pric"]
    assert found == of_package(package, tmp_path, {})
