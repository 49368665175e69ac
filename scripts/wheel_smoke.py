"""Build the wheel and use it as a stranger would: installed, and far from the checkout.

The dependencies are this environment's own, seen through a .pth file. performative is the wheel's:
the .pth file that makes the checkout importable here is not read there.
"""

import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent

USE = """
import sys
import performative as pp
assert pp.__file__.startswith(sys.prefix), pp.__file__
assert "jax" not in sys.modules, "importing performative imports JAX"

still = pp.Gaussian([0.5, 0.0], 1.0)
world = pp.World(
    response=pp.responses.location(0.5, still),
    drift=pp.drifts.fixed(still),
    mixing=pp.mixing.constant(0.2),
    loss=pp.losses.squared(),
    domain=pp.domains.ball(radius=2.0),
    rounds=30,
)
run = pp.simulate(world, pp.learners.rrm(), start=[1.0, 1.0])
assert run.regret("stable").sizes["round"] == 30
run.save("run.nc")
assert pp.load("run.nc").deployed.equals(run.deployed)
pp.worlds.credit(rounds=2)  # its moments are package data
from performative.report import page
assert (page.FOLDER / "reproduction.html").exists(), "the report's template is package data"
print("the wheel imports, simulates, saves and loads")
"""


def build(folder: Path) -> Path:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder]
    subprocess.run([*command, CHECKOUT], check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """The folder of programs of a new environment that holds nothing but the wheel."""
    venv.create(folder, symlinks=True)
    bin = folder / "bin"
    pip = [sys.executable, "-m", "pip", "--python", bin / "python"]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", wheel], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return bin


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        bin = install(build(folder / "dist"), folder / "venv")
        desk = folder / "desk"
        desk.mkdir()
        subprocess.run([bin / "python", "-I", "-c", USE], check=True, cwd=desk)
        subprocess.run([bin / "performative", "--help"], check=True, cwd=desk)
