"""Where a checkpoint has what is left of a full certificate, and what was compared of it."""

#: Of a rebuild: what is left for the comparison after it, without values of keys.
REST = "certificate.rest"
#: Of the comparison after it: what was compared.
RECORD = "comparison"
#: The error of a comparison that found differing rows.
DIFFERS = "comparison.differs"
