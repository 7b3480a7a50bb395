"""What the rules of secrets find in real repositories, what each detector that is left out would add, and
what looking costs.

    python -m benchmarks.secrets_found PATH... [--show] [--all-detectors]

Every line is one repository. `left out`: files that are secrets by name or content. `masked`: credentials
covered in the others, and in how many files. Which of them are false alarms a person has to say: `--show`
prints each with its place and rule, shortened, since these are published test values. `seconds`: CPU time of
masking alone, `MB/s`: of text.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etl.languages import is_code, language_of
from etl.source.walk import Cause, walk
from plait.secrets.mask import Masker

# Detectors of detect-secrets that Plait leaves off: module, class.
LEFT_OFF = (
    ("keyword", "KeywordDetector"),
    ("high_entropy_strings", "Base64HighEntropyString"),
    ("high_entropy_strings", "HexHighEntropyString"),
    ("ip_public", "IPPublicDetector"),
    ("artifactory", "ArtifactoryDetector"),
    ("basic_auth", "BasicAuthDetector"),
    ("discord", "DiscordBotTokenDetector"),
    ("telegram_token", "TelegramBotTokenDetector"),
    ("twilio", "TwilioKeyDetector"),
    ("ibm_cloud_iam", "IbmCloudIamDetector"),
)


@dataclass(slots=True)
class Found:
    files: int = 0
    size: int = 0
    masked_files: int = 0
    seconds: float = 0.0
    left_out: list[tuple[str, str]] = field(default_factory=list)
    rules: Counter[str] = field(default_factory=Counter)
    places: list[str] = field(default_factory=list)


def examine(root: Path, masker: Masker) -> Found:
    """The files of `root` that an index would read, through the masker."""
    listed = walk(root, max_file_bytes=1_000_000)
    named = {Cause.SECRET_NAME.value, Cause.SECRET_CONTENT.value}
    found = Found(left_out=[one for one in listed.skipped if one[1] in named])
    for file in listed.files:
        body = (root / file.path).read_bytes()
        code = is_code(language_of(file.path))
        start = time.process_time()
        masker.body(body, code=code)
        found.seconds += time.process_time() - start
        text = body.decode("latin-1")
        spans = masker.find(text, code=code)
        found.files += 1
        found.size += len(text)
        found.masked_files += bool(spans)
        last = ""
        for begin, end, rule in spans:
            found.rules[rule] += rule != "private-key" or last != rule
            last = rule
            line = text.count("\n", 0, begin) + 1
            around = text[max(text.rfind("\n", 0, begin) + 1, begin - 40) : begin].strip()
            found.places.append(f"{file.path}:{line}: {rule}: {around}{text[begin:end][:12]}…")
    return found


def detectors(root: Path) -> Counter[str]:
    """Findings of each detector that is left off, by itself."""
    import importlib

    found: Counter[str] = Counter()
    made = [
        getattr(importlib.import_module(f"detect_secrets.plugins.{module}"), kind)()
        for module, kind in LEFT_OFF
    ]
    for file in walk(root, max_file_bytes=1_000_000).files:
        lines = (root / file.path).read_bytes().decode("utf-8", "replace").splitlines()
        for detector in made:
            for line in lines:
                values = set(detector.analyze_string(line)) if len(line) < 2000 else set()
                found[type(detector).__name__] += sum(_is_entropic(detector, one) for one in values)
    return found


def _is_entropic(detector: Any, value: str) -> bool:
    """The entropy detectors' own limit, which they apply a step later than the others' patterns."""
    limit = getattr(detector, "entropy_limit", None)
    return limit is None or detector.calculate_shannon_entropy(value) > limit


def main() -> None:
    out = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    out.add_argument("paths", nargs="+", type=Path)
    out.add_argument("--show", action="store_true", help="print every place")
    out.add_argument("--all-detectors", action="store_true", help="count what is left off, slow")
    args = out.parse_args()
    masker = Masker()
    print(
        f"{'repository':22}{'files':>7}{'MB':>7}{'left out':>10}{'masked':>8}{'in files':>10}{'seconds':>9}{'MB/s':>7}"
    )
    for path in args.paths:
        found = examine(path, masker)
        speed = found.size / 1e6 / max(found.seconds, 1e-9)
        print(
            f"{path.name[:21]:22}{found.files:7,}{found.size / 1e6:7.1f}{len(found.left_out):10}"
            f"{found.rules.total():8}{found.masked_files:10}{found.seconds:9.2f}{speed:7.0f}"
        )
        print(
            "  "
            + (
                ", ".join(f"{rule} {n}" for rule, n in found.rules.most_common())
                or "nothing masked"
            )
        )
        if args.show:
            print("\n".join(f"  {cause}: {name}" for name, cause in found.left_out))
            print("\n".join(f"  {place}" for place in found.places))
        if args.all_detectors:
            print(
                "  left off: " + ", ".join(f"{k} {n:,}" for k, n in detectors(path).most_common())
            )


if __name__ == "__main__":
    main()
