"""The ETL: walk, parse, resolve, chunk, project; and its command lines.

`python -m etl.index_repo .` puts the working folder first on `sys.path`, and users run it inside their
own repositories, which may hold a `graph/`, a `server/` or a `numpy/` too: their code would run in
place of ours. So the working folder leaves the path here, before anything else is imported. (`plait
index` doesn't have this. A repository with a folder `etl/` of its own shadows this package itself;
there, `plait index` or `python -P -m etl.index_repo` is the way.)
"""

import os
import sys


def _leave_working_folder() -> None:
    """Take the working folder off `sys.path`, unless it is the checkout that this package lies in."""
    try:
        here = os.path.realpath(os.getcwd())  # noqa: PTH109
    except OSError:  # it was deleted, so nothing can be imported from it
        return
    if here == os.path.dirname(os.path.dirname(os.path.realpath(__file__))):  # noqa: PTH120
        return
    sys.path[:] = [path for path in sys.path if os.path.realpath(path or ".") != here]
    _refuse_after(here)


def _refuse_after(here: str) -> None:
    """End this process where Python itself, on its way to us, has run a module of the working folder: a
    `types.py`, an `importlib.py`. Nothing of ours can come before that, but it needs to be known."""
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not path:  # built into Python
            continue
        file = os.path.realpath(path)
        folder = os.path.dirname(file)  # noqa: PTH120
        if os.path.basename(file).startswith("__init__."):  # noqa: PTH119
            folder = os.path.dirname(folder)  # noqa: PTH120
        if folder == here:
            sys.exit(
                f"error: Python ran {name!r} of this folder before Plait, as `python -m` looks there first;"
                " use `plait index` or `python -P -m` in folders that you don't trust [FOLDER_SHADOWS_PYTHON]"
            )


# "-m" while Python looks for the module to run (`runpy` puts the real name there later). A program that
# imports this package chose its path itself.
if sys.argv[:1] == ["-m"]:
    _leave_working_folder()
