"""Builds the C library of ../c into the wheel: the package loads it with ctypes."""

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

C = Path("../c")


class Library(build_ext):
    """A plain shared library instead of a Python module: no initialisation function, no ABI in its name."""

    def get_ext_filename(self, name: str) -> str:
        return name.replace(".", "/") + ".so"

    def get_export_symbols(self, extension: Extension) -> list[str]:
        return []


setup(
    ext_modules=[
        Extension(
            "ogive.libogive_hist",
            sources=[str(C / "src" / f"{part}.c") for part in ("bin", "codec", "hdr", "histogram", "placement", "recorder", "statistics")],
            extra_compile_args=["-std=c11", "-O2", "-ffp-contract=off"],
        )
    ],
    cmdclass={"build_ext": Library},
)
