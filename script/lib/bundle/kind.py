"""Print the kind of Python and machine that compiled packages are for, such as cp311-linux_x86_64."""

import platform
import sys
import sysconfig

if __name__ == "__main__":
    libc = "" if platform.libc_ver()[0] == "glibc" else "-other_libc"
    system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    print(f"cp{sys.version_info.major}{sys.version_info.minor}-{system}{libc}")
