"""One process of a race: reads an order a line, waits for its moment, does it, answers a line."""

import json
import os
import sys
import time
import traceback

import django


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dbops.settings")
    django.setup()
    from django.conf import settings

    from dbops.messaging import updates, wakeups
    from tests.databases import api_deeds, backup_deeds, deeds, notification_deeds, shared_deeds

    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    # The hints to the broker and to the pages are only hints: there is neither here.
    wakeups.publish = lambda *_: None  # type: ignore[assignment]
    updates.announce = lambda *_: None  # type: ignore[assignment]
    updates.announce_many = lambda *_: None  # type: ignore[assignment]
    known = {**deeds.DEEDS, **backup_deeds.DEEDS, **shared_deeds.DEEDS, **notification_deeds.DEEDS, **api_deeds.DEEDS}
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        order = json.loads(line)
        while time.time() < order["at"]:
            pass
        try:
            answer = {"answer": known[order["deed"]](*order["arguments"])}
        except Exception:
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
