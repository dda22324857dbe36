"""The C extension. Everything else about the package is in pyproject.toml.

Environment variables that change the build, for developers:
  PYEXFAT_WERROR=1           every warning is an error
  PYEXFAT_SANITIZE=a,b       -fsanitize=a,b
  PYEXFAT_COVERAGE=1         count executed lines (gcov)
  CC=clang                   another compiler
Each variant has a build folder of its own, so that object files never mix.
"""

import os
import sysconfig
from glob import glob
from multiprocessing.pool import ThreadPool
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sanitize = os.environ.get("PYEXFAT_SANITIZE", "")
coverage = os.environ.get("PYEXFAT_COVERAGE") == "1"
werror = os.environ.get("PYEXFAT_WERROR") == "1"
free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

compiler = os.path.basename(os.environ.get("CC", ""))
parts = [compiler, sanitize.replace(",", "-"), "coverage" if coverage else ""]
variant = "-".join(filter(None, parts))
cflags = ["-O2", "-std=c11", "-pthread", "-fvisibility=hidden", "-Wall", "-Wextra"]
ldflags = ["-pthread"]
if werror:
    # -isystem, because the strict flags are for our code and not for Python's headers.
    cflags += ["-isystem", sysconfig.get_path("include"), "-Wpedantic", "-Wconversion", "-Wshadow"]
    cflags += ["-Wstrict-prototypes", "-Werror"]
if sanitize or coverage:
    cflags += ["-O1", "-g", "-UNDEBUG", "-fno-omit-frame-pointer"]
if sanitize:
    # Python's own flags define signed overflow, which would hide it from the sanitizer.
    cflags += [f"-fsanitize={sanitize}", "-fno-sanitize-recover=all", "-fno-wrapv"]
    ldflags += [f"-fsanitize={sanitize}"]
if coverage:
    cflags += ["--coverage", "-fprofile-update=atomic"]
    ldflags += ["--coverage"]


class ParallelBuild(build_ext):
    """Compiles the files of the one extension side by side."""

    def build_extensions(self) -> None:
        compile_some = self.compiler.compile

        def compile_all(sources: list[str], *args: Any, **kwargs: Any) -> list[str]:
            with ThreadPool(os.cpu_count()) as pool:
                objects = pool.map(lambda one: compile_some([one], *args, **kwargs), sources, 1)
            return [name for group in objects for name in group]

        self.compiler.compile = compile_all
        super().build_extensions()


core = Extension(
    "pyexfat._core",
    sources=sorted(glob("csrc/**/*.c", recursive=True)),
    depends=sorted(glob("csrc/**/*.h", recursive=True)),
    include_dirs=["csrc"],
    define_macros=[] if free_threaded else [("Py_LIMITED_API", "0x030B0000")],
    extra_compile_args=cflags,
    extra_link_args=ldflags,
    py_limited_api=not free_threaded,
)

options: dict[str, dict[str, str]] = {}
if variant:
    options["build"] = {"build_base": f"build/python-{variant}"}
if not free_threaded:
    options["bdist_wheel"] = {"py_limited_api": "cp311"}

setup(ext_modules=[core], cmdclass={"build_ext": ParallelBuild}, options=options)
