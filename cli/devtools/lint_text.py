"""House rules for text: documents, docstrings, comments and sentences in strings are plain English.

Used by cli.devtools.lint.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator

LONGEST_LINE = 100
# Patterns of words to avoid, each with the plain word.
_WORDS = {
    r"whoever|whomever": "they, or the actor",
    r"himself|herself|he|him|his|she|somebody": "you, they",
    r"anew|afresh": "again",
    r"forestalls?|forestalled": "prevent",
    r"mends?|mended": "fix",
    r"gone on with|goes on with|go on with": "continue, resume",
    r"there (?:is|are|was|were) none of|(?:is|are) none of": "does not exist",
    r"will not do": "is not enough",
    r"but for": "except",
    r"unless (?:you say|it is said|said) otherwise": "by default",
    r"what there (?:is|are)": "name the things",
    r"it is said": "name the actor",
    r"lets? in|letting in": "admit",
    r"told|asked|wanted": "the actor's verb: reported, sent, requested, required",
    r"lets": "allows",
}
_BANNED = re.compile(r"\b(?:" + "|".join(f"(?P<w{at}>{words})" for at, words in enumerate(_WORDS)) + r")\b", re.I)
_REMEDIES = list(_WORDS.values())
# "Whether" may begin the docstring of a function that returns a boolean.
_OPENING = re.compile(r"(?:Who|Whoever|Whose|What|Whatever|Which|How|When|Where|Why|That|Of|It|They)\b")
_START = re.compile(r"[A-Z0-9`]")
_SENTENCE_END = re.compile(r"\.(?=[\s)]|$)|:$")
# A sentence in a string, such as an error or the help of an option.
_SENTENCE = re.compile(r"[A-Z][^\n]* [^\n]*[.?]")
_CODE = re.compile(r"`[^`]*`|\"[^\"]*\"|'[^' ]+'")


def banned_words(text: str) -> Iterator[str]:
    """Return the findings in a line of prose, except inside backticks and quotes."""
    for match in _BANNED.finditer(_CODE.sub("", text)):
        remedy = next(_REMEDIES[at] for at in range(len(_REMEDIES)) if match[f"w{at}"])
        yield f"'{match[0]}': write '{remedy}' (plain English)"


def docstring_mistakes(docstring: str) -> Iterator[str]:
    """Return mistakes at the beginning of a docstring, and at the end of its first sentence."""
    if match := _OPENING.match(docstring):
        yield f"begins with '{match[0]}'; begin with a verb or a noun"
    if not _START.match(docstring):
        yield "begin with a capital letter, a number or a backtick"
    if not _SENTENCE_END.search(docstring.partition("\n\n")[0]):
        yield "end the first sentence with a period"


def check_document(text: str) -> Iterator[tuple[int, str]]:
    """Return findings in a Markdown document as (line number, message).

    Does not check code blocks, nor the width of tables.
    """
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            continue
        if fenced or line.startswith("    "):
            continue
        if len(line) > LONGEST_LINE and not line.startswith("|") and "://" not in line:
            yield number, f"{len(line)} columns; at most {LONGEST_LINE}"
        yield from ((number, what) for what in banned_words(line))


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of the module, its classes and its functions as (line number, text)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring is not None:
                yield node.body[0].lineno, docstring


def prose_lines(text: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the lines of docstrings and comments in a Python file as (line number, text)."""
    for first, docstring in docstrings(tree):
        yield from enumerate(docstring.splitlines(), start=first)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def string_sentences(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the sentences in strings of a Python file, such as errors and help, as (line number, text)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _SENTENCE.fullmatch(node.value):
            yield node.lineno, node.value


def check_code(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Return findings in lines of text from a Python file as (line number, message)."""
    for number, line in lines:
        yield from ((number, what) for what in banned_words(line))
