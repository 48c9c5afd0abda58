"""Go on with a copy that is whole, from the first step that is not done."""

from dbops.engine.rebuilds.methods.base import Method
from dbops.engine.rebuilds.steps.finish.clean_up import CleanUp
from dbops.engine.rebuilds.steps.finish.verify import Verify
from dbops.engine.rebuilds.steps.preflight.resume_check import ResumeCheck
from dbops.engine.rebuilds.steps.replicate.catch_up import CatchUp
from dbops.engine.rebuilds.steps.replicate.repoint import Repoint
from dbops.engine.rebuilds.steps.start.prepare_and_start import Prepare, SetOwnership, StartServer

METHOD = Method(
    name="resume",
    summary="Go on with the copy of a failed rebuild, from the first step that is not done.",
    steps=(ResumeCheck(), Prepare(), SetOwnership(), StartServer(), CatchUp(), Repoint(), Verify(), CleanUp()),
)
