"""Go on with a copy that is whole, from the first step that is not done."""

from dbops.engine.methods.base import Method
from dbops.engine.steps.bring_up import Own, Prepare, Start
from dbops.engine.steps.catch_up import CatchUp
from dbops.engine.steps.clean_up import CleanUp
from dbops.engine.steps.recheck import Recheck
from dbops.engine.steps.repoint import Repoint
from dbops.engine.steps.verify import Verify

METHOD = Method(
    name="retry",
    summary="Go on with the copy of a failed rebuild, from the first step that is not done.",
    steps=(Recheck(), Prepare(), Own(), Start(), CatchUp(), Repoint(), Verify(), CleanUp()),
)
