"""The dictionaries of the cell's radiusd, uploaded by its agent.

The agent uploads `to_json(read_dictionary(<dictionary folder>/dictionary, <raddb>/dictionary))` with
`nac.tenancy.cells.service.upload_dictionary`. Pass `from_json` of it to `compile_policy(..., replies=...)`.
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
