"""An authenticator app for tests: RFC 6238, apart from the library that checks its codes."""

import base64
import hashlib
import hmac
import struct


def code(secret: str, at: float) -> str:
    """Return the six digits that an app with this secret shows at a time."""
    digest = hmac.new(base64.b32decode(secret), struct.pack(">Q", int(at) // 30), hashlib.sha1).digest()
    offset = digest[-1] & 15
    value = struct.unpack(">I", digest[offset : offset + 4])[0] & 0x7FFFFFFF
    return f"{value % 1_000_000:06}"
