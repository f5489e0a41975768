"""The environment of helper processes: what a program needs to run, and none of the gateway's secrets.

Engines run code and models of others, and every process of this user can read their environment, as can a crash report. So they
get an allow-list of what they inherit, not everything that is known to be secret: API keys have any name that gw.yaml gives them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_ALLOWED = re.compile(
    r"""
    PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TZDIR|TMPDIR|TEMP|TMP|XDG_\w+_(HOME|DIR|DIRS)|SYSTEMROOT
    |PYTHON(PATH|HOME|UTF8|IOENCODING|DONTWRITEBYTECODE|PYCACHEPREFIX|MALLOC|FAULTHANDLER|HASHSEED|NOUSERSITE|SAFEPATH)|VIRTUAL_ENV
    |MALLOC_\w+|LD_LIBRARY_PATH|LD_PRELOAD|DYLD_\w+                       # libraries; an allocator that was chosen for them
    |(OMP|MKL|OPENBLAS|GOMP|KMP|NUMEXPR|VECLIB|BLIS|GOTO|CT2|ORT|ONNX|ONNXRUNTIME|TBB)_\w+      # threads and number formats
    |(CUDA|CUDNN|CUBLAS|NVIDIA|NCCL|HIP|ROCM|ROCR|HSA|GPU|TORCH|ZE|ONEAPI|OPENVINO|METAL)_\w+   # which device
    |(HF|HUGGINGFACE|HUGGINGFACE_HUB|TRANSFORMERS)_\w+                    # where models are kept, and if they are downloaded
    |(ESPEAK|PHONEMIZER|PIPER|WHISPER|KOKORO)_\w+
    |SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|((HTTPS?|ALL|NO)_PROXY)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASS|PWD|CREDENTIAL|AUTH|COOKIE|SESSION", re.IGNORECASE)
_PASSWORD_IN_ADDRESS = re.compile(r"//[^/]*@")


def child_environment(inherited: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables that a helper process gets. `inherited` is this process's environment unless it is passed."""
    variables = os.environ if inherited is None else inherited
    return {
        name: value for name, value in variables.items()
        if _ALLOWED.fullmatch(name) and not _SECRET_NAME.search(name) and not _PASSWORD_IN_ADDRESS.search(value)
    }  # fmt: skip
