"""A stream that a person has slowed down: the wish is carried to the target's host, which holds the transport back by itself.

Nothing has to be alive for it there but the stream's own job, and where nobody asks for it nothing is slowed, not even by being counted.
"""

from dbops.engine.scripts import load
from dbops.engine.states import Level
from dbops.engine.steps.run import IN_BASH, Run

SHOWN = "stream.rate"
MIB = 1024**2


def pass_rate_on(run: Run) -> None:
    """Tell the target's host the rate that is wanted now, where it is another than before. Raises as ``Jobs.act``."""
    wanted = run.stream_rate()
    if wanted == run.memory.get(SHOWN):
        return
    run.journal.check()
    run.target.jobs.act(IN_BASH, load("set_rate"), str(wanted or ""))
    run.memory[SHOWN] = wanted
    text = f"The stream is held to {wanted / MIB:.1f} MiB/s." if wanted else "The stream goes at full speed."
    run.journal.say(text, level=Level.WARNING if wanted else Level.INFO, host=run.target.party.host)
