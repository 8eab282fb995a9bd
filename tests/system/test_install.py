"""The README's install lines, as a stranger types them: a wheel built from a clone, into an empty environment, by pip and by uv.

They need the package registry, so `make test` leaves them out; pip and uv find it as the machine tells them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.soak, pytest.mark.timeout(3000)]

#: What somebody does first with what was installed.
FIRST_STEPS = """
schemamig --version
schemamig init lake_release
schemamig snapshot --release lake_release
schemamig check --release lake_release
schemamig upgrade --create --env lake --release lake_release
schemamig jars
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What git has, so that nothing of this checkout's own environment goes along."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        target = tmp_path / "clone" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    return tmp_path / "clone"


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_the_install_lines_work_in_an_empty_environment(tool: str, clone: Path, tmp_path: Path) -> None:
    lines = _install_lines()
    if tool == "uv":
        lines = ["uv build --wheel", *(re.sub(r"^pip install", "uv pip install", line) for line in lines[1:])]
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    environment = _environment(venv)
    _bash("\n".join(lines), clone, environment)
    (tmp_path / "elsewhere").mkdir()
    said = _bash(FIRST_STEPS, tmp_path / "elsewhere", environment)
    assert said.startswith("schemamig 0.1.0\n")
    where = _bash("python -c 'import airflow_provider_schemamig as a; print(a.__file__)'", tmp_path / "elsewhere", environment)
    assert where.startswith(str(venv)), "it is not the wheel that was tried"


def test_install_there_is_a_line_for_each_step() -> None:
    assert [line.split()[:2] for line in _install_lines()] == [["pip", "wheel"], ["pip", "install"], ["schemamig", "jars"]]


@pytest.mark.skipif(shutil.which("javac") is None, reason="what javac makes of it is the yardstick")
def test_without_javac_the_log_store_is_compiled_by_ecj_to_the_same_class(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for program in ("java", "env", "sh", "bash"):
        (tmp_path / "bin" / program).symlink_to(Path(shutil.which(program) or program).resolve())
    elsewhere = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "JDK_HOME")}
    made = {}
    for compiler, path in (("javac", os.environ["PATH"]), ("ecj", str(tmp_path / "bin"))):
        folder = tmp_path / compiler
        code = f"from pathlib import Path; from ops.log_store.build import build; build(Path({str(folder)!r}))"
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={**elsewhere, "PATH": path, "PYTHONPATH": str(ROOT)}, check=True)
        asked = ["javap", "-private", "-cp", str(folder / "schemamig-log-store.jar"), "schemamig.ConditionalLogStore"]
        members = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        # Each compiler has helpers of its own for lambdas.
        made[compiler] = {line.strip() for line in members.splitlines() if "lambda$" not in line and not line.startswith("Compiled from")}
    assert made["ecj"] == made["javac"] and any("write(" in line for line in made["ecj"])


def _install_lines() -> list[str]:
    section = (ROOT / "README.md").read_text().split("## Install\n")[1]
    return [line.split("  #")[0].strip() for line in section.split("```")[1].strip().splitlines()]


def _environment(venv: Path) -> dict[str, str]:
    """A login's environment with the virtual environment active; uv reads pip's settings for a registry only from here."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SCHEMAMIG_", "PYTHON", "SPARK_"))}
    made = {**kept, "VIRTUAL_ENV": str(venv), "PATH": f"{venv}/bin:{os.environ['PATH']}", "TERM": "dumb"}
    if not shutil.which("uv", path=made["PATH"]):
        made["PATH"] += f":{Path(sys.executable).parent}"
    for name, setting in (("UV_DEFAULT_INDEX", "index-url"), ("SSL_CERT_FILE", "cert")):
        asked = subprocess.run([venv / "bin/pip", "config", "get", f"global.{setting}"], capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            made.setdefault(name, asked.stdout.strip())
    return made


def _bash(script: str, folder: Path, environment: dict[str, str]) -> str:
    ran = subprocess.run(["bash", "-ec", script], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    return ran.stdout
