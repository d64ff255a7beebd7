"""The RADIUS dictionaries of a cell's radiusd. The agent of the cell uploads the dictionaries to PostgreSQL.

The agent reads the files with `read_dictionary` and uploads the result of `to_json`. Pass the result of `from_json` to
`compile_policy(..., replies=...)`, which then checks replies.
"""

from nac.engine.dictionary.codec import DictionaryUnreadable, from_json, to_json
from nac.engine.dictionary.model import Dictionary, DictionaryAttribute, VendorFormat
from nac.engine.dictionary.parser import DictionaryDamaged, read_dictionary

__all__ = [
    "Dictionary",
    "DictionaryAttribute",
    "DictionaryDamaged",
    "DictionaryUnreadable",
    "VendorFormat",
    "from_json",
    "read_dictionary",
    "to_json",
]
