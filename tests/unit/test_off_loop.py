"""Large work leaves the event loop to others, little work doesn't pay for a thread."""

from __future__ import annotations

import threading

import pytest

from plait.domain.off_loop import LITTLE, off_loop


@pytest.mark.parametrize(("chars", "here"), [(0, True), (LITTLE, True), (LITTLE + 1, False)])
async def test_only_large_work_has_a_thread(chars: int, here: bool) -> None:
    def work(word: str, *, times: int) -> tuple[str, threading.Thread]:
        return word * times, threading.current_thread()

    said, thread = await off_loop(chars, work, "ab", times=2)
    assert said == "abab"
    assert (thread is threading.current_thread()) == here


@pytest.mark.parametrize("chars", [0, LITTLE + 1])
async def test_what_goes_wrong_is_raised(chars: int) -> None:
    with pytest.raises(ZeroDivisionError):
        await off_loop(chars, divmod, 1, 0)
