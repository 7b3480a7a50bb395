"""Read and write a user's file with care: through links, atomically, with its mode, or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from server.install.refusal import Refused

MAX_BYTES = 64 * 2**20


def target(path: Path, within: Path | None) -> Path:
    """The file that `path` leads to, which need not exist. Raises: Refused, when a link leads out of `within`."""
    try:
        real = path.resolve()
    except (OSError, RuntimeError) as exc:
        raise Refused(f"its links lead nowhere: {exc}") from None
    if within is not None and not real.is_relative_to(within.resolve()):
        raise Refused(f"a link leads out of the project, to {real}; edit that file by hand")
    return real


def read(real: Path) -> str | None:
    """The text of a file; None where there is none. Raises: Refused."""
    try:
        kind = real.stat()
        if not stat.S_ISREG(kind.st_mode):
            raise Refused("it is no regular file")
        if kind.st_size > MAX_BYTES:
            raise Refused(f"it is larger than {MAX_BYTES >> 20} MiB")
        return real.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as exc:
        line = real.read_bytes()[: exc.start].count(b"\n") + 1
        raise Refused("it is not UTF-8; save it as UTF-8 first", line) from None
    except OSError as exc:
        raise Refused(f"it can't be read: {exc.strerror}") from None


def check_writable(real: Path) -> None:
    """Raises: Refused, when the file is read-only: replacing it would go round its owner's wish."""
    with suppress(FileNotFoundError):
        if not real.stat().st_mode & 0o222 or not os.access(real, os.W_OK):
            raise Refused(f"it is read-only; run `chmod u+w {real}` first")


def write(real: Path, text: str, *, private: bool) -> list[Path]:
    """Replace or make the file in one step; returns the folders that were made, outermost first.

    The mode of a file stays; a new one is for its owner alone if `private`. Raises: Refused.
    """
    made = [folder for folder in (real.parent, *real.parent.parents) if not folder.exists()][::-1]
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        _replace(real, text.encode(), private=private)
    except OSError as exc:
        remove_empty(made)
        raise Refused(f"it can't be written: {exc.strerror} ({exc.filename})") from None
    return made


def delete(real: Path) -> None:
    """Raises: Refused."""
    try:
        real.unlink(missing_ok=True)
    except OSError as exc:
        raise Refused(f"it can't be removed: {exc.strerror}") from None


def remove_empty(folders: list[Path]) -> list[Path]:
    """Remove those folders that are empty, innermost first; returns which are gone."""
    gone = []
    for folder in sorted(folders, key=lambda f: len(f.parts), reverse=True):
        try:
            folder.rmdir()
        except FileNotFoundError:
            gone.append(folder)
        except OSError:  # not empty, or not ours to remove: it stays
            continue
        else:
            gone.append(folder)
    return gone


def _replace(real: Path, data: bytes, *, private: bool) -> None:
    before = real.stat() if real.exists() else None
    handle, name = tempfile.mkstemp(prefix=f".{real.name}.", suffix=".plait", dir=real.parent)
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            if before is not None:
                _own_as(out.fileno(), before)
            elif not private:
                os.fchmod(out.fileno(), 0o666 & ~_umask())
            out.flush()
            os.fsync(out.fileno())
        draft.replace(real)
    finally:
        draft.unlink(missing_ok=True)


def _own_as(handle: int, before: os.stat_result) -> None:
    with suppress(PermissionError):  # another's file in a folder of ours: it becomes ours
        os.fchown(handle, before.st_uid, before.st_gid)
    os.fchmod(handle, stat.S_IMODE(before.st_mode))


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
