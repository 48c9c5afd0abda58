"""Who replicates from whom: what a discovery found, what it proposes, how it differs from what is stored, how it is drawn."""
