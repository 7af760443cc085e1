"""Found first on the path of a lying site's processes; the ones that answer are changed."""

import os
import sys

if any("worker_process" in part for part in sys.orig_argv):
    import lies
    import prying

    if os.environ.get(prying.NOTES):
        prying.install()
    else:
        lies.install()
