"""Columns that keep the phrases of texts, so that a page can show what was stored in the language of its reader.

The English text is in the row as it was: filters, exports, the audit log and the API read it alone.
"""

from collections.abc import Mapping
from typing import Any, Self

from django.db import models

from dbops.engine.phrases import Phrase, packed, unpacked

#: The key of the packed phrases in an object of JSON. No reader of the column sees it.
KEY = "_phrases"
#: How the columns of phrases end.
END = "_phrase"


class PhrasesField(models.JSONField):
    """JSON in which the texts of objects, and of lists in them, stay phrases."""

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:  # noqa: FBT001, FBT002 - Django's
        return super().get_db_prep_value(_with_packed(value), connection, prepared)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return _without_packed(super().from_db_value(value, expression, connection))


def _with_packed(value: Any) -> Any:
    if isinstance(value, Mapping):
        made = {name: _with_packed(part) for name, part in value.items()}
        phrases = {name: data for name, part in value.items() if (data := _packed(part))}
        return {**made, KEY: phrases} if phrases else made
    if isinstance(value, list | tuple):
        return [_with_packed(part) for part in value]
    return value


def _packed(part: Any) -> Any:
    """Return the phrase of a text, or those of the texts of a list by their place; ``None`` or nothing where there is none."""
    if isinstance(part, list | tuple):
        return {str(place): packed(text) for place, text in enumerate(part) if isinstance(text, Phrase)}
    return packed(part)


def _without_packed(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_packed(part) for part in value]
    if not isinstance(value, dict):
        return value
    phrases = value.pop(KEY, {})
    made = {name: _without_packed(part) for name, part in value.items()}
    for name, data in phrases.items() if isinstance(phrases, dict) else ():
        text = made.get(name)
        if isinstance(text, str):
            made[name] = unpacked(data, text)
        elif isinstance(text, list) and isinstance(data, dict):
            made[name] = [
                unpacked(data[str(place)], one) if isinstance(one, str) and str(place) in data else one
                for place, one in enumerate(text)
            ]
    return made


class PhraseField(models.JSONField):
    """The phrase of another column of the row, a text whose name this one's begins with: ``text_phrase`` of ``text``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"null": True, "editable": False, **options})

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:  # noqa: FBT001 - Django's
        return packed(getattr(model_instance, text_of(self.attname)))


class Phrased(models.Model):
    """A row with ``PhraseField``: its texts are phrases when it is read."""

    class Meta:
        abstract = True

    @classmethod
    def from_db(cls, *arguments: Any, **options: Any) -> Self:
        row = super().from_db(*arguments, **options)
        known = vars(row)
        for name in [name for name in known if name.endswith(END) and known[name]]:
            if text_of(name) in known:
                known[text_of(name)] = unpacked(known[name], known[text_of(name)])
        return row


def text_of(name: str) -> str:
    """Return the column of the text whose phrase a column keeps."""
    return name.removesuffix(END)


def with_phrases(**texts: str) -> dict[str, Any]:
    """Return columns for ``QuerySet.update``: texts, and the phrase of each."""
    return texts | {f"{name}{END}": packed(text) for name, text in texts.items()}
