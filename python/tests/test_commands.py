"""Every command that the documentation shows is one that the program takes.

Most of them need devices, hours or another host, so they are not carried out: each is asked for its
help, which the program prints only if all that stands before is understood. A flag that was renamed,
a value that is no longer one and a command that is gone are found.
"""

import re
import shlex
import subprocess
import unittest
from collections.abc import Iterator
from pathlib import Path

from ground import TREE, ioecho, needs_program

BLOCK = re.compile(r"^```(?:sh)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: Where a command of the shell ends.
ENDS = {"|", "||", "&&", ";", "&", ">", "<", "2>", ">>", "done", ")"}


def commands(page: Path) -> Iterator[list[str]]:
    """The command lines of ioecho in the blocks of a page, as words."""
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            if not (found := re.match(r"\s*(?:sudo )?(ioecho .*)", line)):
                continue
            words = shlex.shlex(found[1], posix=True, punctuation_chars="|&;<>()")
            words.whitespace_split = True
            words.commenters = "#"
            line_words: list[str] = []
            for word in words:
                if word in ENDS:
                    # `3< file` redirects a descriptor, which is no argument.
                    if word in "<>" and line_words[-1].isdigit():
                        line_words.pop()
                    break
                line_words.append(word)
            # `…` and `NAME…` stand for what the reader fills in, `$A` for what the shell does.
            if not any("…" in word or "$" in word or "[" in word for word in line_words):
                yield line_words[1:]


@needs_program
class Commands(unittest.TestCase):
    def test_help_is_refused_where_the_rest_is_not_understood(self):
        for wrong in (["replay", "x", "--speedupp=2"], ["replay", "x", "--speedup=fast"], ["redo"]):
            done = subprocess.run(
                [ioecho.binary(), *wrong, "--help"], capture_output=True, text=True
            )
            self.assertEqual(done.returncode, 2, wrong)

    def test_every_command_that_is_shown_is_understood(self):
        pages = [TREE / "README.md", TREE / "packaging/README.md", *(TREE / "docs").rglob("*.md")]
        tried = 0
        for page in sorted(pages):
            for words in commands(page):
                # What follows `--` is another program's.
                own = words[: words.index("--")] if "--" in words else words
                done = subprocess.run(
                    [ioecho.binary(), *own, "--help"], capture_output=True, text=True
                )
                tried += 1
                with self.subTest(page=page.name, command=shlex.join(words)):
                    self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(tried, 100)


if __name__ == "__main__":
    unittest.main()
