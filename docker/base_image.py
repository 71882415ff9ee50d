"""Makes a base image for the Dockerfile without a registry: Debian with Python, by debootstrap and `docker import`.

    python docker/base_image.py [--tag minikafka-base] [--suite bookworm] [--mirror URL]

Needs root, debootstrap, and a mirror of Debian.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

TAG = "minikafka-base"
SUITE = "bookworm"
PACKAGES = ("python3-minimal", "python3-venv")
NOT_NEEDED = (
    "var/cache/apt/*", "var/lib/apt/lists/*", "var/log/*", "usr/share/doc/*", "usr/share/man/*", "usr/share/info/*",
    "usr/share/locale/*", "usr/share/lintian/*", "tmp/*", "root/.*",
)  # fmt: skip


def make(tag: str = TAG, *, suite: str = SUITE, mirror: str | None = None) -> None:
    """Make the image. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory(prefix="minikafka-base-") as folder:
        root = Path(folder) / "root"
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, str(root)]
        subprocess.run([*command, *([mirror] if mirror else [])], check=True)
        for pattern in NOT_NEEDED:
            for path in root.glob(pattern):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as tar:
            subprocess.run(["docker", "import", "-", tag], stdin=tar.stdout, check=True)
        if tar.returncode:
            raise subprocess.CalledProcessError(tar.returncode, "tar")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tag", default=TAG)
    parser.add_argument("--suite", default=SUITE)
    parser.add_argument("--mirror")
    options = parser.parse_args()
    make(options.tag, suite=options.suite, mirror=options.mirror)


if __name__ == "__main__":
    main()
