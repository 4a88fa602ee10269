"""Build the labeller as one page that runs in a browser and asks for nothing once it is loaded.

The page holds the packages cxr_labels and cxr_files as they are, and Pyodide, which is CPython for
browsers. Two modules are replaced (stand_ins/): settings and rules are read here, by pydantic and
PyYAML, and travel as JSON. Pyodide comes from the npm registry; its files are known by their
digests. Where npm cannot fetch them, one line says so and no page is written.
"""

import argparse
import base64
import gzip
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import cxr_files
import cxr_labels
import cxr_labels.rules
from cxr_files.atomic import atomic_path
from cxr_files.errors import InputError
from cxr_files.program import run
from cxr_labels.rules import read_rules
from cxr_labels.settings import ReportSettings

SOURCES = Path(__file__).parent
sys.path.insert(0, str(SOURCES))
from pasted_report import LAYOUT  # noqa: E402 - a module of the page, beside this one

PYODIDE = "pyodide@314.0.7"
DIGESTS = {
    "pyodide.mjs": "6f1d60f7bf529beb300f0f47983c921d3982363640ba20af0e38efdddbc66109",
    "pyodide.asm.mjs": "f7cdc8ece80678ceb712f8e65ebe6d3a83203a180c399865f49612a051693635",
    "pyodide.asm.wasm": "cc36e3cab04fdfc9a63ff13eb52eae2b911bf46c025cc7b281f394bd3de1d5e6",
    "python_stdlib.zip": "fa1957e5777068fc4f7437f96d860ae2fbe9c19732ba06c84e004ec16dd7dd7a",
    "pyodide-lock.json": "5dc2fc119108bc148c7457dc86e7675b5c87e1cafd420b9c34c1eaef7b36c010",
}
EMBEDDED = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
LABELLER = "labeller.zip"
# Read only for studies of MIMIC-CXR by their numbers, which a pasted report has not; JSON would
# turn these into texts.
NOT_READ = "mimic_cxr/special_cases"
LARGEST = 15_000_000  # bytes of the page


class NotBuilt(Exception):
    """The page cannot be built here; the message says why."""


def fetch_pyodide(folder: Path) -> Path:
    """Fetch Pyodide's files into ``folder``, unless they are there already; return it.

    Raises:
        NotBuilt: npm is not there, or cannot fetch them.
        InputError: a file is not the one that is expected.
    """
    if all(map(is_expected, (folder / name for name in DIGESTS))):
        return folder
    npm = shutil.which("npm")
    if npm is None:
        raise NotBuilt("npm is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        command = [npm, "pack", PYODIDE, "--silent", "--pack-destination", place]
        packed = subprocess.run(command, capture_output=True, text=True, check=False)
        archives = list(Path(place).glob("*.tgz"))
        if packed.returncode or len(archives) != 1:
            said = packed.stderr.strip().splitlines() or ["it says nothing"]
            raise NotBuilt(f"npm could not fetch {PYODIDE}: {said[-1]}")
        with tarfile.open(archives[0]) as archive:
            for name in DIGESTS:
                member = archive.extractfile(f"package/{name}")
                assert member is not None, "a regular file"
                content = member.read()
                if digest(content) != DIGESTS[name]:
                    raise InputError(
                        f"{PYODIDE}: {name} has the SHA-256 {digest(content)}; "
                        f"expected {DIGESTS[name]}"
                    )
                with atomic_path(folder / name) as path:
                    path.write_bytes(content)
    return folder


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def is_expected(path: Path) -> bool:
    return path.is_file() and digest(path.read_bytes()) == DIGESTS[path.name]


def labeller_zip() -> bytes:
    """The Python of the page: both packages, the stand-ins, and settings and rules as JSON."""
    modules = {
        str(path.relative_to(root.parent)): path.read_bytes()
        for root in (Path(cxr_labels.__file__).parent, Path(cxr_files.__file__).parent)
        for path in root.rglob("*.py")
    }
    stand_ins = {
        str(path.relative_to(SOURCES / "stand_ins")): path.read_bytes()
        for path in (SOURCES / "stand_ins").rglob("*.py")
    }
    assert stand_ins.keys() <= modules.keys(), "a stand-in replaces a module"
    modules |= stand_ins
    modules["pasted_report.py"] = (SOURCES / "pasted_report.py").read_bytes()
    modules["cxr_labels/built.json"] = json.dumps(built()).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(modules):
            archive.writestr(zipfile.ZipInfo(name), modules[name], zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def built() -> dict[str, object]:
    """Settings and rules as JSON holds them, which is checked."""
    folder = Path(cxr_labels.rules.__file__).parent
    names = (str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.yaml"))
    rules = {name: read_rules(name) for name in sorted(names) if name != NOT_READ}
    for name, rule in rules.items():
        if json.loads(json.dumps(rule)) != rule:
            raise InputError(f"{folder / name}.yaml: holds what JSON does not, as keys of numbers")
    settings = ReportSettings().of_layout(LAYOUT).model_dump(mode="json")
    return {"layout": LAYOUT, "settings": settings, "rules": rules}


def page(pyodide: Path) -> str:
    """The page, with all that it needs."""
    parts = {name: (pyodide / name).read_bytes() for name in EMBEDDED} | {LABELLER: labeller_zip()}
    lock = json.loads((pyodide / "pyodide-lock.json").read_text(encoding="utf-8"))
    style, script, text = (
        (SOURCES / name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js", "page.html")
    )
    fillings = {
        "@STYLE@": style,
        "@STYLE_DIGEST@": policy_digest(style),
        "@SCRIPT@": script,
        "@SCRIPT_DIGEST@": policy_digest(script),
        "@LOCK@": json.dumps({"info": lock["info"], "packages": {}}),  # it loads no package
        "@PARTS@": "\n".join(map(embedded, parts, parts.values())),
    }
    for mark, filling in fillings.items():
        assert text.count(mark) == 1, mark
        text = text.replace(mark, filling)
    if len(text.encode()) > LARGEST:
        raise InputError(f"the page has {len(text.encode()):,} bytes; at most {LARGEST:,} expected")
    return text


def embedded(name: str, content: bytes) -> str:
    """A file as an element that a browser does not run: gzip as Base64."""
    packed = base64.b64encode(gzip.compress(content, mtime=0)).decode("ascii")
    return f'<script type="text/plain" id="{name}">{packed}</script>'


def policy_digest(text: str) -> str:
    """How a Content-Security-Policy names a text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def main(argv: Sequence[str] | None = None) -> None:
    """Command line; see the module's docstring."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("output", type=Path, help="the page to write, .html")
    options.add_argument("--pyodide", type=Path, required=True, help="folder for Pyodide's files")
    args = options.parse_args(argv)
    try:
        pyodide = fetch_pyodide(args.pyodide)
    except NotBuilt as reason:
        args.output.unlink(missing_ok=True)  # an older one might give other labels
        print(f"{args.output}: the labeller's page was not built: {reason}", file=sys.stderr)
        return
    with atomic_path(args.output) as path:
        path.write_text(page(pyodide), encoding="utf-8")


if __name__ == "__main__":
    run(main)
