"""The title of a step, for rows that store only the step's name."""

from django.db.models import OuterRef, Subquery

from dbops.models import RebuildStep

#: Annotates events and commands with the title on the rebuild's page; ``None`` without such a step. No further query.
STEP_TITLE = Subquery(
    RebuildStep.objects.filter(rebuild=OuterRef("rebuild"), name=OuterRef("step")).order_by().values("title")[:1]
)
