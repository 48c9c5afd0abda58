"""The resume follow-up: continue with a complete copy from the first step that is not done."""

from dbops.engine.methods import xbstream
from dbops.engine.phrases import phrase
from dbops.engine.planning.method import Method
from dbops.engine.rebuilds.follow_ups import RESUME, RESUMED_STEPS
from dbops.engine.rebuilds.steps.finish.clean_up import CleanUp
from dbops.engine.rebuilds.steps.preflight.resume_check import ResumeCheck

METHOD = Method(
    name=RESUME,
    noun=phrase("resume"),
    summary=phrase("Resume the copy of a failed rebuild from the first step that is not done."),
    steps=(ResumeCheck(), *RESUMED_STEPS, CleanUp()),
    conflicts=xbstream.METHOD.conflicts,
    checks=(),
    is_follow_up=True,
)
