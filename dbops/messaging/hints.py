"""Read a hint from a raw message of the queue. Anyone who reaches Redis can write there, so nothing of it is believed."""

import base64
import json
from typing import Any
from uuid import UUID, uuid4

#: Module of the worker's tasks.
TASKS = "dbops.worker.tasks"
#: A hint has few small numbers. Python's limit for numbers is far higher, the databases' is 2**63.
MOST_ARGUMENTS, LARGEST = 4, 2**63 - 1


def checked_message(raw: Any, queue: str) -> dict[str, Any]:
    """Return a new message of what a hint needs: the task, its numbers and its id.

    Args:
        raw: a decoded message of the queue, in version 2 of Celery's protocol.
        queue: where it was.

    Raises:
        ValueError, TypeError, LookupError: it is no hint of dbops.
    """
    headers = raw["headers"]
    task = headers["task"]
    if not (isinstance(task, str) and task.startswith(f"{TASKS}.") and task.count(".") == TASKS.count(".") + 1):
        raise ValueError("the task is not one of dbops")
    identity = str(UUID(headers["id"]))
    return {
        "body": base64.b64encode(json.dumps([_numbers(raw), {}, {}]).encode()).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {
            **{"lang": "py", "task": task, "id": identity, "root_id": identity, "retries": 0},
            **{"timelimit": [None, None], "argsrepr": "", "kwargsrepr": "", "ignore_result": True},
        },
        "properties": {
            **{"correlation_id": identity, "reply_to": "", "delivery_mode": 2, "priority": 0},
            **{"body_encoding": "base64", "delivery_tag": str(uuid4())},
            "delivery_info": {"exchange": "", "routing_key": queue},
        },
    }


def _numbers(raw: Any) -> list[int]:
    """Return the arguments of a hint, which are ids of rows."""
    body = json.loads(base64.b64decode(raw["body"], validate=True))
    if not (isinstance(body, list) and len(body) == 3 and isinstance(body[0], list) and body[1] == {}):
        raise ValueError("the body is not that of a hint")
    numbers: list[int] = body[0]
    if len(numbers) > MOST_ARGUMENTS:
        raise ValueError("a hint has few arguments")
    if not all(type(number) is int and 0 <= number <= LARGEST for number in numbers):
        raise ValueError("the arguments of a hint are ids of rows")
    return numbers
