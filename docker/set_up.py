"""Sets up what the containers need: an engine, a base image, wheels, and the image `minikafka`.

    python docker/set_up.py [--check]

As root on Debian or Ubuntu it installs what is missing with apt, and starts the daemon; else it says what is missing.
The base image is pulled from a registry, or made by `base_image.py` where there is none. The wheels are downloaded to
`build/wheels`. With --check it only says whether there is an engine, and exits with 1 if there is none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import base_image

ROOT = Path(__file__).resolve().parents[1]
WHEELS = "build/wheels"
IMAGE = "minikafka"
FROM_REGISTRY = "python:3.13-slim-bookworm"
PULL_S, START_S = 120, 60
PACKAGES = {"dockerd": "docker.io", "docker-compose": "docker-compose", "debootstrap": "debootstrap"}
"""Programs, and their packages in Debian."""
DAEMON_LOG = Path("/var/log/minikafka-dockerd.log")


def main() -> None:
    if "--check" in sys.argv[1:]:
        sys.exit(None if answers() else "no container engine answers `docker info`")
    set_up_engine()
    base = set_up_base_image()
    download_wheels(base)
    build(base)


def answers() -> bool:
    """Whether there is an engine."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


def has_compose() -> bool:
    """Whether there is docker-compose, or Compose v2."""
    if shutil.which("docker-compose"):
        return True
    return subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0


def set_up_engine() -> None:
    """Install and start the engine. Exits with what is missing where this process may not do it."""
    if answers() and has_compose():
        return
    missing = [name for name in ("dockerd", "docker-compose") if shutil.which(name) is None]
    if os.geteuid() != 0:
        wanted = f"install {' and '.join(missing)}" if missing else "start the daemon, or join the group docker"
        sys.exit(f"no container engine answers, and this is not root: {wanted}, or run this as root")
    install(missing)
    if not answers():
        start_daemon()


def install(programs: list[str]) -> None:
    """Install programs by apt. Exits where there is no apt."""
    if not programs:
        return
    packages = [PACKAGES[one] for one in programs]
    if shutil.which("apt-get") is None:
        sys.exit(f"apt-get is not there: install {' '.join(programs)} in another way")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-q"], check=True, env=environment)
    command = ["apt-get", "install", "-q", "-y", "--no-install-recommends", *packages]
    subprocess.run(command, check=True, env=environment)


def start_daemon() -> None:
    """Start dockerd, which outlives this process. Exits if it does not answer within a minute."""
    print(f"starting dockerd; its log is {DAEMON_LOG}")
    with DAEMON_LOG.open("ab") as log:
        subprocess.Popen(["dockerd"], stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + START_S
    while not answers():
        if time.monotonic() > deadline:
            sys.exit(f"dockerd does not answer within {START_S} s: see {DAEMON_LOG}")
        time.sleep(0.5)


def set_up_base_image() -> str:
    """The name of the base image, which is there afterwards."""
    for name in (FROM_REGISTRY, base_image.TAG):
        if subprocess.run(["docker", "image", "inspect", name], capture_output=True, check=False).returncode == 0:
            return name
    if _pulled(FROM_REGISTRY):
        return FROM_REGISTRY
    print("no registry can be reached: the base image is made by debootstrap")
    if os.geteuid() != 0:
        sys.exit("debootstrap needs root: run this as root, or make a base image on another machine")
    install([one for one in ("debootstrap",) if shutil.which(one) is None])
    base_image.make()
    return base_image.TAG


def _pulled(name: str) -> bool:
    try:
        return subprocess.run(["docker", "pull", "-q", name], check=False, timeout=PULL_S).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def download_wheels(base: str) -> None:
    """Download wheels of all dependencies, and of what builds ours, for the Python of the base image."""
    asked = ["docker", "run", "--rm", base, "python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    version = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    folder = ROOT / WHEELS
    stamp = folder / f"for-{version}"
    if stamp.exists() and stamp.stat().st_mtime > (ROOT / "pyproject.toml").stat().st_mtime:
        return
    shutil.rmtree(folder, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    only = ["--only-binary=:all:", "--python-version", version, "--dest", str(folder)]
    subprocess.run([*pip, *only, *requirements()], check=True)
    stamp.touch()


def requirements() -> list[str]:
    """The dependencies in pyproject.toml, those of the build included."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [*project["project"]["dependencies"], *project["build-system"]["requires"], "wheel"]


def build(base: str) -> None:
    """Build the image `minikafka` of this checkout."""
    arguments = ["--build-arg", f"BASE_IMAGE={base}", "--build-arg", f"WHEELS={WHEELS}"]
    subprocess.run(["docker", "build", "--quiet", *arguments, "--tag", IMAGE, str(ROOT)], check=True)


if __name__ == "__main__":
    main()
