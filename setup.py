"""Builds wheels: puts the subpackages, which are top-level folders of the repository, into `minikafka`.

pyproject.toml declares only the two packages in `package/`. An editable install is therefore a `.pth` file that names
this folder, and `minikafka` a regular package: a folder `./minikafka`, which holds a checkout, cannot shadow it.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
SUBPACKAGES = ("broker", "cli", "client", "controller", "protocol", "spark_connector", "storage", "testing")


def folders() -> list[str]:
    """Every folder with an `__init__.py` in the subpackages, relative to the repository."""
    files = (file for name in SUBPACKAGES for file in (ROOT / name).rglob("__init__.py"))
    return sorted(file.parent.relative_to(ROOT).as_posix() for file in files)


class BuildWithSubpackages(build_py):
    """Adds the subpackages to what is built or goes into a source distribution, except for an editable install."""

    def finalize_options(self) -> None:
        super().finalize_options()
        if self.editable_mode:
            return
        subpackages = {"minikafka." + folder.replace("/", "."): folder for folder in folders()}
        self.packages = [*self.packages, *subpackages]
        self.package_dir = {**self.package_dir, **subpackages}

    def run(self) -> None:
        """Build from an empty folder: setuptools would ship modules of an earlier build that have since gone."""
        shutil.rmtree(Path(self.build_lib) / "minikafka", ignore_errors=True)
        super().run()


setup(cmdclass={"build_py": BuildWithSubpackages})
