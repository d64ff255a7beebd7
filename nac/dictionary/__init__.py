"""The dictionaries of the cell's radiusd, uploaded by its agent.

The agent uploads `to_json(read_dictionary(<dictionary folder>/dictionary, <raddb>/dictionary))` with
`nac.cells.service.upload_dictionary`. Pass `from_json` of it to `compile_policy(..., replies=...)`.
"""

from nac.dictionary.codec import DictionaryUnreadable, from_json, to_json
from nac.dictionary.model import Dictionary, DictionaryAttribute, VendorFormat
from nac.dictionary.parser import DictionaryDamaged, read_dictionary

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
