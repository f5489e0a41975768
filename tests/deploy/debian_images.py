"""Images like the two that deploy/Dockerfile begins with, made of Debian's packages; and the image of gw, built from them and checked.

    python -m tests.deploy.debian_images [--keep]

For a machine that reaches Debian's packages and PyPI, but no registry of images: the Dockerfile itself is run, unchanged, by Podman.
Needs root, mmdebstrap, podman and runc (Debian packages). Takes about three minutes, most of it downloads.

Packages of the second image: GoogleContainerTools/distroless python3/python.bzl, and those of the images that it is based on (cc, base,
static) there. What only a registry can show is not shown: that these two are, byte by byte, what it would send.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITE = "bookworm"
SLIM, DISTROLESS = "docker.io/library/debian:bookworm-slim", "gcr.io/distroless/python3-debian12:nonroot"
IMAGE = "localhost/gw"
OF_STATIC = ("base-files", "netbase", "tzdata", "ca-certificates")
OF_CC = ("libc6", "libssl3", "libgcc-s1", "gcc-12-base", "libgomp1", "libstdc++6")
OF_PYTHON = (
    "libbz2-1.0", "libdb5.3", "libexpat1", "liblzma5", "libsqlite3-0", "libuuid1", "libncursesw6", "libtinfo6", "python3-distutils",
    "zlib1g", "libcom-err2", "libcrypt1", "libgssapi-krb5-2", "libk5crypto3", "libkeyutils1", "libkrb5-3", "libkrb5support0", "libnsl2",
    "libreadline8", "libtirpc3", "libffi8", "libpython3.11-minimal", "libpython3.11-stdlib", "python3.11-minimal",
)  # fmt: skip
USERS = f"root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:{Path('/', 'home', 'nonroot')}:/sbin/nologin\n"
GROUPS = "root:x:0:\nnonroot:x:65532:\n"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
PIP = Path("/etc/pip.conf")
"""Where this machine has packages from; the build sees it, the image does not have it."""
LIMITS = "--ulimit nofile=1024:1024 --ulimit nproc=1024:1024"
"""Podman raises both otherwise, which root may not do everywhere."""


def run(*command: str | Path) -> None:
    print("+", shlex.join(map(str, command)), flush=True)
    subprocess.run([*map(str, command)], cwd=ROOT, check=True)


def engine(folder: Path) -> list[str]:
    """Return the command of Podman with all of its files in `folder`."""
    where = ("--root", str(folder / "images"), "--runroot", str(folder / "run"))
    return ["podman", *where, "--storage-driver", "overlay", "--runtime", "runc", "--cgroup-manager", "cgroupfs"]


def slim_image(podman: Sequence[str], folder: Path) -> None:
    """Make the first image, and leave the packages of the second one in `folder`/packages."""
    archive = folder / "slim.tar"
    download = f"mkdir /packages && cd /packages && apt-get download -qq {shlex.join(sorted({*OF_STATIC, *OF_CC, *OF_PYTHON}))}"
    hooks = (f'chroot "$1" sh -euc {shlex.quote(download)}', f"copy-out /packages {shlex.quote(str(folder))}", 'rm -r "$1/packages"')
    lenient = "--aptopt=Acquire::Check-Valid-Until false"  # a mirror may be a snapshot
    run("mmdebstrap", "--quiet", "--variant=minbase", lenient, *(f"--customize-hook={hook}" for hook in hooks), SUITE, archive)
    run(*podman, "import", "--quiet", archive, SLIM)


def distroless_image(podman: Sequence[str], folder: Path) -> None:
    """Make the second image: unpacked packages, without dpkg and what it would run."""
    tree, archive = folder / "tree", folder / "distroless.tar"
    tree.mkdir()
    for package in sorted((folder / "packages").glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", str(package), str(tree)], check=True)
    bundle = b"".join(path.read_bytes() for path in sorted((tree / "usr/share/ca-certificates/mozilla").glob("*.crt")))
    (tree / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
    (tree / CERTIFICATES.removeprefix("/")).write_bytes(bundle)
    (tree / "etc/passwd").write_text(USERS)
    (tree / "etc/group").write_text(GROUPS)
    for name in ("python", "python3"):
        (tree / "usr/bin" / name).symlink_to("python3.11")
    run("tar", "--create", "--file", archive, "--directory", tree, ".")
    run(*podman, "import", "--quiet", "--change", "ENV LANG=C.UTF-8", "--change", "USER 65532", archive, DISTROLESS)


def of_this_machine(folder: Path) -> list[str]:
    """Return options that let pip, while the image is built, have packages from where it has them here."""
    if not PIP.exists():
        return []
    certificates = "/opt/certificates.crt"  # in the place of its own, Debian's package would replace them
    (folder / "pip.conf").write_text(PIP.read_text().replace(CERTIFICATES, certificates))
    return [f"--volume={folder / 'pip.conf'}:{PIP}:ro", f"--volume={CERTIFICATES}:{certificates}:ro"]


def build(podman: Sequence[str], folder: Path) -> None:
    rules = ("--isolation", "chroot", "--pull=never", "--format", "docker", "--ignorefile", "deploy/Dockerfile.dockerignore")
    run(*podman, "build", *rules, *of_this_machine(folder), "--file", "deploy/Dockerfile", "--tag", IMAGE, ".")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="keep the images, and say where they are")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="gw-image-"))
    podman = engine(folder)
    try:
        slim_image(podman, folder)
        distroless_image(podman, folder)
        build(podman, folder)
        check = (sys.executable, "deploy/check_image.py", IMAGE, "--engine", shlex.join(podman), "--run-options", LIMITS)
        ended = subprocess.run(check, cwd=ROOT, check=False)
    finally:
        if options.keep:
            print("the images:", shlex.join(podman), "images")
        else:
            subprocess.run([*podman, "rmi", "--all", "--force"], check=False, stdout=subprocess.DEVNULL)
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(ended.returncode)


if __name__ == "__main__":
    main()
